"""Functions of a column beside pandas, numpy and scipy: the same value for every query.

The world: 60 queries with lists of 0 to 12 items, scores that all differ, grades 0 to 3, and items
and labels some of whose values are not known. What the peers compute is written from the words of
the page of metrics; nothing of the package is asked but its numbers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

from conftest import peer
from marked import by_turns

import sqlmetrics as sm

DAY = date(2026, 3, 1)
NEAR = 1e-12
Frame = Any
Value = float | None


def world(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Rankings, labels and items."""
    rng = random.Random(seed)
    names = [f"i{number:02d}" for number in range(30)]

    def sometimes(value: Any) -> Any:
        return value if rng.random() < 0.8 else None

    items = [
        {
            "item_id": name,
            "price": sometimes(round(rng.uniform(1, 90), 2)),
            "in_stock": sometimes(rng.random() < 0.6),
            "seller": sometimes(rng.choice(("ann", "bob", "cy"))),
            "published": sometimes(DAY - timedelta(days=rng.randrange(400))),
        }
        for name in names
    ]
    rankings, labels = [], []
    for query in (f"q{number:02d}" for number in range(60)):
        retrieved = rng.sample(names, rng.choice((0, 1, 2, 5, 12)))
        rankings += [
            {"query_id": query, "item_id": name, "score": -float(position), "day": DAY}
            for position, name in enumerate(retrieved)
        ]
        labels += [
            {
                "query_id": query,
                "item_id": name,
                "grade": float(rng.randrange(4)),
                "revenue": sometimes(round(rng.uniform(0, 50), 2)),
            }
            for name in rng.sample(names, rng.randrange(1, 25))
        ]
    return {"rankings": rankings, "labels": labels, "items": items}


def weights(rows: Frame) -> Any:
    """What each rank is worth: 1 / log2(rank + 1)."""
    return 1 / peer("numpy").log2(rows["rank"].to_numpy() + 1)


def mean(rows: Frame, column: str, *, discounted: bool = False) -> Value:
    """The mean of a column, of the rows that have a value."""
    rows = rows.dropna(subset=[column])
    weight = weights(rows) if discounted else None
    values = rows[column].astype(float)
    return peer("numpy").average(values, weights=weight) if len(rows) else None


def of_prices(rows: Frame, name: str, least: float = 0) -> Value:
    """A function of numpy of the prices of items of a grade."""
    prices = rows.price[rows.grade.fillna(0) >= least].dropna()
    return getattr(peer("numpy"), name)(prices) if len(prices) or name == "sum" else None


def exposure(rows: Frame, targets: Any) -> Value:
    """Half the distance of the sellers' shares from the targets, in the city of blocks."""
    rows = rows.dropna(subset=["seller"])
    shares = rows.assign(weight=weights(rows)).groupby("seller").weight.sum()
    shares = (shares / shares.sum()).reindex(targets.index, fill_value=0.0)
    distance = peer("scipy.spatial.distance").cityblock(shares, targets)
    return distance / 2 if len(rows) else None


def relevant_revenue(rows: Frame) -> Any:
    """What the relevant rows are worth; 0 for others, and where it is not known."""
    return rows.revenue.fillna(0.0).where(rows.grade >= 1, 0.0)


def dcg(rows: Frame) -> float:
    """What the rows are worth, each by the weight of its rank."""
    return float(peer("numpy").dot(relevant_revenue(rows), weights(rows)))


def ratio(top: float, bottom: float) -> Value:
    """A quotient; None if the divisor is 0."""
    return top / bottom if bottom else None


def best(labels: Frame) -> Frame:
    """The labels, those worth most first."""
    ideal = labels.assign(worth=relevant_revenue(labels)).sort_values("worth", ascending=False)
    return ideal.assign(rank=range(1, len(ideal) + 1))


def functions(catalogue: Frame) -> Mapping[str, Callable[[Frame, Frame], Value]]:
    """Metric -> its value of the rows of a list, best first, and of the labels of a query."""
    np = peer("numpy")
    of_all = catalogue.seller.value_counts(normalize=True)
    equal = of_all * 0 + 1 / len(of_all)
    return {
        "mean(price)@5": lambda rows, _: mean(rows.head(5), "price"),
        "mean(price, discounted)@5": lambda rows, _: mean(rows.head(5), "price", discounted=True),
        "mean(age(published))@10": lambda rows, _: mean(rows.head(10), "age"),
        "share(in_stock)@3": lambda rows, _: mean(rows.head(3), "in_stock"),
        "share(in_stock, discounted)@10": lambda rows, _: mean(
            rows.head(10), "in_stock", discounted=True
        ),
        "sum(price)@5": lambda rows, _: of_prices(rows.head(5), "sum"),
        "sum(price, relevant)@10": lambda rows, _: of_prices(rows.head(10), "sum", 1),
        "sum(price, discounted)@5": lambda rows, _: float(
            np.nansum(rows.head(5).price * weights(rows.head(5)))
        ),
        "max(price)@5": lambda rows, _: of_prices(rows.head(5), "max"),
        "min(price, min_grade=2)@10": lambda rows, _: of_prices(rows.head(10), "min", 2),
        "median(price)@10": lambda rows, _: of_prices(rows.head(10), "median"),
        "median(price, relevant)@5": lambda rows, _: of_prices(rows.head(5), "median", 1),
        "exposure(seller)@5": lambda rows, _: exposure(rows.head(5), of_all),
        "exposure(seller, equal)@10": lambda rows, _: exposure(rows.head(10), equal),
        "recall(revenue)@5": lambda rows, labels: ratio(
            math.fsum(relevant_revenue(rows.head(5))), math.fsum(relevant_revenue(labels))
        ),
        "ndcg(revenue)@5": lambda rows, labels: ratio(dcg(rows.head(5)), dcg(best(labels).head(5))),
        "dcg(revenue)@10": lambda rows, _: dcg(rows.head(10)),
    }


@by_turns(3)
def test_functions_of_columns_are_those_of_pandas_and_scipy() -> None:
    pd = peer("pandas")
    tables = world(7)
    rankings, labels, items = (pd.DataFrame(rows) for rows in tables.values())
    items["price"] = items.price.astype(float)
    items["age"] = (pd.Timestamp(DAY) - pd.to_datetime(items.published)).dt.days
    joined = rankings.merge(items, on="item_id").merge(
        labels, on=["query_id", "item_id"], how="left"
    )
    joined = joined.sort_values(["query_id", "score"], ascending=[True, False])
    joined["rank"] = joined.groupby("query_id").cumcount() + 1
    metrics = functions(items)
    result = sm.evaluate(*list(tables.values())[:2], [*metrics], items=tables["items"], date="day")
    values = {row["query_id"]: row for row in result.per_query().to_pylist()}
    assert set(values) == set(rankings.query_id)
    for metric, function in metrics.items():
        column, n_values = sm.parse(metric).column, 0
        for query, row in values.items():
            expected = function(joined[joined.query_id == query], labels[labels.query_id == query])
            assert (row[column] is None) == (expected is None), (metric, query)
            if expected is not None:
                n_values += 1
                assert abs(row[column] - expected) <= NEAR * max(1.0, abs(expected)), (
                    metric,
                    query,
                )
        assert n_values > 15, metric
