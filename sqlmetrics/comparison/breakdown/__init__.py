"""Where a difference comes from: slices, queries, the lists of a query."""
