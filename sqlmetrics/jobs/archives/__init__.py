"""What the days of a run held before it, kept for a while."""
