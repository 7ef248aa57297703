"""Worth of the labels, row by row."""


def worth_of_labels(items, labels):
    """Sum of the grades."""
    return sum(row["grade"] for row in labels)
