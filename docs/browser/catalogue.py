"""What the page that computes in the browser knows: presets, their SQL, and words, as one JSON.

Every text of SQL is the compiler's. It is compiled with a cutoff that stands for any: what DuckDB
runs in the page reads a variable in its place, and a text to copy comes in pieces, between which
the page writes the cutoff. A second compilation with another one proves that nothing else hangs
on it. Stages that several presets share are tables in the page, made once.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.checks.rules import group_checks, row_checks
from sqlmetrics.evaluation.checks.scores import rounded
from sqlmetrics.evaluation.inputs.formats import TREC
from sqlmetrics.evaluation.inputs.names import NAMES, USUAL
from sqlmetrics.evaluation.inputs.sources import SEPARATORS
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import query_text
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import DEFAULT, DIALECTS
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column, print_template, with_stages
from sqlmetrics.sql.translation import Translation

FOLDER = Path(__file__).parent
AT_K = ("ndcg", "recall", "precision", "hit", "mrr", "ap", "f1", "dcg")
WHOLE = ("ndcg", "mrr", "ap", "rprec")
METRICS = (*(f"{name}@k" for name in AT_K), *WHOLE)
"""The page's metrics, `@k` for any cutoff."""

CUTOFF, OTHER = 43, 59
"""The cutoff that stands for any, and the one that proves it."""

TABLES = ("rankings", "labels")
RANKINGS, LABELS = Relation("table", "rankings", ordered=True), Relation("table", "labels")
"""The page makes these of the user's files; their rows have the files' order."""


def catalogue(dialects: tuple[str, ...] = tuple(DIALECTS)) -> dict[str, Any]:
    """All that the page reads, beside the data."""
    steps = Steps()
    presets = {name: _preset(name, steps) for name in PRESETS}
    return {
        "metrics": {metric: _metric(metric) for metric in METRICS},
        "presets": presets,
        "tables": steps.tables(),
        "checks": [vars(check) for check in steps.checks],
        "ranks": [vars(check) for check in _rank_checks()],
        "read": _readers(),
        "facts": (FOLDER / "facts.sql").read_text(encoding="utf-8"),
        "names": {role: [USUAL.get(role, role), *NAMES[role].split()] for role in NAMES},
        "options": {
            name: {choice.name: choice.meaning for choice in option.choices}
            for name, option in OPTIONS.items()
        },
        "texts": Texts().of(dialects),
        "dialects": {name: [DIALECTS[name].title, str(trust(DIALECTS[name]))] for name in dialects},
        "words": tomllib.loads((FOLDER / "words.toml").read_text(encoding="utf-8")),
    }


def cut(metric: str, k: int = CUTOFF) -> str:
    """A metric of the page with a cutoff.

    >>> cut("ndcg@k"), cut("ap")
    ('ndcg@43', 'ap')
    """
    return metric.replace("@k", f"@{k}")


def _metric(metric: str) -> dict[str, str]:
    header = catalog()[metric.partition("@")[0]]
    return {"title": header.title, "formula": header.formula}


def spec_of(preset: str, metrics: list[str], columns: Mapping[str, str | None]) -> Spec:
    """The spec of some metrics under a preset, of tables called `rankings` and `labels`."""
    return Spec.model_validate(
        {
            "version": 1,
            "name": "rankings",
            "rankings": {"relation": "rankings", "columns": columns},
            "labels": {"relation": "labels"},
            "metrics": metrics,
            "preset": preset,
        }
    )


def plan_of(preset: str, metrics: list[str]) -> Plan:
    """How the page evaluates them."""
    return make_plan(spec_of(preset, metrics, {}), Tables(RANKINGS, LABELS))


@cache
def refusal(preset: str, metric: str) -> str:
    """Why there is no such number; empty if there is one."""
    try:
        plan_of(preset, [cut(metric)])
    except SpecError as error:
        return str(error)
    return ""


def measured(preset: str) -> list[str]:
    """The metrics of the page that a preset's tool has."""
    only = PRESETS[preset].only
    return [
        metric
        for metric in METRICS
        if (not only or metric.partition("@")[0] in only) and not refusal(preset, metric)
    ]


