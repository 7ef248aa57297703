"""The ranked items with what is known of them, and of those above them in the list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.metric import AGE, DAY, Metric, is_column_role, query_column
from sqlmetrics.plan.needs import SumStage
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import identifier

# Columns of the queries, and the day of a query, beside the rows that metrics sum over.

MICROS_A_DAY = "86400000000e0"

OF_LABELS = ("labels", "ideal")
"""Relations whose rows have a day only where the labels have one."""


def micros_of_day(shape: Shape, column: str) -> str:
    """A day as microseconds since 1970-01-01."""
    translation = shape.translation
    return translation.expression(translation.dialect.times.micros, f"cast({column} as date)")


@dataclass(frozen=True)
class QueryColumnsRead:
    """What metrics read of a query itself.

    Attributes:
        shape: What the tables hold.
    """

    shape: Shape

    def joins(self, table: str, texts: Iterable[str]) -> dict[str, list[str]]:
        """The queries table and what it is joined by, if a text reads a column of it.

        Args:
            table: The stage that the texts are of.
            texts: What is selected from it.
        """
        roles = [role for role in self.shape.columns.get("queries", {}) if is_column_role(role)]
        names = "|".join(re.escape(identifier(query_column(role))) for role in roles)
        if not names or not any(re.search(rf"(?<!\w)(?:{names})(?!\w)", text) for text in texts):
            return {}
        queries = self.shape.names["queries"]
        return {queries: equal(queries, table, self.shape.keys_of_queries)}

    def with_day(self, text: str, table: str) -> str:
        """The text, with the day of a row of the table where a metric reads it."""
        day = f"{table}.metric_date"
        for need in self.shape.spec.needed:
            name, _, role = need.partition(".")
            if name == "day":
                is_text = role.startswith("text_")
                days = f"{micros_of_day(self.shape, day)} / {MICROS_A_DAY}"
                sql = f"cast({day} as varchar)" if is_text else f"({days})"
                text = re.sub(rf"\b{query_column(role)}\b", sql.replace("\\", r"\\"), text)
        return text

    def problems(self) -> Iterator[str]:
        """Metrics that read what differs by day beside labels that hold for every day."""
        if "metric_date" in self.shape.label_keys:
            return
        has_days = "metric_date" in self.shape.keys_of_queries
        for measure in self.shape.spec.components:
            for metric in (measure.metric, *measure.metric.part_metrics.values()):
                column = _column_of_a_day(metric, has_days=has_days)
                if metric.over in OF_LABELS and column:
                    yield (
                        f"{measure} reads {column} beside labels, which hold for every day here; "
                        "name the labels' column of days as their date"
                    )


def _column_of_a_day(metric: Metric, *, has_days: bool) -> str:
    """A column of the queries that a metric reads and that may differ by day; empty for none."""
    for need in metric.needs if metric.template else ():
        table, _, role = need.partition(".")
        if table == "day" or (table == "queries" and has_days):
            return DAY if table == "day" else f"{role.partition('_')[2]} of the queries"
    return ""


@dataclass(frozen=True)
class Feature:
    """A column of the ranked items.

    Attributes:
        sql: What it is.
        stages: What has to be known before.
    """

    sql: str
    stages: tuple[str, ...] = ()


FEATURES: Mapping[str, Feature] = {
    "grade": Feature("{ranked}.grade"),
    "surprise": Feature("-ln({items}.popularity / catalogue.popularity) / ln(2e0)", ("catalogue",)),
    "rarity": Feature("-ln({items}.popularity / {items}.users) / ln(2e0)"),
    "relative_rarity": Feature(
        "coalesce(\n    -ln({items}.popularity / {items}.users)\n"
        "    / nullif(ln({items}.users), 0e0),\n    0e0\n)"
    ),
    "popularity_rank": Feature("popularity_ranks.popularity_rank", ("popularity_ranks",)),
    "n_items": Feature("popularity_ranks.n_items", ("popularity_ranks",)),
    "same_category_above": Feature("row_number() over {alike} - 1e0"),
    "cosine_above": Feature("cosines.cosine_above", ("components", "directions", "cosines")),
}
"""What metrics may read of a ranked item."""


def stages(
    shape: Shape, sums: SumStage, condition: str, label_columns: Sequence[str]
) -> Iterator[Stage]:
    """The stages from the ranked rows and the items to `described`, one row per ranked item.

    Args:
        shape: What the tables hold.
        sums: What is summed over these rows; they have what it reads.
        condition: The condition of the rows that count, empty if all do.
        label_columns: The columns of the labels that ranked rows have.
    """
    ranked, items, keys = "ranked", shape.names["items"], shape.keys
    row_keys = [f"{ranked}.{key}" for key in keys]
    alike = Window([*row_keys, f"{items}.category"], [f"{ranked}.rnk asc"])
    own_columns = [
        Column(_age(shape, items, role) or f"{items}.{identifier(role)}", identifier(role))
        for role in filter(is_column_role, shape.columns["items"])
        if sums.reads(role)
    ]
    own_columns += [Column(f"{ranked}.{name}", name) for name in label_columns if sums.reads(name)]
    group_shares = [
        role
        for role in shape.columns["items"]
        if any(sums.reads(f"{kind}_share_of_{role}") for kind in TARGETS)
    ]
    own_columns += [
        Column(f"shares_of_{role}.{kind}_share_of_{role}", f"{kind}_share_of_{role}")
        for role in group_shares
        for kind in TARGETS
    ]
    read = {name: feature for name, feature in FEATURES.items() if sums.reads(name)}
    columns = [
        Column(feature.sql.format(items=items, ranked=ranked, alike=alike), name)
        for name, feature in read.items()
    ]
    before = tuple(dict.fromkeys(name for feature in read.values() for name in feature.stages))
    above = Window(
        [*row_keys, "components.dimension"], [f"{ranked}.rnk asc"], "unbounded preceding"
    )
    view = {
        "keys": keys,
        "columns": [*row_keys, f"{ranked}.rnk", *columns, *own_columns],
        "row_columns": [*row_keys, f"{ranked}.rnk"],
        "ranked": ranked,
        "items": items,
        "depth": condition,
        "roles": [role for role in ROLES if role in shape.columns["items"]],
        "stages": before,
        "above": Window(above.partition, above.order, above.frame, "1 preceding"),
        "group_shares": group_shares,
        "same_row": equal("cosines", ranked, (*keys, "rnk")),
    }
    for role in group_shares:
        yield Stage(f"shares_of_{role}", "group_shares", {"group": role, "items": items})
    for name in (*before, "item_features"):
        yield Stage(name, name, view)
    windows = sums.row_columns.windows.items()
    if over_lists := [Column(window.sql(keys), name) for name, window in windows]:
        names = [*keys, "rnk", *read, *(column.name for column in own_columns)]
        about = "the same, with what the other items of a list say of each"
        view = {"columns": [*names, *over_lists], "about": about, "where": ""}
        view["from"] = "item_features"
        yield Stage(sums.rows, "columns", view)


def _age(shape: Shape, items: str, role: str) -> str:
    """How many days an item has on the day of the list; empty for a column that is no age."""
    if not role.startswith(f"{AGE}_"):
        return ""
    columns = ("ranked.metric_date", f"{items}.{identifier(role)}")
    micros = [micros_of_day(shape, column) for column in columns]
    return f"({' - '.join(micros)}) / {MICROS_A_DAY}"


TARGETS = ("catalogue", "equal")
"""The shares that the groups of a column have: by the catalogue's items, or all alike."""

ROLES = ("popularity", "users", "category", "vector")
"""What may be known of an item."""
