"""`sqlmetrics fuse --sweep`: many mixtures, of which one is best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlmetrics.cli.evaluation_options import METRIC, metrics_option, segment_option
from sqlmetrics.cli.location import Location
from sqlmetrics.cli.options.command import decorate, option
from sqlmetrics.cli.options.parameters import by_option, confidence_option, labels_option
from sqlmetrics.cli.systems import answer, found_by, question_options, sources
from sqlmetrics.errors import SpecError

HEADING = "Sweep"

_OPTIONS = (
    option(
        "--sweep",
        is_flag=True,
        help="Evaluate many mixtures of RANKINGS... LABELS, and say which is best.",
        heading=HEADING,
    ),
    metrics_option(f"{METRIC}  [default: ndcg@10, or the metrics of SPEC]"),
    labels_option,
    by_option,
    segment_option,
    option(
        "--step", type=float, help="Step from one weight to the next.  [default: 0.1]",
        heading=HEADING,
    ),
    option(
        "--draws", type=int, metavar="N", help="Number of random variants instead of a grid.",
        heading=HEADING,
    ),
    option("--seed", type=int, help="Random seed.  [default: 1]", heading=HEADING),
    option(
        "--folds", type=int, metavar="N", help="Parts of the queries, each of which is measured by "
        "what is best on the others.  [default: 5]", heading=HEADING,
    ),
    option(
        "--bounds", is_flag=True, default=None, help="Also evaluate without unjudged items, and "
        "with all of them as bad and as good.", heading=HEADING,
    ),
    confidence_option("level", default=None, heading=HEADING),
)  # fmt: skip

ONLY_HERE = {
    "metrics": "-m", "labels": "--labels", "by": "--by", "segments": "--segment", "step": "--step",
    "draws": "--draws", "seed": "--seed", "folds": "--folds", "bounds": "--bounds",
    "level": "--confidence", "preset": "--preset", "queries": "--queries",
}  # fmt: skip
"""Argument -> the option that says nothing without --sweep."""

_NOT_HERE = {"weights": "--weights", "limit": "--limit"}
_SEVERAL = {"method": "--method", "norm": "--norm", "k": "-k"}


def sweep_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a sweep is told beside a fusion."""
    return decorate(question_options(command), *_OPTIONS)


def single_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a fusion, which takes one method.

    Raises:
        SpecError: If there are several, or some of a sweep.
    """
    for name, word in ONLY_HERE.items():
        if name in arguments:
            raise SpecError(f"{word} needs --sweep; give it, or leave {word} out")
    for name, word in _SEVERAL.items():
        if len(arguments.get(name, ())) > 1:
            raise SpecError(f"one mixture has one {word}; give --sweep to try several")
    return {name: value[0] if name in _SEVERAL else value for name, value in arguments.items()}


def run_sweep(
    tables: tuple[str, ...], location: Location, arguments: dict[str, Any], *, form: str,
    out: str | None, sql: bool,
) -> None:  # fmt: skip
    """Evaluate the mixtures and print what is found.

    Args:
        tables: The runs and the labels, or a spec.
        location: Where they are.
        arguments: Of `fuse_sweep`.
        form: The format.
        out: A file, None for stdout.
        sql: Whether the SQL is wanted instead.
    """
    from sqlmetrics.fusion.sweep import fuse_sweep

    for name, word in _NOT_HERE.items():
        if name in arguments:
            raise SpecError(f"--sweep tries all weights and cuts no list; leave {word} out")
    rankings, labels = sources(tables, arguments.pop("labels", None))
    answer(found_by(fuse_sweep, rankings, labels, location, arguments), form, out, sql=sql)
