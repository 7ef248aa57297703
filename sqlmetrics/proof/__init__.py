"""The proof: plain Python, ties, a doctor for databases; numbers of others, examples."""
