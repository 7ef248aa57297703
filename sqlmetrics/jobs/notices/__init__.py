"""What others are told of a run: catalogues what it reads and writes, webhooks that it failed."""
