"""How the actors come to life and find each other."""
