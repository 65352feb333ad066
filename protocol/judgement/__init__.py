"""Whether a result is right: checks, verdicts, reports."""
