"""`sqlmetrics leaderboard`: systems in order, a table to publish."""
