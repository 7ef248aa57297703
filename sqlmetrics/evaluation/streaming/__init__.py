"""Metrics of a training loop: batches of scores in, the numbers of all of them out."""
