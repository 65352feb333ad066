"""What duly keeps on disk, and the fakes that keep it in memory."""
