"""duly runs agent work as plans that are approved, executed and verified."""

__version__ = "0.1.0"
