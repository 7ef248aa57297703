"""What runs have written, read back: a spec's table by its names, and its days together."""
