"""The SQL against the reference, on the user's own data: the largest difference, and where."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlmetrics.catalog.measure import Measure, parse
from sqlmetrics.catalog.metric import AGE
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.checks import check_columns
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import Result, with_dates
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.proof import (
    reference,
    reference_columns,
    reference_evaluation,
    reference_world,
)
from sqlmetrics.proof.metric_examples import examples_of, outcomes
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.sql.translation import Translation

SAMPLE = 10_000

DIGITS = "score_digits"
"""The column of a score's text, where its number has more digits than Arrow's types hold."""


@dataclass(frozen=True)
class Agreement:
    """How far the SQL and the reference are apart for one metric.

    Attributes:
        measure: The metric.
        compared: How many per-query values and means were compared.
        largest: The largest |a - b| / max(1, |b|); infinite if one side has no value.
        where: The query (or the system and segment of a mean) with that difference.
    """

    measure: Measure
    compared: int
    largest: float
    where: str


def verify_spec(spec: Spec, engine: Database) -> tuple[Result, list[Agreement]]:
    """Evaluate a spec twice, by SQL and by the reference, and compare every number.

    Args:
        spec: What is asked.
        engine: Where the tables are.

    Returns:
        The result, and one `Agreement` a metric.

    Raises:
        SqlmetricsError: As `evaluate` does.
    """
    by_examples = list(_by_examples(spec, engine))
    of_files = {agreement.measure for agreement in by_examples}
    tables = opened(spec, engine)
    if of_files == {*spec.measures}:
        return run(spec, tables, engine), by_examples
    if of_files:
        spec = spec.having(metrics=[m.text for m in spec.measures if m not in of_files])
    result = run(spec, tables, engine)
    proof = evaluated_by_reference(make_plan(spec, tables), engine)
    return result, [*compare(result, proof), *by_examples]


def _by_examples(spec: Spec, engine: Database) -> Iterator[Agreement]:
    """The metrics of files, which have no reference: how far they are from their examples."""
    for measure in spec.measures:
        metrics = [part.metric for part in measure.components if part.metric.template]
        if not metrics:
            continue
        examples = [e for metric in metrics for e in examples_of(metric, spec.metrics_from)]
        tested = outcomes(examples, spec.metrics_from, engine)
        worst = max(tested, key=lambda outcome: outcome.difference)
        source = f"{worst.example.name} of {worst.example.measure.metric.name}"
        where = f"{source}{f': {worst.refusal}' if worst.refusal else ''}"
        yield Agreement(measure, len(tested), worst.difference, where if worst.difference else "")


def sampled(spec: Spec, engine: Database, most: int = SAMPLE) -> tuple[Spec, int]:
    """The spec on a sample of its queries that is always the same.

    Args:
        spec: What is asked.
        engine: Where its tables are.
        most: How many queries at the most; a spec with fewer is left as it is.

    Returns:
        The spec, and how many queries it now has.
    """
    translation = engine.translation
    tables = opened(spec, engine)
    check_columns(make_plan(spec, tables), engine)
    source = source_text(
        tables.protected(tables.rankings),
        translation.condition(tables.condition("rankings", spec.rankings)),
    )
    column = identifier(spec.rankings.columns.query)
    hashed = translation.expression(translation.dialect.hashed, f"cast({column} as varchar)")
    ids = f"select distinct {hashed} as hash from {source}"
    counted = int(engine.rows(f"select count(*) as n from ({ids}) as ids")[0][0])
    if counted <= most:
        return spec, counted
    numbered = (
        f"select hash, row_number() over (order by hash asc) as hash_rank from ({ids}) as ids"
    )
    last = engine.rows(f"select hash from ({numbered}) as numbered where hash_rank = {most}")
    return _restricted(spec, str(last[0][0]), translation), most


def _restricted(spec: Spec, last: str, translation: Translation) -> Spec:
    """The spec with the queries alone whose hash is not above one, in its rankings and labels."""

    def part(source: Source, query: str) -> Source:
        hashed = translation.over_column(
            translation.dialect.hashed, f"cast({identifier(query)} as varchar)"
        )
        return _where(source, f"{hashed} <= {literal(last)}")

    changed = {"rankings": part(spec.rankings, spec.rankings.columns.query)}
    if spec.labels is not None:
        changed["labels"] = part(spec.labels, spec.labels.columns.query)
    return spec.having(**changed)


def _where(source: Source, condition: str) -> Source:
    combined = f"({source.where}) and {condition}" if source.where else condition
    return source.model_copy(update={"where": combined})


def evaluated_by_reference(plan: Plan, engine: Database) -> reference_evaluation.Evaluation:
    """The reference's numbers for the input of a plan."""
    spec, options = plan.spec, plan.spec.options
    rows = _rows(plan, engine)
    return reference_evaluation.evaluate(
        [_ranked(row, spec.by) for row in rows["rankings"]],
        [_label(row) for row in rows["labels"]],
        [build_question(spec, measure) for measure in plan.measures],
        ties=str(options["ties"]).replace("error", "id_asc"),
        score_precision=str(options["score_precision"]),
        duplicate_rankings=str(options["duplicate_rankings"]),
        identical_ids=str(options["identical_ids"]),
        min_score=least if isinstance(least := options["min_score"], int | float) else None,
        depth=None if options["depth"] == "none" else int(str(options["depth"])),
        unjudged=str(options["unjudged"]),
        negative_grades=str(options["negative_grades"]),
        missing=str(options["missing"]).replace("error", "zero"),
        absent_systems=str(options["absent_systems"]),
        of_one_system=spec.clicks is not None,
        segments=spec.by,
        query_rows=[_query_row(row) for row in rows.get("queries", [])],
        catalogue={row["item_id"]: _item(row) for row in rows.get("items", [])},
        baseline=spec.baseline,
        derived={name: spec.segments[name] for name in plan.shape.derived_facts.values()},
        rel=spec.settings(parse("num_rel")).parameter("rel"),
    )


