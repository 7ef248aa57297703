"""Who is compared. A contender is a row here and a module beside this one.

The module has a function `means(rankings, labels, shape)`: from two Parquet files to the mean of
each metric. If there are functions of these names, `prepare()` is a part of the start, and
`read(rankings, labels, shape)` makes of the files what `means` is then given. It runs in a
process of its own, so a module imports what it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from benchmarks.data import Shape

METRICS = ("ndcg@10", "ndcg@100", "recall@100", "precision@10", "mrr", "ap")
THREADS = 2


@dataclass(frozen=True)
class Contender:
    """One way to the numbers.

    Attributes:
        name: What `--only` and the table call it.
        module: The module beside this one.
        about: What it does, in the table's legend.
        needs: What must be importable -> the package that has it.
        options: Arguments of its `means` besides the files.
        metrics: Those that it computes; the bare join only reads and joins.
        breaks_ties: Whether it can take items with equal scores in an order that others have.
        keeps_systems: Whether it can evaluate several systems.
    """

    name: str
    module: str
    about: str
    needs: Mapping[str, str]
    options: Mapping[str, bool] = field(default_factory=dict)
    metrics: Sequence[str] = METRICS
    breaks_ties: bool = True
    keeps_systems: bool = True

    @property
    def has_metrics(self) -> bool:
        """Whether it computes any."""
        return bool(self.metrics)

    def can(self, shape: Shape) -> bool:
        """Whether it can evaluate data of a shape."""
        return (self.breaks_ties or not shape.tied) and (self.keeps_systems or shape.systems == 1)

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that have to be installed first."""
        return tuple(package for name, package in self.needs.items() if not find_spec(name))


_DUCKDB = {"duckdb": "duckdb"}
_OURS = {"sqlmetrics": "sqlmetrics", "duckdb": "duckdb"}
_RANX = {"ranx": "ranx"}
_PYTREC = {"pytrec_eval": "pytrec-eval-terrier", "polars": "polars"}

CONTENDERS = (
    Contender(
        "bare-join",
        "bare_join",
        "DuckDB: rankings LEFT JOIN labels, two sums; the least that any answer costs",
        _DUCKDB,
        metrics=(),
    ),
    Contender(
        "sqlmetrics-unchecked",
        "ours",
        "evaluate(..., check=False)",
        _OURS,
        {"check": False},
    ),
    Contender("sqlmetrics", "ours", "evaluate(...), input checks and all", _OURS, {"check": True}),
    Contender(
        "window-sql",
        "window_sql",
        "DuckDB, textbook SQL by hand: window over all columns, join, aggregate",
        _DUCKDB,
    ),
    Contender(
        "polars",
        "polars_lazy",
        "lazy scan, rank over, join, group_by; streaming engine",
        {"polars": "polars"},
    ),
    Contender(
        "pytrec_eval",
        "pytrec",
        "one thread; files to dicts (polars), then trec_eval in C",
        _PYTREC,
    ),
    Contender(
        "ir_measures",
        "irm",
        "files to data frames (pandas), then pytrec_eval",
        {"ir_measures": "ir-measures", "pandas": "pandas"},
    ),
    Contender(
        "ranx",
        "ranx_numba",
        "cold: numba compiles first",
        _RANX,
        {"warm": False},
        breaks_ties=False,
    ),
    Contender(
        "ranx-warm",
        "ranx_numba",
        "after a call on one query",
        _RANX,
        {"warm": True},
        breaks_ties=False,
    ),
    Contender(
        "spark",
        "spark_mllib",
        "local[2], lists by SQL, then mllib's RankingMetrics; it knows no grades",
        {"pyspark": "pyspark"},
        metrics=("precision@10", "recall@100", "ap"),
        keeps_systems=False,
    ),
)


def split(chosen: Sequence[Contender]) -> tuple[tuple[Contender, ...], tuple[Contender, ...]]:
    """Those that can run here, and those that cannot."""
    present = tuple(contender for contender in chosen if not contender.missing)
    return present, tuple(contender for contender in chosen if contender.missing)
