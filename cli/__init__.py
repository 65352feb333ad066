"""The command line: it shows, asks, and signs as the person."""
