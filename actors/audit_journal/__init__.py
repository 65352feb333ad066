"""The actor that orders and chains events and signs checkpoints."""
