"""What a metric, an option or a preset is, as text: its definition, its SQL and an example."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import WITH_SETTINGS, Measure, parse_beside, spelled_otherwise
from sqlmetrics.catalog.metric import Metric, at_cutoff, listed, spellings
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.catalog.option import Option, Value
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.catalog.tool_names import in_our_words, whose
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.plan import script
from sqlmetrics.plan.plan import Plan, plan
from sqlmetrics.proof.explain.arithmetic import number, parts
from sqlmetrics.proof.explain.choices import OptionExample, tried, value_of
from sqlmetrics.proof.explain.example import needed_fields
from sqlmetrics.proof.explain.lines import compared, hung, paragraph
from sqlmetrics.proof.explain.presets import LABELS, LISTS, QUERIES, Agreeing, agreeing
from sqlmetrics.proof.explain.worked_example import WorkedExample, worked
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.table import Table, metric_value

CUTOFF = 5
"""The cutoff of the example for a metric that needs one and was named without."""


def explain(name: str, preset: str | None = None, metrics_from: Any = ()) -> str:
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
    text = script.query(_plan(measure, preset), per_query=per_query).rstrip()
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
    return plan(spec, tables_of(spec))


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
        yield from _choices(_own(OPTIONS[name], measure), spec.settings(measure)[name])


def _own(option: Option, measure: Measure) -> Option:
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
