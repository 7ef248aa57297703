"""Worth of the labels, row by row."""


def label_worth(items, labels):
    """Sum of the grades."""
    return sum(row["grade"] for row in labels)
