"""From sums to what they say: means of two systems, their difference, a verdict; plain Python."""
