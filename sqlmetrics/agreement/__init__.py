"""Labels beside labels: how far judges agree, whom they favour, and what hangs on it."""

DAWID_SKENE, CALIBRATED = "dawid_skene", "calibrated"
METHODS = ("majority", "mean", "median", "first", DAWID_SKENE, CALIBRATED)
"""How labels of several judges become one."""
