"""Lots that are the same on every engine: whole numbers below 2^52, so that no digit is lost.

Clusters are numbered in the order of the MD5 of their ids, with a seed. A number n becomes the
lot (n + key)^3 modulo 67,108,859, the largest prime below 2^26, where cubing is a permutation. A
replicate r has a factor and a shift, which are made likewise; in it the lot of a cluster is
lot * factor + shift modulo the prime: any two clusters are drawn independently of each other
(Carter and Wegman, Universal classes of hash functions, 1979).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import exp, factorial

from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import LINE, double, literal

PRIME = 67_108_859

EXACT = 100_000
"""Up to as many clusters each is drawn for itself."""

BUCKETS = 10_000
"""Of more than these, so many groups of clusters are drawn: the error of an interval's width is
about 1 in sqrt(2 x 10,000)."""

MOST = 9
"""A cluster stands at most so often in a Poisson replicate; once in 10 million more often."""

_DIGITS = ("ones", "tens", "hundreds", "thousands", "ten_thousands")

MOST_REPLICATES = 10 ** len(_DIGITS)


def key(seed: int, name: str) -> int:
    """What is added to numbers, so that each seed has other lots.

    >>> key(1, "lot") == key(1, "lot") != key(2, "lot")
    True
    """
    digest = hashlib.sha256(f"{seed}|{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (PRIME - EXACT)


def remainder(expression: str) -> str:
    """What is left of a whole number above a multiple of the prime."""
    multiple = f"- {PRIME}e0 * floor({expression} / {PRIME}e0)"
    between = "\n    " if len(expression) + len(multiple) > LINE - 8 else " "
    return expression + between + multiple


def lots(pairing: Pairing, seed: int, n_clusters: int) -> Iterator[Stage]:
    """The stages from the rows of what is compared to `lots`, one row per cluster.

    Args:
        pairing: What is compared.
        seed: Another one gives other lots.
        n_clusters: How many clusters there are.
    """
    unit = pairing.unit[-1]
    yield from numbers(pairing, seed, pairing.rows)
    number = "number"
    if n_clusters > EXACT:
        number = f"number - {BUCKETS}e0 * floor(number / {BUCKETS}e0)"
    added = [unit, Column(f"{number} + {key(seed, 'lot')}e0", "root")]
    yield columns_stage("lot_roots", "the cube root of the random number", added, "cluster_numbers")
    yield from _cubes("lots", "lot_roots", unit, {"lot": "root"})


def numbers(pairing: Pairing, seed: int, source: str) -> Iterator[Stage]:
    """The stages to `cluster_numbers`: clusters from 1 on, in an order that the seed decides.

    Args:
        pairing: What is compared.
        seed: Another one gives another order.
        source: The stage of the rows that have clusters.
    """
    unit, translation = pairing.unit[-1], pairing.plan.translation
    yield Stage("clusters", "comparison/clusters", {"keys": [unit], "from": source})
    hashed = translation.expression(translation.dialect.hashed, f"{literal(f'{seed}|')} || {unit}")
    yield columns_stage(
        "cluster_hashes",
        "the MD5 of a cluster's id",
        [unit, Column(hashed, "cluster_hash")],
        "clusters",
    )
    number = "cast(row_number() over (order by cluster_hash asc) as double)"
    yield columns_stage(
        "cluster_numbers", "clusters by number", [unit, Column(number, "number")], "cluster_hashes"
    )


def replicates(seed: int, count: int) -> Iterator[Stage]:
    """The stages to `replicates`, one row each: its number from 0, its factor and its shift."""
    places = _DIGITS[: max(1, len(str(count - 1)))]
    digits = [
        f"{10**i} * {alias}.digit" if i else f"{alias}.digit" for i, alias in enumerate(places)
    ]
    yield Stage("digits", "comparison/digits", {})
    view = {
        "number": " + ".join(digits),
        "digits": "\ncross join ".join(f"digits as {name}" for name in places),
        "replicates": count,
    }
    yield Stage("replicate_numbers", "comparison/numbers", view)
    roots = [
        Column(f"cast(replicate as double) + {key(seed, name)}e0", f"{name}_root")
        for name in ("factor", "shift")
    ]
    about = "the numbers whose cubes are a replicate's factor and shift"
    yield columns_stage("replicate_roots", about, ["replicate", *roots], "replicate_numbers")
    root_by_cube = {name: f"{name}_root" for name in ("factor", "shift")}
    yield from _cubes("replicates", "replicate_roots", "replicate", root_by_cube)


def _cubes(name: str, source: str, key_column: str, roots: dict[str, str]) -> Iterator[Stage]:
    """The stages from roots to their cubes modulo the prime."""
    squares: list[object] = [key_column]
    for root in roots.values():
        squares += [root, Column(remainder(f"({root} * {root})"), f"{root}_squared")]
    cubes: list[object] = [key_column]
    for cube, root in roots.items():
        cubes.append(Column(remainder(f"({root}_squared * {root})"), cube))
    squared = source.replace("_roots", "_squares")
    about = f"the squares modulo {PRIME:,}"
    yield columns_stage(squared, about, squares, source)
    view = {"about": "the cubes; each distinct row is computed once", "columns": cubes}
    yield Stage(name, "comparison/distinct", view | {"from": squared})


def poisson(lot: str) -> str:
    """How often a cluster stands in a replicate: Poisson with mean 1, of its lot there."""
    whens, reached = [], 0.0
    for times in range(MOST):
        reached += exp(-1) / factorial(times)
        whens.append(f"    when {lot} < {double(float(round(reached * PRIME)))} then {times}")
    return "\n".join(["case", *whens, f"    else {MOST}", "end"])


def sign(lot: str) -> str:
    """1 or -1 with the same chance, of a lot."""
    return f"case when {lot} < {double(float(PRIME // 2))} then 1 else -1 end"
