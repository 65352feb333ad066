"""Slices: what a model is given for one purpose, and nothing more. Everything in them is marked data."""