def _preset(name: str, steps: Steps) -> dict[str, Any]:
    preset, metrics = PRESETS[name], measured(name)
    chosen = plan_of(name, [cut(metric) for metric in metrics])
    cells = {}
    for measure, metric in zip(chosen.measures, metrics, strict=True):
        settings = chosen.spec.settings(measure)
        used = sorted({*measure.metric.settings} & {*WORDED})
        general = [option for option in WORDED if OPTIONS[option].scope == "spec"]
        cells[metric] = {
            "options": {option: str(settings[option]) for option in dict.fromkeys(used + general)},
            "differs": preset.why_different(
                metric.partition("@")[0], None if "@" not in metric else 1
            ),
        }
    return {
        "note": preset.note,
        "caveat": preset.caveat,
        "decimals": preset.decimals,
        "ordered": preset.options.get("ties") == "input_order",
        "cells": cells,
        "refused": {metric: why for metric in METRICS if (why := refusal(name, metric))},
        "checks": steps.add_checks(chosen),
        "end": steps.add(name, metrics),
    }


WORDED = (
    "gain",
    "discount",
    "ideal",
    "recall_denominator",
    "precision_denominator",
    "ap_denominator",
    "rr_of",
    "ties",
    "score_precision",
    "duplicate_rankings",
    "identical_ids",
    "unjudged",
    "missing",
    "no_relevant",
    "average_over",
    "rounding",
)
"""The options by which presets differ, in the order in which the page names them."""


@dataclass(frozen=True)
class Step:
    """A stage of some presets, with those that it reads.

    Attributes:
        name: What the stage is called.
        text: Its CTE, without comments.
        reads: Positions of the steps that it reads, by what they are called there.
    """

    name: str
    text: str
    reads: tuple[tuple[str, int], ...]


@dataclass
class Steps:
    """The stages of all presets, each text once, and the checks of the input, likewise."""

    steps: dict[Step, int] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    checks: dict[Check, int] = field(default_factory=dict)

    def add(self, preset: str, metrics: list[str]) -> int:
        """Add the stages of a preset; the position of its summary."""
        stages, others = (_stages(preset, metrics, k) for k in (CUTOFF, OTHER))
        positions: dict[str, int] = {}
        for (name, text), (_, other_text) in zip(stages.items(), others.items(), strict=True):
            variable = with_variable(text, CUTOFF)
            if variable != with_variable(other_text, OTHER):
                raise ValueError(f"{preset}: more than the cutoff of {name} hangs on it")
            reads = tuple((n, i) for n, i in positions.items() if re.search(rf"\b{n}\b", variable))
            step = Step(name, variable, reads)
            positions[name] = self.steps.setdefault(step, len(self.steps))
        self.ends.append(positions["summary"])
        return positions["summary"]

    def tables(self) -> dict[int, dict[str, Any]]:
        """The statements: a table for each step that several read, and for each summary."""
        steps = list(self.steps)
        readers = Counter(i for step in steps for _, i in step.reads)
        kept = {i for i, n in readers.items() if n > 1} | {*self.ends}
        tables: dict[int, dict[str, Any]] = {}
        for i in sorted(kept):
            tables[i] = self._table(i, steps, kept)
            is_cut = "getvariable" in tables[i]["sql"]
            tables[i]["cut"] = is_cut or any(tables[need]["cut"] for need in tables[i]["needs"])
        return tables

    def _table(self, position: int, steps: list[Step], kept: set[int]) -> dict[str, Any]:
        ctes: dict[str, str] = {}
        needs: list[int] = []

        def visit(i: int) -> None:
            for name, read in steps[i].reads:
                if name in ctes:
                    continue
                if read in kept:
                    ctes[name] = f"{name} as not materialized (select * from step_{read})"
                    needs.append(read)
                else:
                    visit(read)
                    ctes[name] = steps[read].text

        visit(position)
        step = steps[position]
        ctes[step.name] = step.text
        columns = SUMMARY if step.name == "summary" else "*"
        select = f"with {', '.join(ctes.values())} select {columns} from {step.name}"
        return {"sql": f"create table step_{position} as {select}", "needs": needs}

    def add_checks(self, chosen: Plan) -> list[int]:
        """Add the checks of a plan; their positions."""
        return [
            self.checks.setdefault(check, len(self.checks))
            for check in (*_row_checks(chosen), *_group_checks(chosen), *_rounded(chosen))
        ]


