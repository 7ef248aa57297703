"""What a metric, an option or a preset is, as text: its definition, its SQL and an example."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.conventions import OPTIONS, read
from sqlmetrics.catalog.measure import (
    WITH_SETTINGS,
    Measure,
    parse,
    parse_beside,
    spelled_otherwise,
)
from sqlmetrics.catalog.metric import Metric, at_cutoff, listed, spellings
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.catalog.option import Choice, Option, Value
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.catalog.tool_names import in_our_words, whose
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.evaluate import evaluate
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import query_text
from sqlmetrics.proof.explain.example import compared, hung, needed_fields, paragraph
from sqlmetrics.proof.explain.worked_example import WorkedExample, number, parts, worked
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.table import Table, metric_value

# A metric on one small data set under every preset: which tools agree.

LISTS = {
    "q1": {"a": 9, "z": 8, "c": 7, "x": 6, "b": 5},
    "q2": {"m": 5, "f": 5, "n": 5},
    "q3": {"p": 2, "g": 1},
    "q4": {"i": 2, "j": 1},
    "q6": {"a": 1},
}
"""Query -> item -> score, in input order. q2 is a tie, q3 shorter than 3, q6 not labelled."""

LABELS = {
    "q1": {"a": 3, "b": 2, "c": 1, "d": 1, "e": 1, "x": 0},
    "q2": {"f": 2},
    "q3": {"g": 1, "h": 1},
    "q4": {"i": 0},
    "q5": {"k1": 1},
}
"""Query -> item -> grade. q4 has nothing relevant, q5 no list."""

QUERIES = tuple(sorted({*LISTS, *LABELS}))

Values = tuple[float | None, ...]


@dataclass(frozen=True)
class Agreeing:
    """Presets that give the same numbers.

    Attributes:
        presets: Their names.
        values: The value for each of `QUERIES`; None where it is not counted.
        mean: The mean.
        n_queries: How many queries it is of.
    """

    presets: tuple[str, ...]
    values: Values
    mean: float | None
    n_queries: int


def agreeing(measure: Measure) -> Iterator[Agreeing | tuple[str, str]]:
    """The presets under which a metric gives other numbers, each group once.

    Yields:
        A group; or a preset's name and why the metric does not fit it.
    """
    groups: dict[tuple[Values, float | None, int], list[str]] = {}
    for preset in PRESETS:
        try:
            spec = _preset_spec(measure, preset)
        except SpecError as error:
            yield preset, error.problems[0]
            continue
        groups.setdefault(_numbers(spec), []).append(preset)
    for (values, mean, count), presets in groups.items():
        yield Agreeing(tuple(presets), values, mean, count)


def _numbers(spec: Spec) -> tuple[Values, float | None, int]:
    with connect() as engine:
        result = run(spec, opened(spec, engine), engine, check=False)
    column = result.measures[0].column
    rows = {row["query_id"]: row[column] for row in result.per_query().to_pylist()}
    values = tuple(_same(rows.get(query)) for query in QUERIES)
    summary = result.to_dicts()
    if not summary:
        return values, None, 0
    return values, _same(summary[0]["value"]), summary[0]["n_queries"]


def _same(value: float | None) -> float | None:
    """Values that differ in their last bits alone are the same."""
    return None if value is None else round(value, 10)


def _preset_spec(measure: Measure, preset: str) -> Spec:
    return Spec(
        name="toy",
        rankings={"data": _table(LISTS, "score")},
        labels={"data": _table(LABELS, "grade")},
        metrics=[measure.text],
        preset=preset,
    )


def _table(rows: dict[str, dict[str, int]], number: str) -> pa.Table:
    names = ["query_id", "item_id", number]
    flat = [(query, item, value) for query, items in rows.items() for item, value in items.items()]
    return pa.table(dict(zip(names, map(list, zip(*flat, strict=True)), strict=True)))


# An option's choices, tried one after the other on a small log in which they differ.

CHOICE_CUTOFF = 3

LOG = (
    ("tied", "t", 3.0, None),
    ("tied", "b", 2.0, 3),
    ("tied", "c", 2.0, 0),
    ("tied", "a", 2.0, 1),
    ("tied", "d", 1.0, 1),
    ("tied", "g", None, 2),
    ("tied", "h", None, 1),
    ("close", "y", 1.0, 0),
    ("close", "z", 1.00000001, 2),
    ("close", "zz", 1.0000002, 1),
    ("bad", "a", 1.0, 0),
    ("lost", "a", 1.0, None),
    ("lost", "b", None, 2),
    ("silent", "a", None, 1),
    ("free", "a", 1.0, None),
)
"""Rows (query, item, score, grade): without a score it is not ranked, without a grade not
labelled. `tied` has equal scores, `close` has scores equal as 32-bit numbers or with 6
decimals, `bad` has no relevant label, `lost` no hit, `silent` no list, `free` no label."""

ALSO = {
    "ap_denominator": (
        ("deep", "a", 4.0, 1),
        ("deep", "b", 3.0, 1),
        ("deep", "c", 2.0, 0),
        ("deep", "d", 1.0, 1),
        ("deep", "e", 0.5, 1),
    ),
    "ties": (
        ("even", "p", 1.0, 1),
        ("even", "o", 1.0, 1),
        ("even", "n", 1.0, 2),
        ("even", "q", 1.0, 3),
    ),
    "duplicate_rankings": (("tied", "b", 3.5, None), ("tied", "b", 3.2, None)),
    "duplicate_labels": (("tied", "a", None, 3),),
    "negative_grades": (("tied", "t", None, -1),),
    "tied_scores": (("tied", "e", 0.5, 0),),
    "average": (("lost", "z", 0.5, 1),),
    "no_relevant": (("empty", "a", None, 0),),
    "identical_ids": (("tied", "tied", 5.0, None),),
    "recall_level": (
        ("deep", "a", 4.0, 1),
        ("deep", "b", 3.0, 0),
        ("deep", "c", 2.0, 1),
        ("deep", "d", 1.0, 1),
        ("deep", "e", None, 1),
    ),
    "average_over": (
        ("deep", "a", 4.0, None),
        ("deep", "b", 3.0, None),
        ("deep", "c", 2.0, None),
        ("deep", "d", 1.0, 1),
    ),
}
"""Rows more of one query, for the options that tell what becomes of them."""

SETTINGS = {"recall_level": ("recall", 0.3)}
"""Option -> the parameter of a metric, and a value of it by which the option's choices differ."""

