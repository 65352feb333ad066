"""The actor that turns a request into a plan."""