SUMMARY = (
    "metric, k, value, cast(n_queries as double) as n_queries, cast(n_skipped as double) as "
    "n_skipped, cast(n_missing as double) as n_missing"
)


def _stages(preset: str, metrics: list[str], k: int) -> dict[str, str]:
    """Stage -> its CTE, without comments."""
    chosen = plan_of(preset, [cut(metric, k) for metric in metrics])
    texts = {}
    for stage in (*chosen.inputs, *chosen.per_query, *chosen.summary):
        text = with_stages((stage,), "").removeprefix("with\n\n").strip()
        texts[stage.name] = re.sub(r"^--.*\n|\s+(?=\s)", "", text, flags=re.MULTILINE)
    return texts


def with_variable(text: str, k: int) -> str:
    """A text of DuckDB with the page's variable where the cutoff stands.

    >>> with_variable("case when rnk <= 43 then 1e0 / 43e0 end as p_at_43", 43)
    "case when rnk <= getvariable('k') then 1e0 / cast(getvariable('k') as double) end as p_at_k"
    """
    text = re.sub(rf"(?<=_at_){k}\b", "k", text)
    text = text.replace(full_dcg(k), FULL_DCG)
    text = re.sub(rf"(?<![\w.]){k}e0\b", "cast(getvariable('k') as double)", text)
    return re.sub(rf"(?<![\w.]){k}(?![\w.])", "getvariable('k')", text)


@cache
def full_dcg(k: int) -> str:
    """The DCG of k relevant items, as the compiler prints it for ideal=all_k."""
    (ndcg,) = plan_of("rectools", [f"ndcg@{k}"]).per_query[-1].view["columns"][-1:]
    (literal,) = re.findall(r"[\d.]+e0(?=, 0e0\))", str(ndcg))
    return str(literal)


FULL_DCG = "(select sum(ln(2e0) / ln(rnk + 1e0)) from range(1, getvariable('k') + 1) as ranks(rnk))"

# ---- the checks of the input


@dataclass(frozen=True)
class Check:
    """A query that tells what is wrong with a table.

    Attributes:
        table: The table.
        sql: Without `group` it counts the rows, and those that break each of `rows`; else it
            returns nothing, or the count of what is wrong and an example.
        rows: The problem and the remedy of each count.
        group: The problem and the remedy.
    """

    table: str
    sql: str = field(compare=False)
    rows: tuple[tuple[str, str], ...] = ()
    group: tuple[str, str] | None = None
    queries: str = "all"


def _row_checks(chosen: Plan) -> Iterator[Check]:
    for table in TABLES:
        columns = chosen.shape.columns[table]
        rules = row_checks(chosen, table)
        counts = [
            f"sum(case when {rule.text(columns[rule.role])} then 1 else 0 end)" for rule in rules
        ]
        problems = tuple((f"{columns[rule.role]} {rule.problem}", rule.remedy) for rule in rules)
        yield Check(table, f"select {', '.join(['count(*)', *counts])} from {table}", problems)


def _group_checks(chosen: Plan) -> Iterator[Check]:
    """Checks of several rows: the same whatever the scores are cast to."""
    rows = str(chosen.spec.options["identical_ids"])
    for rule in group_checks(chosen):
        view = {**rule.view, "among": []}
        sql = with_stages(chosen.inputs, print_template(f"checks/{rule.template}", view))
        yield Check(rule.table, sql, group=(rule.problem, rule.remedy), queries=rows)


def _rounded(chosen: Plan) -> Iterator[Check]:
    """Scores that differ, and tie as DOUBLEs."""
    rounding = rounded("score", "VARCHAR")
    if rounding is None or chosen.spec.options["score_precision"] != "double":
        return
    keys = [Column("query_id", "query_id")]
    view = {"keys": keys, "score": "score", "source": "rankings", **vars(rounding)}
    problem = ("scores that differ but are the same number as a DOUBLE", "round them")
    yield Check("rankings", print_template("checks/rounded", view), group=problem)


