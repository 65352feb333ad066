"""The processes outside Ray that hold credentials and touch the world."""
