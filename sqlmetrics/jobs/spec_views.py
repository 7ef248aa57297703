"""Views of one spec: nothing to filter but days and systems, and a column per metric."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlmetrics.catalog.dimension import column_of
from sqlmetrics.catalog.metric import spellings
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.jobs.schema import VIEWS
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import identifier, literal, parts

LONGEST = 30
"""As many letters of a spec's name, or a segment's, go into the name of its own view."""

LONGEST_NAME = 63
"""As many letters the name of a view may have: PostgreSQL leaves out the others."""

PARTS = {"numerator": "sum", "denominator": "sum", "ci_low": "max", "ci_high": "max"}
"""What the wide view has of a metric beside its value, and how rows are put together."""

OWN_PARTS = {"numerator": "sum", "denominator": "sum", "n_queries": "max"} | {
    "ci_low": "max",
    "ci_high": "max",
}
"""The same of a view of one spec."""


@dataclass(frozen=True)
class Metric:
    """A metric as the fact table has it.

    Attributes:
        metric: Its text, without the cutoff.
        k: The cutoff, 0 for none.
    """

    metric: str
    k: int

    @property
    def column(self) -> str:
        """The name of its column in the wide view."""
        return column_of(self.metric, self.k)

    @property
    def columns(self) -> Iterator[Column]:
        """Its columns in the wide view: the value, and what it is made of."""
        return self.of(PARTS)

    def of(self, parts: dict[str, str]) -> Iterator[Column]:
        """Its columns: the value, and these parts."""
        where = f"metric = {literal(self.metric)} and k = {self.k}"
        yield Column(f"max(case when {where} then value end)", self.column)
        for part, total in parts.items():
            yield Column(f"{total}(case when {where} then {part} end)", f"{self.column}_{part}")


@dataclass(frozen=True)
class SpecView:
    """A view of a spec: of all its queries, or by a segment.

    Attributes:
        title: The spec's name.
        segment: The segment's name; `all` for all queries.
        metrics: Its metrics.
        existing_columns: The columns of the view that is there behind its keys, which it keeps.
    """

    title: str
    segment: str
    metrics: Sequence[Metric]
    existing_columns: Sequence[str] = field(default=())

    @property
    def suffix(self) -> str:
        """What stands behind the fact table's name, like `search_by_country`.

        >>> SpecView("search", "all", []).suffix, SpecView("search", "country", []).suffix
        ('search_all', 'search_by_country')
        """
        spec_name = name_in_views(self.title)
        return (
            f"{spec_name}_all"
            if self.segment == ALL
            else f"{spec_name}_by_{name_in_views(self.segment)}"
        )

    @property
    def meaning(self) -> str:
        """What the database says of it."""
        return VIEWS["by_segment" if self.column else "of_spec"]

    @property
    def column(self) -> str:
        """What the segment's values are called; empty for all queries."""
        if self.segment == ALL:
            return ""
        word = self.segment.casefold()
        is_taken = word in ("metric_date", "system") or word in spellings() or word in ONLINE
        return f"{self.segment}_segment" if is_taken else self.segment

    @property
    def n_keys(self) -> int:
        """As many columns stand before the metrics."""
        return 2 if self.segment == ALL else 3

    @property
    def columns(self) -> list[Column]:
        """Those of its metrics: first those that are there already."""
        column_by_name = {
            column.name: column for metric in self.metrics for column in metric.of(OWN_PARTS)
        }
        names = dict.fromkeys((*self.existing_columns, *column_by_name))
        return [
            column_by_name.get(name) or Column(f"cast(null as {_kind(name)})", name)
            for name in names
        ]

    @property
    def keys(self) -> str:
        """The columns before the metrics, as SQL."""
        segment_column = f", segment_value as {identifier(self.column)}" if self.column else ""
        return f"metric_date, system{segment_column}"

    @property
    def groups(self) -> str:
        """What it is grouped by."""
        return "metric_date, system, segment_value" if self.column else "metric_date, system"

    @property
    def where(self) -> str:
        """Its rows of the fact table."""
        return f"spec = {literal(self.title)} and segment_name = {literal(self.segment)}"

    def select(self, facts: str) -> str:
        """Its query in DuckDB's words."""
        view = {
            "column": self.column,
            "columns": self.columns,
            "facts": facts,
            "spec": self.title,
            "segment": self.segment,
            "groups": self.groups,
        }
        return print_template("jobs/of_spec", view)


def _kind(column: str) -> str:
    """The type of a column whose metric is not known any more."""
    return "bigint" if column.endswith("_n_queries") else "double"


def name_in_views(title: str) -> str:
    """A spec's name as part of a view's: one word, and no other spec has the same.

    >>> name_in_views("shop"), name_in_views("Shop (DE)")
    ('shop', 'shop_de_555224')
    """
    word = re.sub(r"[^a-z0-9]+", "_", title.casefold()).strip("_")
    if word == title and len(word) <= LONGEST:
        return word
    return f"{word[:LONGEST]}_{hashlib.sha256(title.encode()).hexdigest()[:6]}"


def bounded(name: str) -> str:
    """A view's dotted name, shortened where a database would cut it off.

    >>> bounded("bi.ranking_metrics_search_all")
    'bi.ranking_metrics_search_all'
    """
    *schema, view_name = parts(name)
    if len(view_name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(view_name.encode()).hexdigest()[:6]
    cut = (*schema, f"{view_name[: LONGEST_NAME - 7]}_{mark}")
    return ".".join('"' + part.replace('"', '""') + '"' for part in cut)
