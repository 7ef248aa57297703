"""The simulated logs hold what they promise."""

import numpy as np
from clicks.position_bias import simulated_log

THETA = [1 / position for position in range(1, 11)]


def _columns(log, *names):
    return [log.column(name).to_numpy(zero_copy_only=False) for name in names]


def _expected(simulated):
    """The attractiveness of what was shown, row by row."""
    query, item, attractiveness = _columns(simulated.truth, "query", "item", "attractiveness")
    of = dict(zip(zip(query, item, strict=True), attractiveness, strict=True))
    pairs = zip(
        *(simulated.log.column(name).to_pylist() for name in ("query", "item")), strict=True
    )
    return np.array([of[pair] for pair in pairs])


def test_clicks_are_propensity_times_attractiveness():
    simulated = simulated_log(1, 40_000, THETA)
    positions, clicked = _columns(simulated.log, "position", "clicked")
    expected = _expected(simulated)
    for position, theta in simulated.propensities.items():
        at = positions == position
        assert abs(clicked[at].mean() / (theta * expected[at].mean()) - 1) < 0.2
    assert simulated.log.equals(simulated_log(1, 40_000, THETA).log)


def test_trust_cascades_and_random_orders_are_shares():
    never = [0.0] * 5
    assert _columns(simulated_log(2, 10_000, never).log, "clicked")[0].sum() == 0
    cascade = simulated_log(2, 10_000, never, cascade=0.5, randomised=0.2).log
    clicked, request, randomised, position = _columns(
        cascade, "clicked", "request", "randomised", "position"
    )
    assert abs(clicked[position == 1].mean() - 0.5 * _expected_first(cascade)) < 0.05
    assert abs(randomised.mean() - 0.2) < 0.03
    assert len(np.unique(request)) == 2_000
    plain, trusted = (simulated_log(3, 50_000, [1.0] * 5, trust=trust).log for trust in (0, 0.4))
    gained = [_columns(log, "clicked")[0] for log in (plain, trusted)]
    assert (gained[1] >= gained[0]).all()
    assert gained[1].mean() > gained[0].mean() + 0.05


def _expected_first(log):
    simulated = simulated_log(2, 10_000, [0.0] * 5, cascade=0.5, randomised=0.2)
    assert simulated.log.equals(log)
    position = _columns(log, "position")[0]
    return _expected(simulated)[position == 1].mean()


def test_items_stand_still_without_swaps():
    for swaps, moves in ((0.0, False), (1.0, True)):
        log = simulated_log(4, 5_000, THETA, swaps=swaps).log
        positions = log.group_by(["query", "item"]).aggregate([("position", "count_distinct")])
        assert (max(positions.column("position_count_distinct").to_pylist()) > 1) == moves
