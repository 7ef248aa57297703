"""The examples that a metric file brings along, and what it gives at the edges of its input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmetrics.catalog.measure import Measure, parse_beside
from sqlmetrics.catalog.metric import DAY, Metric, at_cutoff
from sqlmetrics.catalog.metric_files import MetricFiles, grade_of
from sqlmetrics.catalog.option import plain
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.evaluate import evaluate

NEAR = 1e-9
"""So near a value must be to the one worked out, as a share of it."""


@dataclass(frozen=True)
class Example:
    """A list and its labels, and what a metric gives for them.

    Attributes:
        name: `example 1`, or which edge of the input it is.
        ranking: The items, with their scores.
        labels: Item -> grade.
        items: Item -> what is known of it.
        label_facts: Item -> what its label says beside the grade.
        query: What is known of the query, and its day.
        measure: The metric, with its cutoff and settings.
        value: The value worked out; None where there is none.
        is_expected: Whether it is known what the value has to be.
        is_random: Whether it is a random world.
    """

    name: str
    ranking: Sequence[tuple[str, float]]
    labels: Mapping[str, float | None]
    items: Mapping[str, Mapping[str, Any]]
    measure: Measure
    value: float | None = None
    label_facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    is_expected: bool = True
    is_random: bool = False


@dataclass(frozen=True)
class Outcome:
    """What an engine gave for an example.

    Attributes:
        example: The example.
        value: The value; None where there is none.
        refusal: Why there is none, where the input is refused.
    """

    example: Example
    value: float | None
    refusal: str = ""

    @property
    def difference(self) -> float:
        """How far it is from the value worked out; infinite where one of both is none."""
        value, expected = self.value, self.example.value
        if value is None or expected is None:
            return 0.0 if value is expected and not self.refusal else math.inf
        return abs(value - expected) / max(1.0, abs(expected))

    @property
    def fails(self) -> bool:
        """Whether it is not what was worked out."""
        return self.example.is_expected and not self.difference <= NEAR


def examples_of(metric: Metric, files: MetricFiles) -> list[Example]:
    """The examples in the header of a metric's file."""
    examples = []
    for number, values in enumerate(metric.examples, start=1):
        names = {*metric.parameters, *metric.options}
        settings = ", ".join(f"{key}={plain_value(values[key])}" for key in values if key in names)
        name = f"{metric.name}({settings})" if settings else metric.name
        measure = parse_beside(at_cutoff(name, values.get("k")), files.metrics)
        ranking = [(str(item), -float(i)) for i, item in enumerate(values["list"])]
        given_labels = {str(item): label for item, label in values.get("labels", {}).items()}
        labels = {item: float(grade_of(label)) for item, label in given_labels.items()}
        label_facts = {
            item: {name: label[name] for name in label if name != "grade"}
            for item, label in given_labels.items()
            if isinstance(label, Mapping)
        }
        value = values["value"]
        expected = None if value == "none" else float(value)
        items = values.get("items", {})
        query = values.get("query", {})
        name = f"example {number}"
        examples.append(
            Example(name, ranking, labels, items, measure, expected, label_facts, query)
        )
    return examples


def edges_of(example: Example) -> Iterator[Example]:
    """The same list and labels with what data brings along."""
    ranking, labels, measure = example.ranking, example.labels, example.measure
    known_items = [*example.items] or [*dict.fromkeys([*labels, *(item for item, _ in ranking)])]

    def edge(
        name: str, ranking: Any = ranking, labels: Any = labels, measure: Measure = measure
    ) -> Example:
        return replace(
            example,
            name=name,
            ranking=ranking,
            labels=labels,
            measure=measure,
            value=None,
            is_expected=False,
        )

    yield edge("an empty list", ranking=[])
    yield edge("no labels", labels={})
    yield edge("labels of grade 0", labels=dict.fromkeys(labels or known_items[:1], 0.0))
    yield edge("equal scores", ranking=[(item, 0.0) for item, _ in ranking])
    if measure.k is not None:
        deep = Measure(measure.metric, measure.settings, len(ranking) + 10)
        yield edge("k beyond the list", measure=deep)
    yield edge("an item twice", ranking=[*ranking, *ranking[:1]])
    yield edge("a grade that is NULL", labels={**labels, known_items[0]: None})


