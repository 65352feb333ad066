"""The tools that a tool host can run."""
