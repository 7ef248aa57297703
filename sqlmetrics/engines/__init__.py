"""Text -> rows, and tables in and out: one module per engine."""