def outcomes(
    examples: Sequence[Example], files: MetricFiles, connection: Any = None
) -> list[Outcome]:
    """What an engine gives for examples: all in one evaluation, and alone what it refuses.

    Args:
        examples: The examples.
        files: Where their metrics are.
        connection: The engine; see `connect`.
    """
    try:
        return _evaluated(examples, files, connection)
    except SqlmetricsError as error:
        if any(example.is_random for example in examples):
            raise
        if len(examples) == 1:
            return [Outcome(examples[0], None, str(error).splitlines()[0])]
        middle = len(examples) // 2
        halves = (examples[:middle], examples[middle:])
        return [outcome for half in halves for outcome in outcomes(half, files, connection)]


def _evaluated(examples: Sequence[Example], files: MetricFiles, connection: Any) -> list[Outcome]:
    """The values of examples, each a query of one evaluation."""
    queries = [f"{number:04d}" for number in range(len(examples))]
    by_query = list(zip(queries, examples, strict=True))
    days = {query: _day(example) for query, example in by_query}
    is_dated = any(DAY in example.query for example in examples)
    day_of = {query: {DAY: day} if is_dated else {} for query, day in days.items()}
    rankings = [
        {"query_id": query, "item_id": f"{query} {item}", "score": score, **day_of[query]}
        for query, example in by_query
        for item, score in example.ranking
    ]
    columns = {
        column: None
        for _, example in by_query
        for label in example.label_facts.values()
        for column in label
    }
    labels = [
        {
            "query_id": query,
            "item_id": f"{query} {item}",
            "grade": grade,
            **day_of[query],
            **columns,
            **example.label_facts.get(item, {}),
        }
        for query, example in by_query
        for item, grade in example.labels.items()
    ]
    facts = {
        f"{query} {item}": item_facts
        for query, example in by_query
        for item, item_facts in example.items.items()
    }
    nobody = {"query_id": "nobody", "item_id": "nothing", **next(iter(day_of.values()))}
    measures = list(dict.fromkeys(example.measure for example in examples))
    result = evaluate(
        [*rankings, {**nobody, "score": 0.0}],
        [*labels, {**nobody, "grade": 0.0, **columns}],
        [str(measure) for measure in measures],
        items=_items(facts),
        queries=_queries(examples, queries),
        date=DAY if is_dated else None,
        metrics_from=files,
        connection=connection,
        average_over="either",
    )
    rows = {row["query_id"]: row for row in result.per_query().to_pylist()}
    return [
        Outcome(example, rows.get(query, {}).get(example.measure.column))
        for query, example in by_query
    ]


def _day(example: Example) -> str:
    """The day of an example, as a text; any one where it says none."""
    return str(example.query.get(DAY, "1970-01-01"))


def _queries(examples: Sequence[Example], queries: Sequence[str]) -> list[dict[str, Any]] | None:
    """The rows of the queries table; None where no example knows a column of it."""
    columns = {column: None for example in examples for column in example.query if column != DAY}
    if not columns:
        return None
    is_dated = any(DAY in example.query for example in examples)
    return [
        {
            "query_id": query,
            **columns,
            **example.query,
            **({DAY: _day(example)} if is_dated else {}),
        }
        for query, example in zip(queries, examples, strict=True)
    ]


def _items(facts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """The rows of the items table; what is not known of one is NULL."""
    if not facts:
        return None
    facts_by_item = {**facts, "nothing": next(iter(facts.values()))}
    unknown_facts = dict.fromkeys(column for row in facts.values() for column in row)
    return [{"item_id": item, **unknown_facts, **row} for item, row in facts_by_item.items()]


def plain_value(value: object) -> str:
    """A setting as a metric's text has it."""
    return plain(value) if isinstance(value, int | float) else str(value)