def _rows(plan: Plan, engine: Database) -> dict[str, list[dict[str, Any]]]:
    """The tables as they are, before any policy for negative grades."""
    raw = plan.spec.having(conventions=dict(plan.spec.conventions) | {"negative_grades": "error"})
    shape = make_plan(raw, plan.shape.at).shape
    stages = dict(zip(shape.tables, shape.stages(), strict=True))
    extra_columns = {
        "rankings": f", cast(score as varchar) as {DIGITS}" * _has_digits(plan, engine)
    }
    return {
        table: with_dates(
            engine.table(
                with_stages(
                    stages.values(), f"select *{extra_columns.get(table, '')}\nfrom {stage.name}"
                )
            ),
            ["metric_date", *(r for r in shape.columns[table] if r.startswith(f"{AGE}_"))],
        ).to_pylist()
        for table, stage in stages.items()
    }


def _has_digits(plan: Plan, engine: Database) -> bool:
    """Whether scores are compared exactly, and Arrow's numbers do not hold those of the column."""
    shape = plan.shape
    name = shape.columns["rankings"].get("score", "")
    is_exact = plan.spec.options["score_precision"] == "exact"
    if not (is_exact and name) or shape.translation.dialect.casts_texts:
        return False
    kinds = engine.columns(source_text(shape.tables["rankings"])).items()
    kind = {column.casefold(): kind for column, kind in kinds}[name.casefold()]
    return re.fullmatch(r"U?HUGEINT|UBIGINT|DECIMAL.*", kind) is not None


def build_question(spec: Spec, measure: Measure) -> reference.Question:
    """A measure as the reference wants it: every setting with its value."""
    metric, settings = measure.metric, spec.settings(measure)
    if metric.arithmetic:
        return reference.Question(
            metric.name,
            {},
            average_over=str(settings["average_over"]),
            formula=metric.arithmetic.python,
            components=tuple(build_question(spec, part) for part in measure.components),
        )
    arguments: dict[str, Any] = {name: settings.parameter(name) for name in metric.parameters} | {
        name: settings[name] for name in metric.options
    }
    if metric.cutoff != "none":
        arguments["k"] = measure.k
    if metric.operand:
        arguments["column"] = metric.operand
    policy = metric.undefined == "no_relevant"
    return reference.Question(
        metric.name,
        arguments,
        no_relevant=str(settings["no_relevant"]) if policy else "skip",
        average=str(settings["average"]),
        average_over=str(settings["average_over"]),
        ties=str(settings["ties"]).replace("error", "id_asc"),
        rounding=settings["rounding"],  # type: ignore[arg-type]
        count=metric.count,
    )


