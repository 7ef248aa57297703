"""Commands about what runs did: told, taken back, and removed."""
