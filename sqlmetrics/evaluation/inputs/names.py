"""Names that others use for columns, and for what stands in a hit of a search API."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SqlmetricsError
from sqlmetrics.evaluation.inputs.formats import FORMATS, QRELS, RUN, fields_of, holds_row
from sqlmetrics.evaluation.inputs.pipes import is_packed, is_pipe, save_pipe, unpack
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, source_text, typed

ITEMS = "hitid docid docno documentid doc document passageid pid corpusid chunkid"
NAMES: Mapping[str, str] = {
    "query": "qid query queryid userid user uid topic topicid sessionid requestid",
    "item": f"{ITEMS} item iid productid product sku asin articleid movieid songid",
    "score": "hitscore similarity sim prediction pred predictedscore relevancescore logit",
    "rank": "rank position pos",
    "grade": "relevance rel label rating judgment judgement relevancelabel score",
    "system": "system model ranker variant abbucket bucket run runname runid runtag arm algorithm",
    "group": "group groupid subtopic subtopicid nugget nuggetid intent intentid aspect evidenceset",
}
"""Role -> names that others use, without case, blanks and marks."""

USUAL = {"query": "query_id", "item": "item_id", "score": "score", "grade": "grade"}

CLICKED = "clicked click isclick isclicked hasclick clicks nclicks"
"""What the column of a click log is called that says whether an item was clicked."""

QUERY_TEXTS = ("text", "query_text", "query")
"""What the column of the texts is called in a table of queries."""

_OF_HITS = {"_id": "hitid", "_score": "hitscore"}
"""What Elasticsearch and OpenSearch call the id and the score of a hit."""


def plain(name: str) -> str:
    """A name without case, blanks and marks.

    >>> plain("Doc_ID")
    'docid'
    """
    return _OF_HITS.get(name) or re.sub(r"[^a-z0-9]", "", name.casefold())


def in_hit(role: str, names: Iterable[str]) -> str:
    """What stands for a role in a hit, like `_id` and `_score`; empty if nothing does."""
    field_by_name = {plain(name): name for name in names}
    candidates = [plain(USUAL.get(role, role)), *NAMES[role].split()]
    candidates = [*candidates, "id"] if role == "item" else candidates
    return next((field_by_name[name] for name in candidates if name in field_by_name), "")


# Rankings and labels in the other order, as trec_eval has them: seen by what the tables hold.

_SUFFIXES = tuple(suffix for form in FORMATS.values() for suffix in form.suffixes)


def in_order(rankings: Any, labels: Any) -> tuple[Any, Any, str]:
    """Rankings and labels of TREC, with the judgments last, and what was taken for what.

    Args:
        rankings: What was given for them: one table, or several.
        labels: What was given for them.
    """
    if type(rankings).__name__ == "Qrels" and type(labels).__name__ == "Run":
        return labels, rankings, "using the Qrels as the labels, and the Run as the rankings"
    _check_dicts(rankings, labels)
    runs = list(rankings) if isinstance(rankings, list | tuple) else [rankings]
    if _n_fields(labels, "labels") != RUN:
        return rankings, labels, ""
    positions = [
        position for position, run in enumerate(runs) if _n_fields(run, "rankings") == QRELS
    ]
    if not positions:
        raise InputError(
            f"labels: {str(labels)!r} is a run (query Q0 item rank score run), not judgments; "
            "give the labels last, or with --labels"
        )
    if len(positions) != 1:
        return rankings, labels, ""
    qrels, runs[positions[0]] = runs[positions[0]], labels
    note = f"{qrels} holds judgments, so it is used as the labels"
    return runs if len(runs) > 1 else runs[0], qrels, note


def _check_dicts(rankings: Any, labels: Any) -> None:
    """Refuse dicts whose types are those of pytrec_eval's in the other order.

    Raises:
        InputError: If all scores are whole numbers, and grades are floats with fractions.
    """
    scores, grades = _numbers(rankings), _numbers(labels)
    has_whole_scores = bool(scores) and all(isinstance(score, int) for score in scores)
    has_fractions = any(isinstance(grade, float) and grade % 1 for grade in grades)
    if has_whole_scores and has_fractions:
        grade = next(grade for grade in grades if isinstance(grade, float) and grade % 1)
        raise InputError(
            f"rankings: all scores are whole numbers, like {scores[0]!r}, and labels have grades "
            f"like {grade!r}: rankings and labels seem to be swapped. Give rankings first and "
            "labels second; if they are right, give the scores as floats"
        )


def _numbers(input_table: Any) -> list[Any]:
    """The values of `{query: {item: value}}`; none of anything else."""
    is_nested = isinstance(input_table, dict) and all(
        isinstance(items, dict) for items in input_table.values()
    )
    return (
        [value for items in input_table.values() for value in items.values()] if is_nested else []
    )


def holds_run(input_table: Any) -> bool:
    """Whether a file is a run of TREC, by its first line."""
    return _n_fields(input_table, "rankings") == RUN


def _n_fields(input_table: Any, role: str) -> int:
    """How many fields the first line of a TREC file has, at most `RUN`; 0 of anything else."""
    first = _first_line(input_table, role)
    n_fields = min(len(first), RUN)
    return n_fields if _has_number(first[:n_fields]) else 0


def _first_line(input_table: Any, role: str) -> list[str]:
    """The fields of the first line of a TREC file; none of anything else."""
    text = str(input_table) if isinstance(input_table, str | Path) else ""
    if is_pipe(text):
        text = save_pipe(text, role)
    elif is_packed(text):
        text = unpack(text, role)
    if not text or text.casefold().endswith(_SUFFIXES):
        return []
    with suppress(OSError, EOFError, zlib.error, ValueError):
        reader = gzip.open if text.endswith(".gz") else open
        with reader(text, "rt", encoding="utf-8") as lines:
            return next((fields_of(line) for line in lines if holds_row(line)), [])
    return []


def _has_number(fields: Sequence[str]) -> bool:
    """Whether a score, or a grade, stands where it has to."""
    position = {RUN: 4, QRELS: 3}.get(len(fields))
    return (
        position is not None and re.fullmatch(r"[-+.\deE]+|nan|inf", fields[position]) is not None
    )


def are_swapped(spec: Spec, tables: Tables, engine: Database) -> bool:
    """Whether the rankings have grades and nothing to rank by, and the labels the reverse."""
    if spec.labels is None or spec.rankings.sql or spec.labels.sql:
        return False
    order = {spec.rankings.columns.order, *NAMES["score"].split(), *NAMES["rank"].split()}
    grade = {spec.labels.columns.grade, *NAMES["grade"].split()} - {"score"}
    ranking_columns, label_columns = (
        _columns(tables.rankings, engine),
        _columns(tables.labels, engine),
    )
    has = [
        (bool(names & _plain(order)), bool(names & _plain(grade)))
        for names in (ranking_columns, label_columns)
    ]
    return has == [(False, True), (True, False)]


def _columns(relation: Relation, engine: Database) -> set[str]:
    if relation.columns:
        return set()
    with suppress(SqlmetricsError):
        return _plain(engine.columns(source_text(typed(relation))))
    return set()


def _plain(names: Any) -> set[str]:
    return set(map(plain, names))
