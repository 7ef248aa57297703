"""The metrics: one SQL template each, read into a catalogue.

`templates/metrics/<name>.sql.jinja` holds a TOML header in its first comment, then the SQL of
the metric's value, or macros that print its parts. Nothing else lists the metrics: the README's
table, the command line's help, the errors and the tests all read this catalogue.
"""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.sql.template import environment, templates_folder

if TYPE_CHECKING:
    from sqlmetrics.catalog.arithmetic import Arithmetic

Parameter = float | int
COMMON_OPTIONS = ("rounding", "average_over")
NO_FILES: Mapping[str, Metric] = MappingProxyType({})
"""Where the user has no metric of his own."""
_OF_ITEMS = {
    *("pairs", "item_features", "rank_agreement", "tied_agreement", "ideal_agreement"),
    *("rank_changes", "pooled_items", "pooled_scores"),
    *("group_hits", "shown_groups", "evidence"),
}

OF = "_of"
"""What the names of functions of a column end in: `mean(price)` is `mean_of`."""
DISCOUNTED = "discounted"
"""What says that each value of a column weighs the discount of its rank."""
COLUMN_KINDS = ("number", "flag", "text")
"""As what a metric may read a column of the items: `items.number_price` is the need of `price` as
a number, and `number_price` what SQL calls it."""
AGE = "age"
"""As what a column of days is read, of which a metric takes the age: `items.age_published`."""
DAY = "metric_date"
"""The day of a query among the columns of queries: `day.number_metric_date` is the need of it as a
number, of days since 1970-01-01; as a text it is like `2026-01-31`."""


def is_column_role(role: str) -> bool:
    """Whether a role of the items table is a column by its own name, read as a number or so.

    >>> is_column_role("number_price"), is_column_role("popularity")
    (True, False)
    """
    kind, _, column = role.partition("_")
    return kind in (*COLUMN_KINDS, AGE) and bool(column)


def label_column(role: str) -> str:
    """What SQL calls a column of the labels that a metric reads: an item may have one of its name.

    >>> label_column("number_revenue")
    'label_number_revenue'
    """
    return f"label_{role}"


def query_column(role: str) -> str:
    """What SQL calls a column of the queries, or the day of a query, that a metric reads.

    >>> query_column("number_length")
    'query_number_length'
    """
    return f"query_{role}"