EXAMPLES: Mapping[str, object] = {"table": {1: 1, 2: 2, 3: 5}, "number": 2}
"""What is tried for a choice that is no name."""

Row = tuple[str, str, float | None, float | None]
Outcome = tuple[str, ...] | str
"""The mean and the value of every query, or why a choice is refused."""


@dataclass(frozen=True)
class OptionExample:
    """An option's choices on the log.

    Attributes:
        measure: The metric in which the choices differ the most.
        log: The rows (query, item, score, grade).
        queries: The log's queries, in order.
        rows: Choice -> the mean and the value of every query as texts, or one text that
            says why the log is refused.
    """

    measure: Measure
    log: tuple[Row, ...]
    queries: tuple[str, ...]
    rows: Mapping[str, Outcome]


def tried(option: Option, preset: str) -> OptionExample:
    """Evaluate the log with every choice of an option, the other options as in a preset.

    Args:
        option: A value of `OPTIONS`.
        preset: A name of `PRESETS`.

    Returns:
        The example, without rows where no metric of the option fits the log.
    """
    log = _log(option)
    texts = [text for metric in listed() for text in _texts(option, metric)]
    if not texts:  # its metrics compare two systems, and the log is of one
        name = next(metric.name for metric in listed() if option.name in metric.settings)
        return OptionExample(parse(name), (), (), {})
    results = {
        str(value): _evaluated(log, texts, preset, option, value)
        for value in (value_of(option, choice) for choice in option.choices)
    }
    outcomes = {
        text: {value: result[text] for value, result in results.items()}
        for text in _preferred(texts)
    }
    best = max(outcomes, key=lambda text: _n_choices_shown(outcomes[text]))
    return OptionExample(parse(best), log, _queries(log), outcomes[best])


