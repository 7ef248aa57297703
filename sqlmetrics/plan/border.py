"""`min_score`: the score from which an item counts as returned."""

from __future__ import annotations

from decimal import Decimal

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import double


def reaches(spec: Spec, precision: str) -> str:
    """The condition of a {score} that counts as returned, empty if each does.

    The border is rounded as scores are: a score of .7 with 32 bits is below the .7 of 64.

    Args:
        spec: What is asked.
        precision: The value of `score_precision` that the scores are in.
    """
    least = spec.options["min_score"]
    if not isinstance(least, int | float):
        return ""
    rounded = double(least)
    if precision == "exact":
        rounded = f"{Decimal(str(least)):f}"
    elif precision != "double":
        rounded = OPTIONS["score_precision"].choice(precision).sql.format(score=rounded)
    return OPTIONS["min_score"].choice(least).sql.format(score="{score}", least=rounded)