@dataclass(frozen=True)
class Metric:
    """What a template's header says of a metric.

    Attributes:
        name: The name of the file, the metric's name everywhere.
        title: The field's name for it.
        formula: One line; k is the cutoff, R the query's number of relevant labels.
        range: The values it can take.
        cutoff: `required`, `optional` or `none`.
        better: `higher` or `lower` values are; `none` if it says nothing of quality by itself.
        unit: `share`, `rank`, `count` or `bits`; empty for what has none.
        over: What it sums over: `ranked` (the list), `labels`, `ideal` (the labels in
            their ideal order), `ideal_shown` (the list in its ideal order),
            `ideal_returned` (the labels in their ideal order, beside each list),
            `described` (the list and what is known of its items), `compared` (the list
            beside the baseline's), `tied_agreement` (the same, aware of ties),
            `ideal_agreement` (the list beside its ideal order), `rank_changes` (labels and
            their ranks there and in the baseline's list), `pairs` (of scored and labelled
            items), `label_groups` (relevant labels of groups),
            `group_hits` (the list's items by their groups),
            `shown_groups` (the groups of a list), `evidence` (these and other items, in order),
            `ideal_groups` (labels in an order that tells the most), `query` (arithmetic
            over its parts), or `metrics` (arithmetic over metrics with settings of their own).
            Over `pooled_scores` and `pooled_items` it is a number for all lists together, with
            no value for a query; its part `rows` is what a query adds.
        empty: What an empty list, or a query without relevant labels, gives.
        source: The paper or tool.
        aliases: Other spellings; one that ends in `@k` needs a cutoff, one that ends in
            `(rel)` is meant only with that setting.
        options: Conventions that change its formula.
        parameters: Numbers of its own, with their defaults, and those of its options' choices.
        limits: Parameter -> its limit, like `below 1` or `at most 1`, above 0; or both its ends,
            like `0 to 1`.
        parts: The metrics it is made of: name in the template -> metric; `@list` behind it
            leaves out the cutoff.
        needs: What it needs beside rankings and labels: `items`, `items.category`,
            `baseline`, `labels.group`, `labels.number_revenue`, `queries.text_market`.
        deepest: The largest cutoff that it can have, where there is one.
        undefined: `never`; `zero` if it then is 0; `no_relevant` if that option says what
            becomes of it; `skip` if a query for which it is undefined is always left out.
        micro: Whether it has a micro average.
        expected: Whether its mean over all orders of ties is known in closed form: `always`,
            `uncut` (without a cutoff), `whole` (without a depth) or `never`.
        of_set: Whether it looks at what is in the top k, not at the places there: which of equal
            scores are in it can be left open by taking all, with ties=include.
        count: Whether it is a count, whose summary is a total.
        every_item: Whether an item without a label adds to it by itself, not only by the
            places that it takes.
        listed: Whether users are told of it; else it is only a part of others.
        macros: What its template has, where its text is not the value itself.
        arithmetic: What it is, where it has no template and is made of several metrics.
        template: The text of its template, where that is a file of the user's own.
        file: Where that is.
        examples: Lists, labels and the values worked out, that prove such a file.
        named_columns: Columns of items, labels and queries that such a file reads -> what SQL
            calls them.
        part_metrics: The parts of such a file that are files too, by their names.
    """

    name: str
    title: str
    formula: str
    range: str
    cutoff: str
    over: str
    empty: str
    source: str
    better: str = "none"
    unit: str = ""
    aliases: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict, hash=False)
    limits: Mapping[str, str] = field(default_factory=dict, hash=False)
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)
    needs: tuple[str, ...] = ()
    deepest: int | None = None
    undefined: str = "never"
    micro: bool = False
    expected: str = "never"
    of_set: bool = False
    count: bool = False
    every_item: bool = False
    listed: bool = True
    macros: tuple[str, ...] = ()
    arithmetic: Arithmetic | None = None
    template: str = field(default="", repr=False)
    file: str = field(default="", compare=False)
    examples: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)
    named_columns: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    part_metrics: Mapping[str, Metric] = field(default_factory=dict, hash=False, repr=False)
    functions: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False, repr=False)

    @property
    def operand(self) -> str:
        """The column that it is a function of, by its role; empty if it is none.

        >>> catalog()["mean_of"].operand
        'number_price'
        """
        return self._operand[2]

    @property
    def operand_table(self) -> str:
        """The table of that column, `items` or `labels`.

        >>> catalog()["mean_of"].operand_table, catalog()["recall_of"].operand_table
        ('items', 'labels')
        """
        return self._operand[0]

    @property
    def _operand(self) -> tuple[str, str, str]:
        needs = () if self.template or self.arithmetic else self.needs
        parts = (need.partition(".") for need in needs)
        return next((part for part in parts if is_column_role(part[2])), ("", "", ""))

    @property
    def operands(self) -> tuple[str, ...]:
        """What stands first between the parentheses of a function of a column: `price`."""
        if not self.operand:
            return ()
        is_said = self.better != catalog()[self.name].better
        words = [DISCOUNTED] * self.is_discounted + [f"better={self.better}"] * is_said
        kind, _, column = self.operand.partition("_")
        return (f"{AGE}({column})" if kind == AGE else column, *words)

    @property
    def is_discounted(self) -> bool:
        """Whether it is a function of a column whose values weigh the discounts of their ranks."""
        return bool(self.operand) and DISCOUNTED in self.title

    @property
    def example(self) -> str:
        """How a function of a column is written."""
        return f"{self.name.removesuffix(OF)}({self.operands[0]})@10"

    def of_column(self, column: str, better: str, *, discounted: bool = False) -> Metric:
        """The same function of another column.

        Args:
            column: Its name, or `age(published)` for the age of its days.
            better: Whether more of it is better, or less.
            discounted: Whether each value weighs the discount of its rank.
        """
        if discounted:
            dcg = catalog()["dcg"]
            weighed = replace(
                self,
                title=f"{self.title}, {DISCOUNTED}",
                formula=f"{self.formula}; each item weighs the discount of its rank",
                options=("discount",),
                parameters={**self.parameters, "p": dcg.parameters["p"]},
                limits={**self.limits, "p": dcg.limits["p"]},
            )
            return weighed.of_column(column, better)
        if (column, better) == (self.operands[0], self.better):
            return self
        kind, _, usual = self.operand.partition("_")
        name = column.removeprefix(f"{AGE}(").removesuffix(")")
        title, formula = (
            re.sub(rf"\b{usual}\b", column, text) for text in (self.title, self.formula)
        )
        needs = (f"{self.operand_table}.{kind if name == column else AGE}_{name}",)
        return replace(self, needs=needs, better=better, title=title, formula=formula)

    @property
    def settings(self) -> tuple[str, ...]:
        """The names that its text may set, in the order in which they are printed."""
        if self.arithmetic:
            return ()
        metric_settings = (*self.parameters, *self.options)
        policy = ("no_relevant",) if self.undefined == "no_relevant" else ()
        average = () if self.count or self.pooled else ("average",)
        ties = ("ties",) if self.expected != "never" else ()
        return tuple(dict.fromkeys((*metric_settings, *ties, *policy, *average, *COMMON_OPTIONS)))

    @property
    def digest(self) -> str:
        """A short hash of all in a file of the user's own that decides the metric's numbers."""
        deciding = (self.over, self.needs, self.parts, self.undefined, self.micro, self.count)
        part_digests = {name: metric.digest for name, metric in self.part_metrics.items()}
        text = f"{self.template.strip()} {deciding} {sorted(part_digests.items())}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def pooled(self) -> bool:
        """Whether it is a number for all lists together, and none of a single query."""
        return self.over.startswith("pooled")

    @property
    def orders_groups(self) -> bool:
        """Whether it looks at the ideal order of labels with groups."""
        return any(self.part(name).over == "ideal_groups" for name in self._part_names)

    @property
    def _part_names(self) -> list[str]:
        return [name.partition("@")[0] for name in self.parts.values()]

    @property
    def by_grades(self) -> bool:
        """Whether it looks at grades by rank alone, not at which items or scores they are of."""
        parts = (self.part(name).over for name in self._part_names)
        return not {self.over, *parts} & _OF_ITEMS

    def part(self, name: str) -> Metric:
        """A metric that this one may be made of: a file beside its own, or one of the package."""
        return self.part_metrics.get(name) or catalog()[name]

    @property
    def ratio(self) -> bool:
        """Whether its template prints a numerator and a denominator, not one value."""
        return "numerator" in self.macros

    def outside(self, parameter: str, value: float) -> str:
        """What a parameter must be, if the value is not; else an empty text."""
        limit = self.limits.get(parameter, "")
        words, _, most = limit.rpartition(" ")
        last = float(most or math.inf)
        if words.endswith(" to"):
            first = float(words.removesuffix(" to"))
            return "" if first <= value <= last else f"from {limit}"
        if 0 < value < last or (words == "at most" and value == last):
            return ""
        return " and ".join(filter(None, ("above 0", limit)))

    def sql(self, part: str, view: object) -> str:
        """The text of its value, or of a macro, for the columns and settings of a view.

        Raises:
            SpecError: If a file of the user's own gives SQL that it may not.
        """
        if self.template:
            from sqlmetrics.catalog.metric_files import rendered

            return rendered(self, part, view)
        template = environment().get_template(f"metrics/{self.name}.sql.jinja")
        if not self.macros:
            return template.render(m=view).strip()
        return str(getattr(template.module, part)(view))