def value_of(option: Option, choice: Choice) -> Value:
    """A choice's value: its name, or an example of what it stands for."""
    return read(option.name, EXAMPLES.get(choice.name, choice.name))


def _log(option: Option) -> tuple[Row, ...]:
    also = ALSO.get(option.name, ())
    of_it = [position for position, row in enumerate(LOG, start=1) if also and row[0] == also[0][0]]
    position = max(of_it, default=len(LOG))
    return LOG[:position] + also + LOG[position:]


def _queries(log: tuple[Row, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[0] for row in log))


ITEMS = pa.Table.from_pylist(
    [
        {
            "item_id": item,
            "category": category,
            "popularity": popularity,
            "users": 8.0,
            "vector": vector,
        }
        for item, category, popularity, vector in (
            ("t", "red", 4.0, [1.0, 0.0]),
            ("tied", "red", 1.0, [1.0, 0.0]),
            ("a", "red", 2.0, [0.0, 1.0]),
            ("b", "red", 1.0, [3.0, 4.0]),
            ("c", "blue", 1.0, [1.0, 0.0]),
            ("d", "red", 1.0, [4.0, 3.0]),
            ("e", "blue", 1.0, [0.0, 2.0]),
            ("y", "red", 1.0, [1.0, 0.0]),
            ("z", "blue", 1.0, [1.0, 1.0]),
            ("zz", "blue", 1.0, [0.0, 1.0]),
            *((item, "red", 1.0, [1.0, 0.0]) for item in "nopq"),
        )
    ]
)
"""What is known of the log's ranked items."""


def _tables(log: tuple[Row, ...]) -> tuple[pa.Table, pa.Table]:
    """The rankings and the labels of the log."""
    names = ("query_id", "item_id", "score", "grade")
    rows = [dict(zip(names, row, strict=True)) for row in log]
    rankings = [row for row in rows if row["score"] is not None]
    labels = [row for row in rows if row["grade"] is not None]
    return (
        pa.Table.from_pylist(rankings).select(["query_id", "item_id", "score"]),
        pa.Table.from_pylist(labels).select(["query_id", "item_id", "grade"]),
    )


def _texts(option: Option, metric: Metric) -> Iterator[str]:
    """A metric that has the option, plain and with the gains that some choices need."""
    fits_log = {"baseline", "labels.group"}.isdisjoint(metric.needs)  # no systems, no groups
    if metric.pooled or not fits_log:  # nor values of queries
        return
    parameter, value = SETTINGS.get(option.name, ("", 0))
    text = f"{metric.name}({parameter}={value})" if parameter in metric.parameters else metric.name
    text = text if metric.cutoff == "none" else f"{text}@{CHOICE_CUTOFF}"
    if option.scope == "spec" or option.name in metric.settings:
        yield text
        if option.name != "gain" and "gain" in metric.options:
            yield text.replace("@", "(gain=binary)@")


def _choice_spec(text: str, preset: str, conventions: Mapping[str, Value]) -> Spec:
    tables: dict[str, Any] = {name: {"relation": name} for name in ("rankings", "labels")}
    return Spec(**tables, metrics=[text], preset=preset, conventions=conventions)


def _preferred(texts: list[str]) -> list[str]:
    """The best known metric first: it is taken unless another tells more; those of items last."""
    return sorted(texts, key=lambda t: (not t.startswith("ndcg@"), bool(parse(t).metric.needs)))


