"""The model hosts: each holds one model's key and makes one schema-constrained, metered call at a time for a run."""
