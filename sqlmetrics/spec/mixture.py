"""A mixture of runs: a method, what becomes of scores before it, and its parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

from pydantic import Field, model_validator

from sqlmetrics.errors import SpecError, shortened, unknown
from sqlmetrics.spec.source import Finite, Model
from sqlmetrics.sql.template import double, literal

RANK = "rank_in_run"
"""The feature that methods of ranks read: the rank of an item in a run, 1 being the best."""

NORMS = {
    "min_max": "from 0 for the lowest score of a list to 1 for the highest",
    "max": "over the highest score of a list",
    "sum": "from 0 for the lowest score; all of a list sum to 1",
    "z_score": "standard deviations above the mean of a list",
    "rank": "1 for the first of a list of n, then 1/n less for each",
    "none": "as they are",
    "opensearch": "min_max of OpenSearch: 0.001 for the lowest score, 1 where all are equal",
    "elasticsearch": "minmax of Elasticsearch: the score itself where all are equal",
    "weaviate": "relative score of Weaviate: min_max, with 1 where all are equal",
}
"""What becomes of the scores of a list -> what that is."""

METHODS = {
    "rrf": "sum of weight / (k + rank)",
    "weighted_ranks": "sum of 1 / (k + rank / weight), as Qdrant weighs",
    "sum": "weighted sum of normalised scores (CombSUM)",
    "mean": "weighted sum over the sum of weights; a run without the item counts as 0",
    "mnz": "the sum times the number of runs that have the item (CombMNZ)",
    "anz": "the sum over the number of runs that have the item (CombANZ)",
    "med": "median of the runs that have the item (CombMED)",
    "max": "highest of the runs that have the item (CombMAX)",
    "min": "lowest of the runs that have the item (CombMIN)",
    "borda": "sum of points: as many as items for the first, one less for each behind it",
    "isr": "sum of 1 / rank^2, times the number of runs that have the item",
    "log_isr": "sum of 1 / rank^2, times the logarithm of that number",
    "turns": "the runs take turns; an item stands where it comes up first",
}
"""Method -> what it computes of an item."""

OF_K = ("rrf", "weighted_ranks")
"""The methods that have a constant k."""

OF_RANKS = (*OF_K, "borda", "isr", "log_isr", "turns")
"""The methods that read ranks, and no scores."""

RUNS = (2, 10)
"""The least and the most runs that become one."""


@dataclass(frozen=True)
class Mixture:
    """How runs become one.

    Attributes:
        method: A key of METHODS.
        norm: A key of NORMS; methods of ranks do not look at it.
        k: The constant of methods in OF_K.
        weights: A weight of each run; empty for equal ones.
        floor: What an item counts in a run that lacks it, before the weight; None leaves the run
            out.
    """

    method: str = "rrf"
    norm: str = "min_max"
    k: float = 60
    weights: tuple[float, ...] = ()
    floor: float | None = None

    @property
    def feature(self) -> str:
        """What it reads of each run: a norm, or the rank."""
        return RANK if self.method in OF_RANKS else self.norm

    @property
    def reads_ranks(self) -> bool:
        """Whether runs that have ranks and no scores are enough."""
        return self.feature in (RANK, "rank")

    @property
    def needs_scores(self) -> str:
        """What is wrong with such runs, where they are not enough."""
        return (
            f"{self.method} with norm {self.norm} needs scores, but the runs have ranks; use "
            "norm=rank (--norm rank), or a method of ranks, like rrf"
        )

    @property
    def definition(self) -> dict[str, Any]:
        """What decides its numbers, as JSON has it."""
        fields: dict[str, Any] = {"method": self.method}
        if self.method in OF_K:
            fields["k"] = self.k
        if self.method not in OF_RANKS:
            fields["norm"] = self.norm
        if self.weights:
            fields["weights"] = [*self.weights]
        return fields if self.floor is None else {**fields, "floor": self.floor}

    def __str__(self) -> str:
        parts = [self.method]
        if self.method in OF_K:
            parts.append(f"k={self.k:g}")
        if self.method not in OF_RANKS:
            parts.append(f"norm={self.norm}")
        if self.weights:
            parts.append(f"weights={':'.join(f'{weight:g}' for weight in self.weights)}")
        return " ".join(parts)

    def checked(self) -> Mixture:
        """The same.

        Raises:
            SpecError: If a name is not known, or a number cannot be.
        """
        if str(self.method) not in METHODS:
            raise SpecError(unknown("method", shortened(str(self.method)), METHODS))
        if str(self.norm) not in NORMS:
            raise SpecError(unknown("norm", shortened(str(self.norm)), NORMS))
        if not (is_finite(self.k) and self.k >= 0):
            raise SpecError(f"k of rrf must be 0 or more, given {_value_text(self.k)}")
        self._check_weights()
        if self.floor is not None and not is_finite(self.floor):
            raise SpecError(f"floor must be a finite number, given {_value_text(self.floor)}")
        if self.floor is not None and self.method in ("med", "borda", "turns"):
            raise SpecError(f"{self.method} has no floor; leave floor out")
        return self

    def _check_weights(self) -> None:
        if any(not (math.isfinite(weight) and weight >= 0) for weight in self.weights):
            raise SpecError(f"weights must be 0 or more, given {list(self.weights)}")
        if self.weights and not any(self.weights):
            raise SpecError("weights must have one above 0, given 0 for each run")
        if self.method == "turns" and self.weights:
            raise SpecError("turns has no weights; leave them out, or use rrf")

    def score(self, values: Sequence[str], weights: Sequence[str] = (), k: str = "") -> str:
        """The score of an item as SQL.

        Args:
            values: What it reads of each run, NULL where a run lacks the item.
            weights: The columns of the weights, where they are no numbers; empty for its own.
            k: The column of the constant of `rrf`, likewise.
        """
        numbers = self.weights or (1.0,) * len(values)
        weights = weights or ["" if weight == 1 else double(weight) for weight in numbers]
        if self.floor is not None:
            values = [f"coalesce({value}, {double(self.floor)})" for value in values]
        is_there = [f"case when {value} is null then 0 else 1 end" for value in values]
        n_runs = f"({' + '.join(is_there)})"
        if self.method == "weighted_ranks":
            pairs = zip(values, weights, strict=True)
            values = [f"{v} / nullif({weight}, 0e0)" if weight else v for v, weight in pairs]
            weights = [""] * len(values)
        values = [
            _OF_RANK.get(self.method, "{value}").format(value=value, k=k or double(self.k))
            for value in values
        ]
        pairs = zip(values, weights, strict=True)
        terms = [f"{weight} * {value}" if weight else value for value, weight in pairs]
        total = " + ".join(f"coalesce({term}, 0e0)" for term in terms)
        if self.method in ("max", "min"):
            return extreme(terms, is_highest=self.method == "max")
        sum_of_weights = " + ".join(weight or "1e0" for weight in weights)
        template = {
            "mean": "({total}) / ({sum_of_weights})",
            "mnz": "({total}) * {n_runs}",
            "isr": "({total}) * {n_runs}",
            "anz": "({total}) / {n_runs}",
            "log_isr": "({total}) * ln(1e0 * {n_runs})",
        }.get(self.method, "{total}")
        return template.format(total=total, n_runs=n_runs, sum_of_weights=sum_of_weights)


def extreme(values: Sequence[str], *, is_highest: bool) -> str:
    """The highest or lowest of values that are not NULL, which not every database has."""
    sign, absent = (">=", "-1e308") if is_highest else ("<=", "1e308")
    numbers = [f"coalesce({value}, {absent})" for value in values]
    whens = []
    for position, number in enumerate(numbers[:-1], 1):
        comparisons = " and ".join(f"{number} {sign} {other}" for other in numbers[position:])
        whens.append(f"when {comparisons} then {number}")
    return f"case {' '.join(whens)} else {numbers[-1]} end"


_OF_RANK = {
    **dict.fromkeys(OF_K, "1e0 / ({k} + {value})"),
    "isr": "1e0 / ({value} * {value})",
    "log_isr": "1e0 / ({value} * {value})",
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "opensearch": {"method": "mean", "norm": "opensearch"},
    "opensearch_rrf": {"method": "rrf", "k": 60},
    "elasticsearch": {"method": "sum", "norm": "elasticsearch"},
    "elasticsearch_rrf": {"method": "rrf", "k": 60},
    "qdrant": {"method": "weighted_ranks", "k": 1},
    "weaviate": {"method": "sum", "norm": "weaviate"},
    "weaviate_ranked": {"method": "rrf", "k": 59},
}
"""The mixtures of search engines. Ranks of Qdrant and Weaviate begin at 0, so that a k of theirs
is one less here."""


def is_finite(value: object) -> bool:
    """Whether a value is a finite number, be it of Python or of numpy."""
    if not isinstance(value, Real | Decimal) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _value_text(value: object) -> str:
    """A value that was given for a number, as messages have it."""
    return f"{value:g}" if is_finite(value) else shortened(repr(value))


def mixture_of(preset: str | None, settings: Mapping[str, Any]) -> Mixture:
    """A mixture by what was said of it.

    Args:
        preset: A key of PRESETS, whose fields others override.
        settings: The fields that were given; None for what was not.

    Raises:
        SpecError: If one is wrong.
    """
    if preset is not None and str(preset) not in PRESETS:
        raise SpecError(unknown("preset of fusion", shortened(str(preset)), PRESETS))
    fields = {name: value for name, value in settings.items() if value is not None}
    return replace(Mixture(), **{**PRESETS.get(preset or "", {}), **fields}).checked()


def weights_of(
    weights: Mapping[str, float] | Sequence[float] | None, runs: Sequence[str]
) -> tuple[float, ...]:
    """The weights in the order of the runs; of names that are not there an error.

    Raises:
        SpecError: If there are not as many as runs, or one is of no run or no number.
    """
    if isinstance(weights, str) or not isinstance(weights, Iterable | None):
        raise SpecError(
            "weights must be run -> weight, or numbers in the order of the runs, given "
            f"{shortened(repr(weights))}"
        )
    if not weights:
        return ()
    if isinstance(weights, Mapping):
        for name in weights.keys() - {*runs}:
            raise SpecError(f"weights: {unknown('run', shortened(str(name)), runs)}")
        missing = [name for name in runs if name not in weights]
        if missing:
            raise SpecError(f"weights: {shortened(missing[0])!r} has none; give 0 to leave it out")
        weights = [weights[name] for name in runs]
    if len(weights) != len(runs):
        names = shortened(", ".join(runs))
        raise SpecError(f"{len(weights)} weights for {len(runs)} runs: {names}")
    if wrong := [weight for weight in weights if not is_finite(weight)]:
        raise SpecError(f"weights must be finite numbers, 0 or more, given {_value_text(wrong[0])}")
    return tuple(map(float, weights))


def is_run(name: str) -> str:
    """The condition that a row is of a run."""
    return f"system = {literal(name)}"


# A system of a spec that is made of others.


class FusedSystem(Model):
    """A system that is made of others: its ranking is fused from theirs."""

    name: str
    """What it is called."""
    runs: tuple[str, ...] = ()
    """The systems that it is made of, two to ten, in their order. Default: those that `weights`
    names."""
    like: str | None = Field(default=None, json_schema_extra={"enum": [*PRESETS, None]})
    """A search engine whose formula it is: opensearch, opensearch_rrf, elasticsearch,
    elasticsearch_rrf, qdrant, weaviate, weaviate_ranked. The other keys override it."""
    method: str | None = Field(default=None, json_schema_extra={"enum": [*METHODS, None]})
    """rrf, weighted_ranks, sum, mean, mnz, anz, med, max, min, borda, isr, log_isr or turns.
    Default: rrf."""
    norm: str | None = Field(default=None, json_schema_extra={"enum": [*NORMS, None]})
    """What becomes of the scores of a list before it: min_max, max, sum, z_score, rank, none,
    opensearch, elasticsearch or weaviate. Default: min_max."""
    k: Finite | None = None
    """The constant of rrf and weighted_ranks. Default: 60."""
    weights: Mapping[str, Finite] | tuple[Finite, ...] = ()
    """System -> its weight, or weights in the order of the runs. Default: 1 each."""
    floor: Finite | None = None
    """What an item counts in a run that lacks it. Default: nothing."""
    window: int | None = Field(default=None, ge=1)
    """As many items of each run are looked at. Default: all."""
    limit: int | None = Field(default=None, ge=1)
    """As many items of each query are kept. Default: all."""

    @model_validator(mode="after")
    def _mixture(self) -> FusedSystem:
        least, most = RUNS
        if not least <= len({*self.run_names}) == len(self.run_names) <= most:
            raise ValueError(
                "runs must be two to ten systems, each once, "
                f"given {shortened(', '.join(self.run_names)) or 'none'}"
            )
        if not self.name.strip():
            raise ValueError(f"name must not be empty, given {shortened(self.name)!r}")
        if self.name in self.run_names:
            raise ValueError(f"name must not be that of a run, given {shortened(self.name)}")
        try:
            self.mixture  # noqa: B018
        except SpecError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def run_names(self) -> tuple[str, ...]:
        """The systems that it is made of, in their order."""
        return self.runs or (tuple(self.weights) if isinstance(self.weights, Mapping) else ())

    @cached_property
    def mixture(self) -> Mixture:
        """How they become one."""
        fields = {name: getattr(self, name) for name in ("method", "norm", "k", "floor")}
        weights = weights_of(self.weights, self.run_names)
        return mixture_of(self.like, {**fields, "weights": weights})

    @property
    def definition(self) -> dict[str, Any]:
        """What decides its numbers, however it was written, as JSON has it."""
        return {
            "runs": [*self.run_names],
            **self.mixture.definition,
            **{name: n for name in ("window", "limit") if (n := getattr(self, name))},
        }
