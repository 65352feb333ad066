"""What is shown: stories, metrics, slices."""