def _rank_checks() -> list[Check]:
    """What is asked of a column of ranks, where the file has one in place of scores."""
    chosen = make_plan(spec_of("house", ["mrr"], {"rank": "rank"}), Tables(RANKINGS, LABELS))
    rows = [check for check in _row_checks(chosen) if check.table == "rankings"]
    groups = [check for check in _group_checks(chosen) if check.group]
    return [*rows, *(check for check in groups if "ranked 1" in str(check.group))]


# ---- reading files


def _readers() -> dict[str, str]:
    """Format -> what stands behind FROM, for the file of each table."""
    readers = {}
    for table in TABLES:
        for ending in ("", ".gz"):
            file = f"{table}.file{ending}"
            for mark in SEPARATORS:
                for is_trimmed in (False, True):
                    relation = Relation("csv", file, separator=mark, texts=True, trimmed=is_trimmed)
                    readers[f"{file} {mark}{' padded' * is_trimmed}"] = source_text(relation)
            readers[f"{file} trec"] = source_text(Relation(TREC[table].template, file))
    return readers


# ---- texts to copy

MARKS = {"k": "\u0001", "full_dcg": "\u0002"}
"""What stands in a text for the cutoff, and for the DCG of so many relevant items."""


class Texts:
    """The texts of all dialects in pieces that many of them share."""

    def __init__(self) -> None:
        self._pieces: dict[str, int] = {}
        self._bodies: dict[tuple[int, ...], int] = {}
        self._translated: dict[tuple[str, str], int | str] = {}

    def of(self, dialects: Iterable[str]) -> dict[str, Any]:
        """Dialect -> preset -> metric -> its comment and its body, or why there is none."""
        cells = {
            dialect: {
                preset: {metric: self._cell(preset, metric, dialect) for metric in measured(preset)}
                for preset in PRESETS
            }
            for dialect in dialects
        }
        return {"pieces": [*self._pieces], "bodies": [*self._bodies], "cells": cells}

    def _cell(self, preset: str, metric: str, dialect: str) -> list[int] | str:
        """The positions of its comment among the pieces and of its body, or why it has none."""
        try:
            text = _query(preset, metric, dialect, CUTOFF)
        except SpecError as error:
            return str(error)
        if dialect == DEFAULT and marked(text, CUTOFF) != marked(
            _query(preset, metric, dialect, OTHER), OTHER
        ):
            raise ValueError(f"{preset} {metric}: more than the cutoff hangs on it")
        comment, _, body = text.partition("\nwith\n")
        if (dialect, body) not in self._translated:
            self._translated[dialect, body] = self._body(dialect, body)
        position = self._translated[dialect, body]
        return position if isinstance(position, str) else [self._piece(comment), position]

    def _body(self, dialect: str, body: str) -> int | str:
        try:
            text = Translation(DIALECTS[dialect]).text(f"with\n{body}")
        except SpecError as error:
            return str(error)
        pieces = tuple(map(self._piece, text.split("\n\n")))
        return self._bodies.setdefault(pieces, len(self._bodies))

    def _piece(self, text: str) -> int:
        return self._pieces.setdefault(marked(text, CUTOFF), len(self._pieces))


def _query(preset: str, metric: str, dialect: str, k: int) -> str:
    """What `compile` prints, before it is translated.

    For a tool that leaves ties in their order a table needs a column of ranks.
    """
    columns = {"rank": "rank"} if PRESETS[preset].options.get("ties") == "input_order" else {}
    rankings = Relation("table", "rankings")
    tables = Tables(rankings, LABELS, translation=Translation(DIALECTS[dialect]))
    return query_text(make_plan(spec_of(preset, [cut(metric, k)], columns), tables))


def marked(text: str, k: int) -> str:
    """A text with marks where the cutoff stands."""
    text = text.replace(full_dcg(k), MARKS["full_dcg"])
    return re.sub(rf"(?<!\d){k}(?!\d)", MARKS["k"], text)
