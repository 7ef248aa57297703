"""Numbers that installed tools print, and whether `reconcile` names the tool of one."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from live_tools import NONE, Compared, apart
from slices import seed
from tools import Labels, Lists

import sqlmetrics as sm
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.errors import SpecError
from sqlmetrics.proof.reconcile.result import Candidate
from sqlmetrics.spec.spec import Spec

N_NUMBERS = 20
LINES = 3
PRINTED = (4, 5)
"""How many decimals people copy."""


def is_first(named: list[bool], reconciled: sm.Reconciliation) -> bool:
    """Whether one of the first lines is named, and none before it is a mistake alone."""
    position = named.index(True) if True in named else LINES
    return position < LINES and all(line.presets for line in reconciled.candidates[:position])


def named(line: Candidate, compared: Compared, text: str, value: float) -> bool:
    """Whether a line names the tool with what its metric's text says, or a tool that is equal."""
    settings = set(re.findall(r"(\w+)=", text))
    is_it = compared.preset in line.presets and set(line.departures) <= settings
    return is_it or (not line.departures and apart(line.value, value) <= compared.tolerance)


def numbers(compared: Compared) -> Iterator[tuple[str, float, str, pa.Table, pa.Table]]:
    """What the tool prints: the metric, the number, its digits, and the tables it is of."""
    rng = random.Random(f"{seed()} {compared}")
    for _ in range(N_NUMBERS):
        ties = compared.tied != NONE and rng.random() < 0.5
        texts = [text for text in compared.texts(ties=ties) if is_of(compared.preset, text)]
        text = rng.choice(texts)
        data = compared.world(rng.randrange(1, 10_000), ties=ties)
        value = compared.adapter.mean(data.lists, data.labels, text)
        printed = f"{value:.{rng.choice(PRINTED)}f}"
        yield text, value, printed, *tables(data.lists, data.labels)


def is_of(preset: str, text: str) -> bool:
    """Whether a preset's tool has a metric, and computes it for lists of any length."""
    metric = parse(text)
    sources: Any = {name: {"relation": name} for name in ("rankings", "labels")}
    try:
        Spec(**sources, metrics=[text], preset=preset)
    except SpecError:
        return False
    return PRESETS[preset].has(metric.metric.name, metric.k)


def tables(lists: Lists, labels: Labels) -> Iterator[pa.Table]:
    """The lists and the labels as tables."""
    columns: list[tuple[str, Lists | Labels]] = [("score", lists), ("grade", labels)]
    for column, values in columns:
        rows = [
            {"query_id": query, "item_id": item, column: float(number)}
            for query, items in values.items()
            for item, number in items.items()
        ]
        yield pa.Table.from_pylist(rows)
