"""Answers for assistants: six questions about a spec's numbers, over the Model Context Protocol."""