def _evaluated(
    log: tuple[Row, ...], texts: list[str], preset: str, option: Option, value: Value
) -> dict[str, Outcome]:
    """What one choice gives, for each metric."""
    outcomes: dict[str, Outcome] = {}
    conventions: dict[str, Any] = {option.name: value}
    for text in texts:
        try:
            _choice_spec(text, preset, conventions)
        except SpecError as error:
            outcomes[text] = f"refused: {error.problems[0]}"
    fitting = [text for text in texts if text not in outcomes]
    if not fitting:
        return outcomes
    try:
        result = evaluate(*_tables(log), fitting, preset=preset, items=ITEMS, **conventions)
    except InputError as error:
        return outcomes | dict.fromkeys(fitting, f"refused: {error.problems[0].splitlines()[0]}")
    return outcomes | {
        text: _values_of(_measure_of(text, result, option, value), result, option, _queries(log))
        for text in fitting
    }


def _measure_of(text: str, result: Result, option: Option, value: Value) -> Measure:
    """The metric of a text in a result; what makes another number stands in its name."""
    measure = result.spec.measure(text)
    return measure if measure in result.measures else measure.having(option.name, value)


def _values_of(
    measure: Measure, result: Result, option: Option, queries: tuple[str, ...]
) -> tuple[str, ...]:
    """The mean of a metric, and its value for each query."""
    digits = 5 if option.name == "rounding" else 4
    rows = {row["query_id"]: row[measure.column] for row in result.per_query().to_pylist()}
    means = {(row["metric"], row["k"]): row["value"] for row in result.to_dicts()}
    values = [means[measure.name, measure.k or 0], *map(rows.get, queries)]
    return tuple("-" if value is None else f"{value:.{digits}f}" for value in values)


def _n_choices_shown(outcomes: Mapping[str, Outcome]) -> tuple[int, int]:
    """How well a metric shows the choices: how many it takes, and how many differ."""
    values = [row for row in outcomes.values() if not isinstance(row, str)]
    return len(set(values)), len(values)


CUTOFF = 5
"""The cutoff of the example for a metric that needs one and was named without."""


def explain_name(name: str, preset: str | None = None, metrics_from: Any = ()) -> str:
    """All about a metric of lists, an option or a preset, to read at 80 columns.

    Args:
        name: A metric's text, like `ndcg(gain=linear)@10`, or its name alone; or the name
            of an option, like `ties`, or of a preset, like `xgboost`.
        preset: The conventions that hold where the metric's text says nothing else; if it
            is given, the metric is also shown on one data set under every preset.
        metrics_from: Folders of metrics of your own.

    Raises:
        SpecError: If there is no such metric, option or preset, the metric's text is wrong, or
            the preset is unknown; the nearest name is told.
    """
    if preset is not None and preset not in PRESETS:
        raise SpecError(unknown("preset", preset, PRESETS))
    if not isinstance(name, str):
        raise SpecError(f"name must be a text like ndcg@10 or ties, given {shortened(repr(name))}")
    if name.strip().casefold() in PRESETS:
        return "\n\n".join(_of_preset(name.strip().casefold()))
    option = OPTIONS.get(name.strip().casefold())
    preset_name = preset or "house"
    if option:
        return "\n\n".join(_option(option, preset_name))
    files = MetricFiles.read(metrics_from or ())
    own_name = re.split(r"[(@]", name)[0].strip().casefold()
    text = name if own_name in files.metrics else in_our_words(name, preset_name)[0]
    measure = _measure(text, files)
    sections = _metric(measure, preset_name)
    is_of_files = bool(MetricFiles.of(measure).metrics)
    alone = is_of_files or preset is None or needed_fields(measure, preset)
    return "\n\n".join([*sections, *([] if alone else _presets(measure))])


def sql_of(measure: Measure, preset: str = "house") -> str:
    """What `compile` prints for one metric, per query, without its comment of conventions.

    A metric of all lists together has no value for a query; for it this is the summary.

    The stages that give columns their names and types are left out where that is all they
    do: the text then reads the tables `rankings` (query_id, item_id, score) and `labels`
    (query_id, item_id, grade); else `my_rankings` and `my_labels` with these columns. Where
    ties keep their input order, the rankings have a rank instead of a score; a metric that
    needs more reads a column `system` too, `group_id` of the labels, or the table `items`.

    Raises:
        SpecError: If the metric does not fit the preset's conventions.
    """
    plain, inputs = (
        with_stages(_plan(measure, name).inputs, "").rstrip() for name in ("house", preset)
    )
    per_query = not measure.metric.pooled
    text = query_text(_plan(measure, preset), per_query=per_query).rstrip()
    _, _, body = text.partition(inputs)
    return "with" + body.removeprefix(",") if inputs == plain else inputs + body


