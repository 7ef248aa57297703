"""A pandas DataFrame, fractional labels with their own threshold, and several conventions.

Run it with `python examples/frames.py`.
"""

import pandas as pd

import sqlmetrics as sm

rankings = pd.DataFrame(
    {
        "query_id": ["a", "a", "a", "b", "b"],
        "item_id": [11, 12, 13, 21, 22],
        "rank": [1, 2, 3, 1, 2],
    }
)
labels = pd.DataFrame(
    {"query_id": ["a", "a", "b"], "item_id": [12, 13, 29], "grade": [0.4, 0.05, 0.9]}
)


def main() -> None:
    """Clicks a display as grades: at 0.1 an item counts as relevant."""
    result = sm.evaluate(
        rankings,
        labels,
        ["recall(rel=0.1)@3", "mrr(rel=0.1)", "ndcg(gain=linear)@3"],
        rank="rank",
        average_over=["labels", "hits"],
    )
    print(result)
    print(result.to_pandas()[["metric", "k", "value", "n_queries", "n_skipped"]])


if __name__ == "__main__":
    main()
