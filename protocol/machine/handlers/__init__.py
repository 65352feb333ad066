"""One handler for each stimulus: judge it, and say what happened. See ``table`` for which is called when."""
