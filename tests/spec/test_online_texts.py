"""The metrics of a click log itself, wherever a spec names them."""

from __future__ import annotations

from typing import Any

import pytest

import sqlmetrics as sm

LOG = {"log": {"file": "log.csv", "columns": {"clicked": "clicked"}}}


@pytest.mark.parametrize(
    ("keys", "online", "metrics"),
    [
        ({"online": "ctr"}, ("ctr",), ()),
        ({"online": None, "metrics": "ctr"}, ("ctr",), ()),
        ({"online": ["ctr"], "metrics": ["CTR", "ndcg@5"]}, ("ctr",), ("ndcg@5",)),
        ({"online": ["ctr@5", " CTR @5", "ctr"]}, ("ctr@5", "ctr"), ()),
    ],
)
def test_each_metric_counts_once(keys: Any, online: Any, metrics: Any) -> None:
    """A job would write its rows twice, and its own check of keys would fail."""
    spec = sm.Spec(clicks=LOG, **keys)
    assert (spec.online, spec.metrics) == (online, metrics)


@pytest.mark.parametrize(("value", "message"), [(5, "must be a list, given 5"), ([3], "be a text")])
def test_what_is_no_text_is_refused(value: Any, message: str) -> None:
    with pytest.raises(sm.SpecError, match=message):
        sm.Spec(clicks=LOG, online=value)
