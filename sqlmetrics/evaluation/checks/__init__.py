"""What bad input is, looking for it, and how it is told."""
