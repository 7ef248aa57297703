"""Random exports of retrieval tools, and what plain Python makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any

import pandas as pd
from evaluation.trace_exports import ENDS, OF_IDS, TOOLS, exported

from sqlmetrics.proof import reference

METRICS = {
    "recall@3": partial(reference.recall, k=3, rel=1.0, recall_denominator="r"),
    "precision@2": partial(reference.precision, k=2, rel=1.0, precision_denominator="k"),
    "mrr": partial(reference.mrr, k=None, rel=1.0, rr_of="first"),
}
DOCUMENTS = ("a", "A", "é", "10", "9", "o'x", 'we"ird', "x,y", "a b", "007", "😀", "[1]")

CHOICES: Mapping[str, Sequence[Any]] = {
    "tool": tuple(TOOLS),
    "source": tuple(end for end in ENDS if end != "pandas"),
    "labels": ("own", "csv"),
    "segments": (False, True),
    "command": ("evaluate", "compare", "show", "report", "diagnose", "funnel", "sheet"),
}


def possible(choice: Mapping[str, Any]) -> bool:
    """Lists of objects are no CSV, and whole traces have no columns of one's own beside them."""
    tool, source = choice.get("tool"), choice.get("source")
    if source == ".csv" and tool is not None and tool not in OF_IDS:
        return False
    if choice.get("segments") and choice.get("command", "evaluate") not in ("evaluate", "show"):
        return False
    return not (choice.get("segments") and tool in ("MLflow, whole", "MLflow, searched"))


@dataclass(frozen=True)
class TraceSetup:
    """How traces are written.

    Attributes:
        tool: Whose export it is.
        source: The ending of its file.
        labels: Whether the references are its `own`, or a table as `csv`.
        segments: Whether a column says the country of a query.
        command: What is asked of them; `show` of a spec that names them.
    """

    tool: str
    source: str
    labels: str
    segments: bool
    command: str


@dataclass(frozen=True)
class Question:
    """A query, what was found for it, and what should have been; None if nobody knows."""

    query: str
    retrieved: list[str]
    relevant: list[str] | None
    country: str


def random_questions(chance: random.Random) -> list[Question]:
    """A few; lists may be empty, as may what is relevant. The first has both."""
    questions = []
    for number in range(chance.randint(2, 6)):
        retrieved = chance.sample(DOCUMENTS, chance.randint(0 if number else 1, 5))
        relevant = chance.sample(DOCUMENTS, chance.randint(0 if number else 1, 4))
        references = relevant if number == 0 or chance.random() < 0.8 else None
        questions.append(
            Question(f"q {number}'", retrieved, references, chance.choice(["de", "fr"]))
        )
    return questions


def stored(setup: TraceSetup, questions: Sequence[Question], folder: Path) -> Path:
    """Write the traces, and the labels beside them if these are a table; the file of the former."""
    has_own_labels = setup.labels == "own"
    rows = [
        TOOLS[setup.tool](
            question.query, question.retrieved, question.relevant if has_own_labels else None
        )
        | ({"country": question.country} if setup.segments else {})
        for question in questions
    ]
    labels = [
        {"query_id": question.query, "item_id": item, "grade": 1}
        for question in questions
        for item in question.relevant or ()
    ]
    pd.DataFrame(labels).to_csv(folder / "labels.csv", index=False)
    return Path(exported(rows, setup.source, folder))


def expected(questions: Sequence[Question], *, segments: bool) -> dict[tuple[str, str, str], float]:
    """Segment, value and metric -> the mean over the queries with something relevant."""
    labelled = [question for question in questions if question.relevant]
    groups = {("all", "all"): labelled}
    if segments:
        groups |= {
            ("country", country): [question for question in labelled if question.country == country]
            for country in {question.country for question in labelled}
        }
    means = {}
    for (name, value), group in groups.items():
        for metric, formula in METRICS.items():
            values = [
                formula(
                    [
                        1.0 if item in (question.relevant or ()) else None
                        for item in question.retrieved
                    ],
                    [1.0] * len(question.relevant or ()),
                )
                for question in group
            ]
            means[name, value, metric] = fsum(number or 0.0 for number in values) / len(values)
    return means
