"""Every decision about an evaluation's SQL: keys, sums, ranking, stages, script."""
