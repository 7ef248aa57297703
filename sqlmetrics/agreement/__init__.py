"""Labels beside labels: how far judges agree, whom they favour, and what hangs on it."""