def _spec(measure: Measure, preset: str) -> Spec:
    by_rank = {"rank": "rank"} if PRESETS[preset].options.get("ties") == "input_order" else {}
    labels = {"relation": "my_labels"}
    rankings: dict[str, Any] = {"relation": "my_rankings"}
    spec_fields = {"rankings": rankings, "labels": labels, **needed_fields(measure, preset)}
    spec_fields["rankings"]["columns"] = spec_fields["rankings"].get("columns", {}) | by_rank
    return Spec(
        **spec_fields,
        name="rankings",
        metrics=[measure.text],
        metrics_from=MetricFiles.of(measure),
        preset=preset,
    )


def _measure(text: str, files: MetricFiles) -> Measure:
    """The metric of a text; one that needs a cutoff and has none takes that of the example."""
    try:
        return parse_beside(text, files.metrics)
    except SpecError:
        with suppress(SpecError):
            return parse_beside(f"{text}@{CUTOFF}", files.metrics)
        name = re.split(r"[(@]", text)[0].strip()
        if name.casefold() in spellings() or not name.isidentifier() or whose(text):
            raise
        names = [*(metric.name for metric in listed()), *WITH_SETTINGS]
        names += [*ONLINE, *OPTIONS, *PRESETS]
        cutoff = re.search(r"@\s*(\d+)\s*$", text)
        if meant := spelled_otherwise(name, int(cutoff[1]) if cutoff else None):
            raise SpecError(f"unknown metric {name!r}; did you mean {meant!r}?") from None
        raise SpecError(unknown("metric, option or preset", name, names)) from None


# -- a preset -------------------------------------------------------------------------


def _of_preset(name: str) -> Iterator[str]:
    """What a preset stands for, and what it sets beside the house's conventions."""
    row = PRESETS[name]
    yield f"{name}: {row.note}"
    facts = [("metrics", ", ".join(row.only))] if row.only else []
    facts += [("beware", row.caveat)] if row.caveat else []
    facts += [
        ("differs", f"{' and '.join(difference.metrics)}: {difference.reason}")
        for difference in row.differences
    ]
    if facts:
        yield "\n".join(hung(*fact) for fact in facts)
    settings = [(*setting, "") for setting in row.options.items()]
    settings += [
        (*setting, metric) for metric, options in row.metrics.items() for setting in options.items()
    ]
    lines = []
    for option, value, metric in settings:
        definition = OPTIONS[option]
        lines.append(f"{option}={value}{f', for {metric} alone' if metric else ''}")
        text = (
            f"{definition.meaning}: {definition.choice(value).meaning} (default: "
            f"{definition.choices[0].name})"
        )
        lines.append(hung("", text, 4))
    yield "\n".join(lines) if settings else "It sets no option: all have their defaults."
    example = _measure(row.only[0] if row.only else "ndcg@10", MetricFiles())
    yield f"Example: sqlmetrics explain {example} --preset {name}"


# -- a metric -------------------------------------------------------------------------


def _plan(measure: Measure, preset: str) -> Plan:
    spec = _spec(measure, preset)
    return make_plan(spec, tables_of(spec))


