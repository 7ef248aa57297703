"""A test of metric files: their examples, the edges of input, and Python beside the SQL."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import AGE, Metric
from sqlmetrics.catalog.metric_files import ENDING, MetricFiles
from sqlmetrics.errors import SpecError
from sqlmetrics.proof.metric_examples import Example, Outcome, edges_of, examples_of, outcomes

WORLDS = 100
"""So many lists are drawn for a metric."""

Function = Callable[..., float | None]


def prove(
    files: MetricFiles, names: Iterable[str], connection: Any, *, python: bool
) -> list[Outcome]:
    """What an engine gives for the examples of metrics, and at the edges of the first one.

    Args:
        files: Where the metrics are.
        names: The metrics.
        connection: The engine.
        python: Whether the Python files beside them are run, and compared in random worlds; of
            these the one with the largest difference is told.

    Raises:
        SpecError: If there is no metric of a name, or a Python file fails.
    """
    results = []
    for name in names:
        examples = examples_of(files.metrics[name], files)
        results += outcomes([*examples], files, connection)
        results += outcomes([*edges_of(examples[0])], files, connection)
        function = function_of(files.metrics[name]) if python else None
        if function is not None:
            random_worlds = [*worlds(files.metrics[name], function, examples)]
            random_outcomes = outcomes(random_worlds, files, connection)
            results.append(max(random_outcomes, key=lambda outcome: outcome.difference))
    return results


def function_of(metric: Metric) -> Function | None:
    """The function of a metric's name in the Python file beside it; None without such a file.

    The file is run: whoever calls this has consent.

    Raises:
        SpecError: If the file fails, or has no such function.
    """
    file = Path(metric.file.removesuffix(ENDING) + ".py")
    if not file.is_file():
        return None
    try:
        function = runpy.run_path(str(file)).get(metric.name)
    except Exception as error:  # whatever the user's code raises
        raise SpecError(f"{file}: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise SpecError(f"{file} has no function {metric.name}(items, labels, *, k)")
    return function  # type: ignore[no-any-return]


def worlds(
    metric: Metric, function: Function, examples: Sequence[Example], seed: int = 0
) -> Iterator[Example]:
    """Random lists and labels, with the value that the function gives.

    Lists have no items, some without a label, or more than there are labels; scores are all
    different. What is known of items is drawn from the examples.

    Raises:
        SpecError: If the function fails.
    """
    rng = random.Random(seed)  # noqa: S311
    names = [f"i{number:02d}" for number in range(20)]
    item_facts = [facts for example in examples for facts in example.items.values()]
    known_labels = [facts for example in examples for facts in example.label_facts.values()]
    known_queries = [example.query for example in examples]
    measures = list(dict.fromkeys(example.measure for example in examples))
    for number in range(WORLDS):
        sampled = rng.sample(names, rng.choice((0, 1, 2, 3, 5, 8, 12)))
        labels = {item: float(rng.randrange(4)) for item in rng.sample(names, rng.randrange(1, 9))}
        facts = {item: rng.choice(item_facts) for item in names} if item_facts else {}
        label_facts = {item: rng.choice(known_labels) for item in labels} if known_labels else {}
        measure = rng.choice(measures)
        if measure.k is not None:
            measure = Measure(metric, measure.settings, rng.choice((1, 2, 3, 5, 10, 30)))
        query = rng.choice(known_queries) if any(known_queries) else {}
        described = {item: {**facts.get(item, {}), **label_facts.get(item, {})} for item in names}
        value = _value(function, sampled, labels, described, _keywords(measure, query))
        ranking = [(item, -float(rank)) for rank, item in enumerate(sampled)]
        yield Example(
            f"world {number + 1} of {WORLDS}",
            ranking,
            labels,
            facts,
            measure,
            value,
            label_facts,
            query,
            is_random=True,
        )


def _keywords(measure: Measure, query: Mapping[str, Any]) -> dict[str, Any]:
    """What the function takes beside rows: parameters, the cutoff, the query where it is read."""
    keywords: dict[str, Any] = {**measure.metric.parameters, **dict(measure.settings)}
    if measure.metric.cutoff != "none":
        keywords["k"] = measure.k
    if any(need.startswith(("queries.", "day.", f"items.{AGE}_")) for need in measure.metric.needs):
        keywords["query"] = dict(query)
    return keywords


def _value(
    function: Function,
    ranking: Sequence[str],
    labels: Mapping[str, float],
    facts: Mapping[str, Mapping[str, Any]],
    keywords: Mapping[str, Any],
) -> float | None:
    """What the function gives: it is called with rows, best first, and by keywords."""
    items = [
        {"item": item, "rank": rank, "grade": labels.get(item), **facts.get(item, {})}
        for rank, item in enumerate(ranking, start=1)
    ]
    rows = [{"item": item, "grade": grade, **facts.get(item, {})} for item, grade in labels.items()]
    try:
        value = function(items, rows, **keywords)
    except Exception as error:  # whatever the user's code raises
        name = f"{getattr(function, '__name__', 'function')}.py"
        raise SpecError(
            f"{name}: {type(error).__name__}: {error}; called with {keywords}"
        ) from None
    return None if value is None else float(value)
