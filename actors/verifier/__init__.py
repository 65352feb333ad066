"""The actor that checks what others did."""
