"""The actor that keeps plans."""
