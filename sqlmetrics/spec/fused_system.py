"""A system of a spec that is made of others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic import Field, model_validator

from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.spec.mixture import METHODS, NORMS, PRESETS, RUNS, Mixture, mixture_of, weights_of
from sqlmetrics.spec.source import Finite, Model


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