def _metric(measure: Measure, preset: str) -> Iterator[str]:
    spec = _spec(measure, preset)
    measure = spec.measures[0]
    yield f"{measure}: {measure.metric.title}"
    yield "\n".join(hung(*fact) for fact in _facts(spec, measure))
    if options := list(_options(spec, measure)):
        yield f"Options (* marks the choice of the preset {preset})"
        yield "\n".join(options)
    yield paragraph(
        "For all metrics: ",
        [f"{name}={spec.options[name]}" for name in OPTIONS if OPTIONS[name].scope == "spec"],
        "; see sqlmetrics explain OPTION",
    )
    yield "SQL, one row per system" if measure.metric.pooled else "SQL, one row per query"
    yield sql_of(measure, preset)
    if examples := MetricFiles.of(measure).metrics:
        yield "Examples in its file" if measure.metric.template else "Examples in its files"
        yield _examples(examples)
    else:
        yield from _worked(measure, worked(measure, preset))


def _examples(metrics: Mapping[str, Metric]) -> str:
    """The lists and labels in the headers of files, with the values worked out."""
    rows = [
        [
            at_cutoff(name, example.get("k")),
            " ".join(map(str, example["list"])) or "none",
            " ".join(f"{column}:{value}" for column, value in example.get("query", {}).items()),
            " ".join(f"{item}:{grade}" for item, grade in example.get("labels", {}).items()),
            str(example["value"]),
            example.get("why", ""),
        ]
        for name, metric in metrics.items()
        for example in metric.examples
    ]
    names = ["metric", "list", "query", "labels", "value", "why"]
    if not any(row[2] for row in rows):
        rows, names = [[*row[:2], *row[3:]] for row in rows], [*names[:2], *names[3:]]
    return Table(names, rows).text()


def _facts(spec: Spec, measure: Measure) -> Iterator[tuple[str, str]]:
    metric = measure.metric
    yield "formula", metric.formula
    yield "range", metric.range
    yield "better", f"{metric.better}{f'; unit: {metric.unit}' if metric.unit else ''}"
    yield "empty", metric.empty
    yield "cutoff", {"required": "needed", "optional": "optional"}.get(metric.cutoff, "has none")
    yield "aliases", ", ".join(metric.aliases) or "-"
    settings = spec.settings(measure)
    defaults = [(n, d) for n, d in metric.parameters.items() if settings.reads(n)]
    parameter_texts = [
        f"{n}={number(settings.parameter(n))} (default {number(d)})" for n, d in defaults
    ]
    yield "parameters", ", ".join(parameter_texts) or "-"
    for part in dict.fromkeys(parts(spec, measure)):
        if part != measure:
            yield "made of", f"{part.metric.name}: {part.metric.formula}"
    yield "column", measure.column
    yield "source", metric.source


def _options(spec: Spec, measure: Measure) -> Iterator[str]:
    for name in (name for name in measure.metric.settings if name in OPTIONS):
        yield f"{name}: {OPTIONS[name].meaning}"
        yield from _choices(
            _without_other_choices(OPTIONS[name], measure), spec.settings(measure)[name]
        )


def _without_other_choices(option: Option, measure: Measure) -> Option:
    """An option without the choices that the metric does not have."""
    if option.name != "average" or measure.metric.micro:
        return option
    return replace(option, choices=tuple(c for c in option.choices if c.name != "micro"))


def _choices(option: Option, current_value: Value) -> Iterator[str]:
    """One line a choice, with a star before the one that holds."""
    indent = max(19, *(len(choice.name) + 6 for choice in option.choices))
    for choice in option.choices:
        star = "*" if option.choice(current_value) == choice else " "
        yield hung(f"  {star} {choice.name}", choice.meaning, indent)


def _worked(measure: Measure, example: WorkedExample) -> Iterator[str]:
    yield (
        "Example: one list (the metric takes all lists together)"
        if measure.metric.pooled
        else "Example: one query"
    )
    yield Table(example.columns, example.rows, 2).text()
    yield "\n".join(_legend(measure))
    if example.ideal:
        yield "The ideal order"
        names = ["rank", "item", "grade", "gain", "discount", "gain x discount"]
        yield Table(names, example.ideal, 2).text()
    yield "\n".join(hung(name, calculation, 18) for name, calculation in example.steps)
    if example.remark:
        yield paragraph("", [example.remark])
    yield compared(example.value, example.sql_value, example.difference)


