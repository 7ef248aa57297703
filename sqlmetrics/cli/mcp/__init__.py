"""`sqlmetrics mcp`: the door for assistants."""
