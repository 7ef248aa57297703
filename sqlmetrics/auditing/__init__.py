"""How much a number depends on what the data leaves open."""
