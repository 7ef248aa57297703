"""Whether a database gives the numbers that it should: on hard data, with every option."""
