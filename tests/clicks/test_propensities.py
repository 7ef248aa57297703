"""Propensities of positions: the curve, what a log can tell, and how they are estimated."""

from __future__ import annotations

import duckdb
import pytest
from marked import by_turns

from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve, propensities
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.translation import Translation


def test_given_propensities_are_against_position_1() -> None:
    curve = PropensityCurve.given({2: 0.4, 1: 0.8})
    assert curve.rows == (Propensity(1, 1.0), Propensity(2, 0.5))
    assert (curve.at(2), curve.at(3)) == (0.5, None)
    assert curve.to_dicts()[1] == {
        "position": 2,
        "propensity": 0.5,
        "ci_low": None,
        "ci_high": None,
        "method": "given",
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({2: 0.5}, "relative to position 1; give it too, given 2"),
        ({1: 1.0, 2: 0.0}, "above 0 by position, and positions count from 1; given 2: 0"),
        ({0: 1.0, 1: 1.0}, "given 0: 1"),
        ({1: 1.0, 2: float("nan")}, "given 2: nan"),
    ],
)
def test_what_is_no_curve_is_refused(values: dict[int, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        PropensityCurve.given(values)


@by_turns(0.4)
def test_a_curve_is_a_stage_in_each_dialect() -> None:
    curve = PropensityCurve(
        "em",
        tuple(
            Propensity(k, 1 / k, None, None, segment) for segment in ("app", "web") for k in (1, 3)
        ),
    )
    text = with_stages([propensities(curve)], "select *\nfrom propensities")
    assert duckdb.sql(text).fetchall() == [
        *(("app", 1, 1.0), ("app", 3, 1 / 3)),
        *(("web", 1, 1.0), ("web", 3, 1 / 3)),
    ]
    for dialect in DIALECTS:
        assert "propensities as (" in Translation(DIALECTS[dialect]).text(text)
