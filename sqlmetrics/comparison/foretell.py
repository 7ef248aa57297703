"""`foretell`: which offline metric foretells an online one, by past experiments."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from math import asin, pi
from operator import mul
from pathlib import PurePath
from statistics import NormalDist
from typing import Any, ClassVar

from sqlmetrics.catalog.dimension import direction
from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.engines.database import Database, connect, session_of
from sqlmetrics.errors import InputError, NoDataError, SpecError, unknown
from sqlmetrics.evaluation.arguments import check_count, check_level
from sqlmetrics.evaluation.inputs.open import opened_table
from sqlmetrics.evaluation.inputs.run_names import expanded, file_names, named_file
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.bootstrap import expanded_level
from sqlmetrics.stats.estimate import Interval, percentile_interval
from sqlmetrics.stats.true_effects import Effect, Effects, Mixtures
from sqlmetrics.tables.table import Table, latex_text, many, printable, wrapped
from sqlmetrics.tables.tabular import ArrowTables, Block, Kinds, Row, Tabular, arrow_tables

# The result of `foretell`, and how people read it.

MIXTURE = "(mixture)"
"""What the row of the best mixture is called."""

MIXTURE_COLUMNS = (
    *("metric", "verdict", "n_experiments", "quality", "quality_low", "quality_high"),
    "expected_agreement",
)
"""What it has."""

CLOSE = "close"
"""The verdict on a metric that foretells something, and is not told apart from the best."""

KINDS = {
    **dict.fromkeys(("metric", "verdict"), "string"),
    "n_experiments": "int64",
    **dict.fromkeys(("quality", "quality_low", "quality_high"), "double"),
    **dict.fromkeys(
        ("true_correlation", "true_correlation_low", "true_correlation_high", "correlation"),
        "double",
    ),
    **dict.fromkeys(("sensitivity", "sensitivity_low", "sensitivity_high"), "double"),
    **dict.fromkeys(("n_both_called", "n_agreeing"), "int64"),
    **dict.fromkeys(("agreement", "agreement_low", "agreement_high"), "double"),
    **dict.fromkeys(("expected_agreement", "first_share"), "double"),
    "is_pareto": "bool",
}
"""Column -> its type."""


@dataclass(frozen=True)
class Settings:
    """What was asked.

    Attributes:
        online: The online metric.
        level: The confidence level.
        replicates: How many bootstrap samples are drawn.
        seed: Their random seed.
        least: As many experiments it takes to choose a metric.
    """

    online: str
    level: float
    replicates: int
    seed: int
    least: int

    @property
    def z(self) -> float:
        """As many standard errors a difference has that is called."""
        return NormalDist().inv_cdf((1 + self.level) / 2)

    def calls(self, difference: float, standard_error: float) -> bool:
        """Whether an experiment would have called a difference."""
        return abs(difference) > self.z * standard_error

    def interval(self, values: Iterable[float], n: int) -> Interval:
        """The percentiles of resamples of n experiments; none of fewer than two values."""
        ordered = [*values]
        if n < 2 or len(ordered) < 2:
            return None, None
        return percentile_interval(ordered, expanded_level(self.level, n))


@dataclass(frozen=True, repr=False)
class ProxyMetrics(Tabular):
    """Offline metrics and how well they foretell an online one; it prints as a verdict and a table.

    Iterate over it for its rows; `result["ndcg@10"]` is that of a metric.

    Attributes:
        rows: One row per offline metric, best first, then the mixture; see `to_arrow`.
        mixture: One row per metric of the mixture, with its weight: the sum of weight times
            difference is the predicted difference of the online metric.
        settings: What was asked.
        n_experiments: How many experiments have the online metric and an offline one.
        n_online_called: In how many of them the online metric alone was called.
        notes: Sentences that a reader should know.
        executed_sql: The statements that read the tables.
    """

    rows: tuple[Row, ...]
    mixture: tuple[Row, ...]
    settings: Settings
    n_experiments: int
    n_online_called: int
    notes: tuple[str, ...]
    executed_sql: str

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "rows": KINDS,
        "mixture": {
            "metric": "string",
            **dict.fromkeys(("weight", "weight_low", "weight_high"), "double"),
        },
        "verdict": {**dict.fromkeys(("verdict", "metric", "reason"), "string")},
    }

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, metric: str) -> Row:
        """The row of a metric.

        Raises:
            KeyError: If there is none of this name.
        """
        rows = {row["metric"]: row for row in self.to_dicts()}
        if metric not in rows:
            raise KeyError(unknown("metric", metric, rows))
        return rows[metric]

    @property
    def best(self) -> Row | None:
        """The row of the metric to trust; None if there is none."""
        return next((row for row in self.rows if row["verdict"] == "best"), None)

    @property
    def verdict(self) -> str:
        """`trust`, `too few`, `no effect` or `none`."""
        if self.best:
            return "trust"
        verdicts = [row["verdict"] for row in self.rows]
        if all(verdict == "too few" for verdict in verdicts):
            return "too few"
        return "no effect" if {*verdicts} <= {"no effect", "too few"} else "none"

    @property
    def reason(self) -> str:
        """The verdict in a sentence."""
        online, n = printable(self.settings.online), self.n_experiments
        if self.verdict == "too few":
            return (
                f"Too few experiments to say: {n}, and it takes {self.settings.least} to choose a "
                "metric."
            )
        if self.verdict == "no effect":
            return (
                f"Nothing to say: over {many(n, 'experiment')} no offline metric and {online} both "
                "have an effect beyond noise."
            )
        if self.best is None:
            return (
                f"Trust none of them for {online}: over {many(n, 'experiment')} no metric has a "
                "quality above 0 beyond doubt."
            )
        texts = [
            f"Trust {printable(self.best['metric'])} for {online}: quality "
            f"{_with_ends(self.best, 'quality')}, true r "
            f"{_with_ends(self.best, 'true_correlation')} over "
            f"{many(self.best['n_experiments'], 'experiment')}."
        ]
        if close := [printable(row["metric"]) for row in self.rows if row["verdict"] == CLOSE]:
            texts.append(f"Not told apart from it: {', '.join(close)}.")
        for row in self.rows:
            if row["metric"] == MIXTURE and row["quality"] is not None:
                ends = _with_ends(row, "quality")
                texts.append(f"The best mixture does {row['verdict']}: {ends}.")
        return " ".join(texts)

    def to_dicts(self) -> list[Row]:
        """The rows as a list of dicts."""
        return [{name: row.get(name) for name in KINDS} for row in self.rows]

    def _arrow_tables(self) -> ArrowTables:
        metric = self.best["metric"] if self.best else None
        verdict = {"verdict": self.verdict, "metric": metric, "reason": self.reason}
        return arrow_tables([self.rows, self.mixture, [verdict]], self._schemas)

    def table(self) -> Table:
        """The table, with notes below it."""
        head = ["metric", "verdict", "n", "quality", "interval", "true r", "interval"]
        head += ["measured r", "called", "agree", "right sign", "first"]
        rows = [
            [
                printable(row["metric"]),
                row["verdict"],
                str(row["n_experiments"]),
                _number(row["quality"]),
                _ends(row, "quality"),
                _number(row["true_correlation"]),
                _ends(row, "true_correlation"),
                _number(row["correlation"]),
                _percent(row["sensitivity"]),
                "-"
                if not row["n_both_called"]
                else f"{row['n_agreeing']} of {row['n_both_called']}",
                _percent(row["expected_agreement"]),
                _percent(row["first_share"]),
            ]
            for row in self.rows
        ]
        return Table(head, rows, n_labels=2, notes=self._notes())

    def _notes(self) -> list[str]:
        online = printable(self.settings.online)
        pareto = [printable(row["metric"]) for row in self.rows if row["is_pareto"]]
        notes = [
            f"quality: correlation of the metric's measured difference and the true effect on "
            f"{online}; true r: of the true effects of both; measured r: of what was measured, "
            "with all its noise",
            f"called: share of experiments with a difference beyond {self.settings.z:.3g} standard "
            f"errors ({online}: {self.n_online_called} of {self.n_experiments}); agree: the same "
            "sign where both are called; right sign: expected share with the sign of the true "
            "effect; first: share of resamples in which no metric has more quality",
        ]
        if pareto:
            notes.append(f"not beaten in both called and true r: {', '.join(pareto)}")
        return [*notes, *(f"note: {note}" for note in self.notes)]

    def _blocks(self) -> Iterator[Block]:
        yield wrapped([self.reason])
        yield replace(self.table(), notes=())
        if self.mixture:
            rows = [
                [
                    printable(row["metric"]),
                    f"{row['weight']:.4g}",
                    f"{row['weight_low']:.4g} to {row['weight_high']:.4g}",
                ]
                for row in self.mixture
            ]
            yield Table(["mixture", "weight", "interval"], rows, n_labels=1)
        yield wrapped(self._notes())

    def latex(self) -> str:
        """The table for a paper; the verdict stands above it as a comment."""
        return f"% {latex_text(self.reason)}\n{self.table().latex()}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _ends(row: Row, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "-" if low is None else f"{low:.2f} to {high:.2f}"


def _with_ends(row: Row, name: str) -> str:
    return f"{row[name]:.2f} ({_ends(row, name)})"


# `foretell`: which offline metric foretells an online one, by past experiments.

# Past experiments: the difference of each metric in each, with its error, from tables or files.

ROLE = "experiments"
_NEEDED = ("metric", "difference", "standard_error")
_NUMBERS = ("difference", "standard_error", "covariance")
_N_EXAMPLES = 3
"""As many examples a message has."""


@dataclass(frozen=True)
class Measurement:
    """What an experiment says of a metric.

    Attributes:
        difference: How far the metric moved.
        standard_error: The error of that.
        covariance: The covariance of its error and that of the online metric.
    """

    difference: float
    standard_error: float
    covariance: float


@dataclass
class Experiments:
    """Past experiments.

    Attributes:
        by_metric: Metric -> experiment -> what it says.
        notes: What a reader should know.
        sql: The statements that read them.
        has_covariances: Whether the tables have a column of covariances.
    """

    by_metric: dict[str, dict[str, Measurement]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    sql: list[str] = field(default_factory=list)
    has_covariances: bool = False

    def effects(self, metric: str, online: str, signs: Mapping[str, int]) -> dict[str, Effect]:
        """Experiment -> what it measured of both metrics; of those that have both.

        Args:
            metric: The offline metric.
            online: The online metric.
            signs: Metric -> -1 if less of it is better.
        """
        targets, sign = self.by_metric[online], signs[metric] * signs[online]
        return {
            name: Effect(
                signs[metric] * proxy.difference,
                signs[online] * targets[name].difference,
                proxy.standard_error**2,
                targets[name].standard_error ** 2,
                sign * proxy.covariance,
            )
            for name, proxy in self.by_metric[metric].items()
            if name in targets
        }


def read_experiments(tables: Any, engine: Database) -> Experiments:
    """Read all tables.

    Args:
        tables: A table, several, or experiment -> its table; see `foretell`.
        engine: Where they are read.

    Raises:
        InputError: If columns are missing, a number is none, or a metric occurs twice.
        NoDataError: If there is no row.
    """
    experiments, rows = Experiments(), list[Row]()
    for name, table in _named(tables):
        rows += _rows(name, table, engine, experiments)
    if not rows:
        raise NoDataError(f"{ROLE}: no row of a difference")
    _check(rows)
    rows.sort(key=lambda row: (row["experiment"], row["metric"]))  # the same in any order
    incomplete = [row for row in rows if row["difference"] is None or row["standard_error"] is None]
    if incomplete:
        experiments.notes.append(
            f"{many(len(incomplete), 'row')} without a difference or a standard error left out: "
            f"{_examples(incomplete)}"
        )
    for row in rows:
        if row["difference"] is not None and row["standard_error"] is not None:
            covariance = row["covariance"] or 0.0
            measurement = Measurement(row["difference"], row["standard_error"], covariance)
            experiments.by_metric.setdefault(row["metric"], {})[row["experiment"]] = measurement
    return experiments


def _named(tables: Any) -> Iterator[tuple[str, Any]]:
    """Each table with the name of its experiment, which is empty for a table that stands alone."""
    if isinstance(tables, Mapping):
        yield from tables.items()
        return
    files: list[tuple[str, Any]] = []
    for table in tables if isinstance(tables, list | tuple) else [tables]:
        name, file = named_file(table) if isinstance(table, str) else ("", table)
        files += [(name, path) for path in (expanded(file) if isinstance(file, str) else [file])]
    if len(files) == 1:
        yield from files
        return
    paths = [str(file) if isinstance(file, str | PurePath) else "select" for _, file in files]
    titles = file_names(paths, ROLE)
    for (name, file), title in zip(files, titles, strict=True):
        yield name or title, file


def _rows(
    name: str, table: Any, engine: Database, experiments: Experiments
) -> Iterable[dict[str, Any]]:
    """The rows of a table, of all segments together."""
    text, columns = opened_table(table, ROLE, engine)
    needed = (*_NEEDED, *([] if name else ["experiment"]))
    if lacking := [column for column in needed if column not in columns]:
        hint = (
            "; or give one file per experiment, as compare --out writes them"
            if lacking == ["experiment"]
            else ""
        )
        problem = unknown("column", lacking[0], list(columns.values()))
        raise InputError(f"{ROLE}: {printable(name) + ': ' if name else ''}{problem}{hint}")

    def column(name: str, kind: str) -> str:
        value = identifier(columns[name]) if name in columns else "null"
        return f"cast({value} as {kind}) as {name}"

    has_names = "experiment" in columns
    selected = [
        column("experiment", "varchar") if has_names else f"{literal(name)} as experiment",
        *(column(text, "varchar") for text in ("system", "metric")),
        *(column(number, "double") for number in _NUMBERS),
    ]
    where = ""
    if "segment_name" in columns:
        where = f"\nwhere {identifier(columns['segment_name'])} = {literal(ALL)}"
    select = "select\n    " + ",\n    ".join(selected) + f"\nfrom {text}{where}"
    experiments.has_covariances |= "covariance" in columns
    experiments.sql.append(f"{engine.translation.text(select).rstrip()};\n")
    return engine.records(select)


def _check(rows: Sequence[Row]) -> None:
    """See that each row says which metric of which experiment, once, in numbers.

    Raises:
        InputError: If not, with examples.
    """
    if any(row["experiment"] is None or row["metric"] is None for row in rows):
        count = sum(row["experiment"] is None or row["metric"] is None for row in rows)
        raise InputError(
            f"{ROLE}: {many(count, 'row')} with NULL as the experiment or the metric; name them, "
            "or leave them out"
        )
    unsound = [row for row in rows if not _is_sound(row)]
    if unsound:
        raise InputError(
            f"{ROLE}: {many(len(unsound), 'row')} with a number that is not finite, or a standard "
            f"error below 0: {_examples(unsound)}; correct them, or leave them out"
        )
    _tell_systems_apart(rows)
    counts = Counter((row["experiment"], row["metric"]) for row in rows)
    repeated = [row for row in rows if counts[row["experiment"], row["metric"]] > 1]
    if repeated:
        raise InputError(
            f"{ROLE}: {many(len(repeated), 'row')} are of a metric that its experiment has "
            f"several times: {_examples(repeated)}; keep one of each"
        )


def _is_sound(row: Row) -> bool:
    numbers = [row[name] for name in _NUMBERS if row[name] is not None]
    error = row["standard_error"]
    return all(map(math.isfinite, numbers)) and not (error is not None and error < 0)


def _tell_systems_apart(rows: Sequence[Row]) -> None:
    """Make each treatment of an experiment with several of them one of its own."""
    systems: dict[str, set[str]] = {}
    for row in rows:
        if row["system"] is not None:
            systems.setdefault(row["experiment"], set()).add(row["system"])
    for row in rows:
        if len(systems.get(row["experiment"], ())) > 1 and row["system"] is not None:
            row["experiment"] = f"{row['experiment']} {row['system']}"


def _examples(rows: Sequence[Row]) -> str:
    texts = [
        f"{printable(row['experiment'])} {printable(row['metric'])} "
        f"({row['difference']}, error {row['standard_error']})"
        for row in rows[:_N_EXAMPLES]
    ]
    return ", ".join(texts) + (" ..." if len(rows) > _N_EXAMPLES else "")


REPLICATES = 1_000
LEAST = 20
"""With so many experiments fewer than 5 % of the trusted metrics are useless in a simulation: see
docs/foretell.md."""

_FEW = 3
"""With fewer experiments a metric has no numbers."""


def foretell(
    experiments: Any,
    online: str,
    metrics: str | Sequence[str] = (),
    *,
    lower_is_better: str | Sequence[str] = (),
    level: float = CONFIDENCE,
    replicates: int = REPLICATES,
    seed: int = 1,
    connection: Any = None,
) -> ProxyMetrics:
    """Which offline metric to trust: how well each foretold the online one in past experiments.

    Covariances over experiments are corrected for the noise of each experiment: the mean variance
    of the errors is subtracted, and so is the mean covariance with the error of the online metric,
    if the tables have it. Intervals are a bootstrap over experiments.

    Args:
        experiments: A table with a row per experiment and metric and the columns `experiment`,
            `metric`, `difference`, `standard_error` and maybe `covariance` (of the errors of the
            metric and of the online one); as `evaluate` takes tables. Or a list of files, or a
            dict, experiment -> table, as `compare` writes them. With a column `system` each system
            of an experiment counts as one; with `segment_name`, the rows of `all` count.
        online: The online metric, such as `revenue_per_request`.
        metrics: The offline metrics. Default: all other metrics.
        lower_is_better: Metrics of which less is better. Default: as the catalogue says.
        level: The confidence level of the intervals, and of a difference that is called.
        replicates: The number of bootstrap samples of experiments.
        seed: The random seed.
        connection: The database that holds the tables; see `evaluate`.

    Returns:
        A row per offline metric, and one for the best mixture; it prints as a verdict and a table.

    Raises:
        SpecError: If an argument is wrong, or a metric is in no row.
        InputError: If the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> moves = {"ndcg@10": [1, -1, 2, -2, 3], "ctr@5": [2, -2, 4, -4, 5]}
    >>> rows = [
    ...     {"experiment": f"e{i}", "metric": metric, "difference": x, "standard_error": 0.5}
    ...     for metric, differences in moves.items() for i, x in enumerate(differences)
    ... ]
    >>> result = foretell(pa.Table.from_pylist(rows), "ctr@5")
    >>> result.verdict, round(result["ndcg@10"]["true_correlation"], 2)
    ('too few', 1.0)
    """
    check_level("level", level)
    check_count("replicates", replicates, 100)
    check_count("seed", seed, least=0)
    with connect(session_of(connection, experiments)) as engine, engine.reading():
        past = read_experiments(experiments, engine)
    measured = [*past.by_metric]
    target = _name(online, measured)
    names = [_name(text, measured) for text in metric_texts(metrics)] if metrics else measured
    names = [name for name in dict.fromkeys(names) if name != target]
    if not names:
        known_names = ", ".join(measured)
        raise SpecError(f"there is no offline metric beside {target!r}; known: {known_names}")
    lower = {_name(text, measured) for text in metric_texts(lower_is_better)}
    signs = {name: -1 if name in lower else direction(name) or 1 for name in measured}
    effects = {name: past.effects(name, target, signs) for name in names}
    if not any(effects.values()):
        raise SpecError(
            f"no experiment has {target!r} and an offline metric; see that the experiments are "
            "called the same in all tables"
        )
    settings = Settings(target, level, replicates, seed, LEAST)
    return _Foretelling(past, effects, signs, settings).result()


def _name(text: str, names: Sequence[str]) -> str:
    """A metric as the tables write it; upper and lower case are the same if no two differ so."""
    matches = [name for name in names if name == text] or [
        name for name in names if name.casefold() == str(text).strip().casefold()
    ]
    if len(matches) != 1:
        raise SpecError(unknown("metric", text, names))
    return matches[0]


Draw = Sequence[int]
"""How often each experiment is drawn."""


@dataclass(frozen=True)
class _Foretelling:
    """All that is computed of the experiments."""

    past: Experiments
    effects: Mapping[str, Mapping[str, Effect]]
    signs: Mapping[str, int]
    settings: Settings

    @cached_property
    def experiments(self) -> list[str]:
        """Those with the online metric and an offline one."""
        return sorted({name for of_metric in self.effects.values() for name in of_metric})

    @cached_property
    def draws(self) -> list[list[int]]:
        """The resamples, the same for all metrics."""
        chance, n = random.Random(self.settings.seed), len(self.experiments)  # noqa: S311 (no secret)
        draws = []
        for _ in range(self.settings.replicates):
            draw = [0] * n
            for i in chance.choices(range(n), k=n):
                draw[i] += 1
            draws.append(draw)
        return draws

    def result(self) -> ProxyMetrics:
        """All of it."""
        proxies = [
            _Proxy(name, self.effects[name], self.experiments, self.draws, self.settings)
            for name in self.effects
        ]
        self._rank(proxies)
        proxies.sort(key=lambda proxy: (-proxy.order, proxy.name))
        mixed_rows, weights, notes = self._mixture(proxies)
        target = self.past.by_metric[self.settings.online]
        return ProxyMetrics(
            rows=(*(proxy.row for proxy in proxies), *mixed_rows),
            mixture=tuple(weights),
            settings=self.settings,
            n_experiments=len(self.experiments),
            n_online_called=sum(
                self.settings.calls(target[name].difference, target[name].standard_error)
                for name in self.experiments
            ),
            notes=(*self.past.notes, *self._notes(), *notes),
            executed_sql="\n".join(self.past.sql),
        )

    def _rank(self, proxies: Sequence[_Proxy]) -> None:
        """Say of each metric how often it is first, whether it is told apart, and what beats it."""
        usable = [proxy for proxy in proxies if proxy.row["true_correlation"] is not None]
        enough = [proxy for proxy in usable if proxy.n >= self.settings.least]
        _count_firsts(enough or usable)
        for proxy in enough:
            proxy.row["verdict"] = _verdict(proxy.row)
        trusted = [proxy for proxy in enough if proxy.row["verdict"] == CLOSE]
        best = max(trusted, key=lambda proxy: proxy.order, default=None)
        for proxy in trusted:
            row = proxy.row
            row["is_pareto"] = not any(_beats(other.row, row) for other in trusted)
            gaps = map(float.__sub__, best.qualities if best else (), proxy.qualities)
            low, _ = self.settings.interval(gaps, proxy.n)
            if proxy is best:
                row["verdict"] = "best"
            elif low is not None and low > 0:
                row["verdict"] = "behind"

    def _notes(self) -> Sequence[str]:
        notes = []
        if not self.past.has_covariances:
            notes.append(
                "errors of offline and online metrics count as independent; if both come from "
                "the same users, give their covariance (a column)"
            )
        lower = [name for name in (*self.effects, self.settings.online) if self.signs[name] < 0]
        if lower:
            notes.append(f"less is better of {', '.join(map(printable, lower))}")
        n = len(self.experiments)
        partial = [name for name, of_metric in self.effects.items() if len(of_metric) < n]
        if partial:
            notes.append(f"missing in some experiments: {', '.join(map(printable, partial))}")
        return notes

    def _mixture(
        self, proxies: Sequence[_Proxy]
    ) -> tuple[Sequence[Row], Sequence[Row], Sequence[str]]:
        """The row of the best mixture, its weights, and what is to be said of it."""
        usable = [
            proxy for proxy in proxies if proxy.row["verdict"] not in ("too few", "no effect")
        ]
        shared = [
            name for name in self.experiments if all(name in proxy.effects for proxy in usable)
        ]
        if len(usable) < 2 or len(shared) < self.settings.least:
            return (), (), ()
        mixtures = Mixtures([[proxy.effects[name] for name in shared] for proxy in usable])
        n = len(shared)
        weights = mixtures.weights([1] * n)
        mixed = {
            name: Effect(
                value,
                usable[0].effects[name].target,
                0.0,
                usable[0].effects[name].target_noise,
                noise,
            )
            for name, (value, noise) in zip(shared, mixtures.held_out(), strict=True)
        }
        mixture = _Proxy(MIXTURE, mixed, self.experiments, self.draws, self.settings)
        is_better = mixture.order > max(proxy.order for proxy in usable)
        row = dict.fromkeys(mixture.row) | {name: mixture.row[name] for name in MIXTURE_COLUMNS}
        row["verdict"] = "better" if is_better else "no better"
        is_shared = [name in {*shared} for name in self.experiments]
        samples = [
            mixtures.weights([*compress(draw, is_shared)], is_resampled=True) for draw in self.draws
        ]
        rows = []
        for number, proxy in enumerate(usable):
            sign = self.signs[proxy.name] * self.signs[self.settings.online]
            ends = self.settings.interval((sample[number] for sample in samples), n)
            low, high = sorted(sign * (end or 0.0) for end in ends)
            weight = sign * weights[number]
            rows.append(
                {"metric": proxy.name, "weight": weight, "weight_low": low, "weight_high": high}
            )
        needless = [printable(row["metric"]) for row in rows if not row["weight"]]
        notes = [f"not in the mixture, since others say the same: {', '.join(needless)}"]
        return (row,), rows, notes if needless else ()


class _Proxy:
    """An offline metric: what the experiments that have it say, and what their resamples say.

    Args:
        name: The metric.
        effects: Experiment -> what it measured.
        experiments: All experiments, in the order of the draws.
        draws: How often each of them is drawn, in each resample.
        settings: What was asked.
    """

    def __init__(
        self,
        name: str,
        effects: Mapping[str, Effect],
        experiments: Sequence[str],
        draws: Sequence[Draw],
        settings: Settings,
    ) -> None:
        self.name, self.effects, self.n = name, effects, len(effects)
        self.settings = settings
        has_metric = [name in effects for name in experiments]
        ordered = [effects[name] for name in compress(experiments, has_metric)]
        self.draws = [[*compress(draw, has_metric)] for draw in draws]
        measured = Effects(ordered)
        moments = measured.moments() if self.n >= _FEW else None
        quality = moments.quality if moments else None
        samples = [measured.moments(draw) for draw in self.draws] if quality is not None else []
        limits = [sample.limits if sample else (0.0, 0.0) for sample in samples]
        self.qualities = [quality for _, quality in limits]
        called = [settings.calls(effect.proxy, effect.proxy_noise**0.5) for effect in ordered]
        both_called = [
            is_called and settings.calls(effect.target, effect.target_noise**0.5)
            for is_called, effect in zip(called, ordered, strict=True)
        ]
        agreeing = [
            is_both and effect.proxy * effect.target > 0
            for is_both, effect in zip(both_called, ordered, strict=True)
        ]
        correlation = moments.correlation if moments else None
        correlations = [correlation for correlation, _ in limits] if correlation is not None else []
        self.row: Row = {
            "metric": name,
            "verdict": "no effect" if self.n >= settings.least else "too few",
            "n_experiments": self.n,
            **self._with_ends("quality", quality, self.qualities),
            **self._with_ends("true_correlation", correlation, correlations),
            "correlation": moments.naive if moments else None,
            **self._share("sensitivity", called, [True] * self.n),
            "n_both_called": sum(both_called),
            "n_agreeing": sum(agreeing),
            **self._share("agreement", agreeing, both_called),
            "expected_agreement": None if quality is None else 0.5 + asin(quality) / pi,
            "first_share": None,
            "is_pareto": False,
        }

    @property
    def order(self) -> float:
        """The quality; below any other if there is none."""
        quality = self.row["quality"]
        return -2.0 if quality is None else float(quality)

    def _with_ends(self, name: str, value: float | None, samples: Sequence[float]) -> Row:
        low, high = self.settings.interval(samples, self.n)
        return {name: value, f"{name}_low": low, f"{name}_high": high}

    def _share(self, name: str, hits: Sequence[bool], cases: Sequence[bool]) -> Row:
        """A share of the experiments with its interval; None where there is no case."""
        if not any(cases):
            return self._with_ends(name, None, ())
        counts = ((sum(map(mul, draw, hits)), sum(map(mul, draw, cases))) for draw in self.draws)
        shares = [n_hits / n for n_hits, n in counts if n] if self.n >= _FEW else ()
        return self._with_ends(name, sum(hits) / sum(cases), shares)


def _beats(other: Row, row: Row) -> bool:
    """Whether a metric is better in power and in agreement, or in one of them and no worse."""
    numbers = [(other[name], row[name]) for name in ("sensitivity", "true_correlation")]
    return all(x >= y for x, y in numbers) and any(x > y for x, y in numbers)


def _verdict(row: Row) -> str:
    """What the interval of the quality says."""
    if row["quality_high"] < 0:
        return "opposed"
    return CLOSE if row["quality_low"] > 0 else "unclear"


def _count_firsts(proxies: Sequence[_Proxy]) -> None:
    """Say of each metric in which share of the resamples it has the most quality; ties share."""
    for proxy in proxies:
        proxy.row["first_share"] = 0.0
    for qualities in zip(*(proxy.qualities for proxy in proxies), strict=True):
        most = max(qualities)
        share = 1 / qualities.count(most) / len(proxies[0].qualities)
        for proxy, quality in zip(proxies, qualities, strict=True):
            proxy.row["first_share"] += share if quality == most else 0.0
