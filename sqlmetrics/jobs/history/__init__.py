"""What runs did: told, taken back, and removed."""
