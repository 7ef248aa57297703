"""Commands on labels beside labels."""