def _legend(measure: Measure) -> Iterator[str]:
    yield "rank -: the item is not in the list, or left out; grade -: it has no label"
    if measure.k:
        yield f"items below rank {measure.k} do not count"


# -- the presets ----------------------------------------------------------------------


def _presets(measure: Measure) -> Iterator[str]:
    """The toy data, and what the presets make of it."""
    agreements = list(agreeing(measure))
    groups = [agreement for agreement in agreements if isinstance(agreement, Agreeing)]
    yield f"{measure} of the same data under each preset"
    yield "\n".join(
        hung(query, f"ranked {_items(LISTS, query)}; labels {_items(LABELS, query)}", 6)
        for query in QUERIES
    )
    rows = [[str(i), *_agreed(group)] for i, group in enumerate(groups, start=1)]
    yield Table(["", *QUERIES, "mean", "queries"], rows, 1).text()
    yield "Which tools agree"
    yield "\n".join(
        hung(row[0], ", ".join(g.presets), 4) for row, g in zip(rows, groups, strict=True)
    )
    refused = [agreement for agreement in agreements if isinstance(agreement, tuple)]
    if refused:
        yield "\n".join(hung(preset, f"refused: {reason}", 15) for preset, reason in refused)


def _items(rows: dict[str, dict[str, int]], query: str) -> str:
    return " ".join(f"{item}:{value}" for item, value in rows.get(query, {}).items()) or "none"


def _agreed(group: Agreeing) -> list[str]:
    values = map(metric_value, (*group.values, group.mean))
    return [*values, str(group.n_queries)]


# -- an option ------------------------------------------------------------------------


def _option(option: Option, preset: str) -> Iterator[str]:
    spec = Spec(
        rankings={"relation": "r"}, labels={"relation": "l"}, metrics=["num_q"], preset=preset
    )
    example = tried(option, preset)
    yield f"{option.name}: {option.meaning}"
    yield f"Choices (* marks that of the preset {preset})"
    yield "\n".join(_choices(option, spec.options[option.name]))
    yield "\n".join(hung(*fact, 13) for fact in _places(option, example.measure))
    if example.rows and not option.of_days:
        yield from _example(option, example)


def _example(option: Option, example: OptionExample) -> Iterator[str]:
    yield ("Example: a small log; score -: the item is not ranked; grade -: it has no label")
    rows = [
        [q, i, "" if s is None else repr(s), number(g) if g is not None else ""]
        for q, i, s, g in example.log
    ]
    yield Table(["query", "item", "score", "grade"], rows, 2).text()
    yield (f"{example.measure} with each choice: the mean, then each query (-: left out)")
    yield _tried(option, example)


def _places(option: Option, measure: Measure) -> Iterator[tuple[str, str]]:
    """Where the option is set, and who sets it otherwise."""
    value = value_of(option, option.choices[1])
    yield "in a spec", f"conventions: {{{option.name}: {value}}}"
    yield "in a shell", f"sqlmetrics evaluate ... -c {_quoted(f'{option.name}={value}')}"
    if option.scope == "metric":
        yield "in a metric", str(measure.having(option.name, value))
        names = [metric.name for metric in listed() if option.name in metric.settings]
        yield "metrics", ", ".join(names)
    presets = [
        f"{name}: {preset.options[option.name]}"
        for name, preset in PRESETS.items()
        if option.name in preset.options
    ]
    yield "presets", ", ".join(presets) + "; " * bool(presets) + f"others: {option.choices[0].name}"


def _tried(option: Option, example: OptionExample) -> str:
    values = {name: row for name, row in example.rows.items() if not isinstance(row, str)}
    refused = {name: row for name, row in example.rows.items() if isinstance(row, str)}
    rows = [(name, *row) for name, row in values.items()]
    table = Table([option.name, "mean", *example.queries], rows, 1).text()
    return "\n".join([table, *(hung(name, reason, 18) for name, reason in refused.items())])


def _quoted(text: str) -> str:
    return f"'{text}'" if " " in text else text
