"""The tamper-evident log: tree and checkpoints."""