def compare(result: Result, proof: reference_evaluation.Evaluation) -> Iterator[Agreement]:
    """One `Agreement` a metric, over all queries and all means; rows must match too."""
    rows = {_row_key(row, result): row for row in result.per_query().to_pylist()}
    means = {_mean_key(row, result): row for row in result.to_dicts()}
    compared_values = {
        key: values for key, values in proof.per_query.items() if not _left_out(result, rows, key)
    }
    extra = [("a row that the reference does not have", math.inf, 0.0)] * _superfluous(
        result, rows, compared_values
    )
    for i, measure in enumerate(result.measures):
        pairs = [
            (f"query {key[2]!r} of {key[1]!r}", _got(rows, key, measure), values[i])
            for key, values in compared_values.items()
            if not measure.metric.pooled
        ]
        for group, lines in proof.summary.items():
            row = means.get((*group, measure.name, measure.k or 0), {})
            pairs += _mean_pairs(group, row, lines[i])
        differences = ((_apart(a, b), label) for label, a, b in pairs + extra)
        worst, where = max(differences, default=(0.0, ""))
        yield Agreement(measure, len(pairs), worst, where if worst else "")


def _superfluous(result: Result, rows: Any, compared_values: Any) -> int:
    """How many per-query rows the SQL has that the reference has not, doubled ones too."""
    return int(result.per_query().num_rows) - len(rows) + len(rows.keys() - compared_values.keys())


def _mean_pairs(group: Any, row: dict[str, Any], line: reference_evaluation.Mean) -> Iterator[Any]:
    label = f"mean of {group[1]!r}, {group[2]}={group[3]!r}"
    if not row and line.n_queries + line.n_skipped + line.n_missing == 0:
        return
    for name in ("value", "n_queries", "n_skipped", "n_missing"):
        yield f"{name}, {label}", row.get(name), getattr(line, name)


def _left_out(result: Result, rows: Any, key: Any) -> bool:
    """With missing=drop the per-query table does not hold queries without a ranking."""
    return result.spec.options["missing"] == "drop" and key not in rows


def _got(rows: Any, key: Any, measure: Measure) -> float | None:
    return rows[key][measure.column] if key in rows else -math.inf


def _apart(got: float | None, proof: float | None) -> float:
    if got is None or proof is None:
        return 0.0 if got is proof else math.inf
    if math.isnan(got) or math.isnan(proof):
        return 0.0 if math.isnan(got) and math.isnan(proof) else math.inf
    return abs(got - proof) / max(1.0, abs(proof))


def _row_key(row: dict[str, Any], result: Result) -> tuple[Any, str, str]:
    system = row["system"] if _has_system(result) else ""
    return row.get("metric_date"), system, row["query_id"]


def _mean_key(row: dict[str, Any], result: Result) -> tuple[Any, ...]:
    date = row["metric_date"] if result.spec.rankings.columns.date else None
    system = row["system"] if _has_system(result) else ""
    return (date, system, row["segment_name"], row["segment_value"], row["metric"], row["k"])


def _has_system(result: Result) -> bool:
    return "system" in result.list_keys


def _ranked(row: dict[str, Any], by: tuple[str, ...]) -> reference_world.RankedRow:
    order = -row["given_rank"] if "given_rank" in row else row["score"]
    return reference_world.RankedRow(
        row["query_id"],
        row["item_id"],
        Decimal(row[DIGITS]) if DIGITS in row else order,
        system=row.get("system", ""),
        date=row.get("metric_date"),
        weight=row.get("weight", 1.0),
        segments=tuple(row.get(f"by_{name}") for name in by),
    )


def _label(row: dict[str, Any]) -> reference_world.Label:
    return reference_world.Label(
        row["query_id"],
        row["item_id"],
        row["grade"],
        row.get("metric_date"),
        row.get("group_id", ""),
        {name.removeprefix("label_"): row[name] for name in row if name.startswith("label_")},
    )


def _query_row(row: dict[str, Any]) -> reference_world.QueryRow:
    segments = {n.removeprefix("by_"): value for n, value in row.items() if n.startswith("by_")}
    return reference_world.QueryRow(
        row["query_id"], row.get("metric_date"), row.get("weight"), segments
    )


def _item(row: dict[str, Any]) -> reference_columns.Item:
    return reference_columns.Item(
        row.get("category"), row.get("popularity"), row.get("users"), row.get("vector") or (), row
    )
