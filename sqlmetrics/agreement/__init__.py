"""Labels beside labels: how far judges agree, whom they favour, and what hangs on it."""

DAWID_SKENE = "dawid_skene"
METHODS = ("majority", "mean", "median", "first", DAWID_SKENE)
"""How labels of several judges become one."""
