"""Estimates with their errors, intervals and p-values; tests of counts and of ranks."""

CONFIDENCE = 0.95
"""The coverage of an interval unless another one is given."""

NOISE = 1e-12
"""Relative differences below it come of the last digits of what was summed, which differ by
engine: they are none."""

TIED = 1e-9
"""Values of a query that are no farther apart are a tie: gains are summed in other orders, too."""
