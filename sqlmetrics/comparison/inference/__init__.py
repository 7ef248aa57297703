"""From sums to what they say: intervals, tests, several at once, a verdict; plain Python."""
