"""Pairs and samples as stages of SQL, and the sums of them that leave the warehouse."""