class _Catalog(Mapping[str, Metric]):
    """Name -> metric; its template is read when it is asked for, so few are for most questions."""

    def __init__(self) -> None:
        files = sorted((templates_folder() / "metrics").glob("*.sql.jinja"))
        self._files = {path.name.removesuffix(".sql.jinja"): path for path in files}
        self._read: dict[str, Metric] = {}

    def __getitem__(self, name: str) -> Metric:
        if name not in self._read:
            self._read[name] = _read(name, self._files[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __contains__(self, name: object) -> bool:
        return name in self._files


@cache
def catalog() -> Mapping[str, Metric]:
    """All metrics by name, in the order of their names."""
    return _Catalog()


def listed() -> Iterator[Metric]:
    """The metrics that users are told of."""
    return (metric for metric in catalog().values() if metric.listed)


def _read(name: str, path: Path) -> Metric:
    header, text = split_header(path.read_text(encoding="utf-8"))
    return build_metric(name, header, tuple(re.findall(r"{% macro (\w+)", text)))


def split_header(text: str) -> tuple[dict[str, Any], str]:
    """What the header of a template says, and the template below it.

    Raises:
        tomllib.TOMLDecodeError: If the header is no TOML.
    """
    header, _, template = text.partition("#}")
    return tomllib.loads(header.removeprefix("{#")), template


def build_metric(name: str, header: Mapping[str, Any], macros: tuple[str, ...]) -> Metric:
    """The metric of a template's header, with what its options bring along."""
    tuples = {key: tuple(value) for key, value in header.items() if isinstance(value, list)}
    values = {**header, **tuples}
    of_choices = {
        name: parameters_and_limits
        for option in header.get("options", ())
        for choice in OPTIONS[option].choices
        for name, parameters_and_limits in choice.parameters.items()
    }
    for key, position in (("parameters", 0), ("limits", 1)):
        added = {
            name: parameters_and_limits[position]
            for name, parameters_and_limits in of_choices.items()
        }
        values[key] = {**values.get(key, {}), **added}
    return Metric(name=name, macros=macros, **values)


@cache
def spellings() -> Mapping[str, tuple[Metric, bool]]:
    """Every spelling in lower case -> the metric, and whether it needs a cutoff."""
    metric_by_spelling = {}
    for metric in catalog().values():
        for alias in (metric.name, *metric.aliases):
            metric_by_spelling[alias.removesuffix("@k").casefold()] = (metric, alias.endswith("@k"))
    return metric_by_spelling


def metric_of(text: str, files: Mapping[str, Metric] = NO_FILES) -> tuple[Metric, bool] | None:
    """The metric of a spelling, and whether it needs a cutoff; None if no metric has it.

    Args:
        text: The spelling.
        files: Name -> metric of the user's own files.
    """
    name = text.casefold()
    if name in files:
        return files[name], False
    return (catalog()[name], False) if name in catalog() else spellings().get(name)


def limits(text: str) -> tuple[float | None, float | None]:
    """The least and the largest value of a range in words; None where there is none.

    >>> limits("0 to 1"), limits("-1 to 1"), limits("0 or 1")
    ((0.0, 1.0), (-1.0, 1.0), (0.0, 1.0))
    >>> limits("1 or more"), limits("0 to R")
    ((1.0, None), (0.0, None))
    """
    if text == "any number":
        return None, None
    low, _, high = re.split(r" (to|or) ", text)
    return float(low), None if high in ("more", "R") else float(high)


def at_cutoff(metric: str, k: int | None) -> str:
    """A metric's name with its cutoff, if it has one.

    >>> at_cutoff("ndcg", 10), at_cutoff("mrr", 0)
    ('ndcg@10', 'mrr')
    """
    return f"{metric}@{k}" if k else metric


def without_cutoff(text: str) -> tuple[str, int]:
    """A metric's name and its cutoff, 0 for none, of its canonical text.

    >>> without_cutoff("recall(rel=2)@10"), without_cutoff("north_star")
    (('recall(rel=2)', 10), ('north_star', 0))
    """
    name, _, cutoff = text.rpartition("@")
    return (name, int(cutoff)) if name else (text, 0)


def column_at_cutoff(name: str, k: int | None) -> str:
    """The same for the name of a column.

    >>> column_at_cutoff("ndcg", 10), column_at_cutoff("mrr", 0)
    ('ndcg_at_10', 'mrr')
    """
    return f"{name}_at_{k}" if k else name
