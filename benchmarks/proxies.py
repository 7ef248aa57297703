"""How often `foretell` picks the right metric, and its coverage: `python -m benchmarks.proxies`.

Programmes of experiments with five offline metrics. Effects are normal; those on the first metric
correlate .8 with those on the online metric, and so on. Errors are independent, or those of the
last metric, which is worth nothing, correlate .9 with the online ones: it is measured on the same
users. The online metric varies as much by its errors as by its effects.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import pyarrow as pa

import sqlmetrics as sm

CORRELATIONS = (0.8, 0.6, 0.4, 0.2, 0.0)
OFFLINE_ERROR, ONLINE_ERROR = 0.5, 1.0
"""In standard deviations of the true effects."""
SHARED = 0.9
SIZES = (10, 15, 20, 30, 60)
Z = 1.96


def error_of(number: int, *, is_shared: bool) -> float:
    """The error of an offline metric; that of the online one if both come from the same users."""
    return ONLINE_ERROR if is_shared and number == len(CORRELATIONS) - 1 else OFFLINE_ERROR


def programme(seed: int, n_experiments: int, *, is_shared: bool) -> pa.Table:
    """A row per experiment and metric."""
    chance = np.random.default_rng(seed)
    effects = chance.standard_normal(n_experiments)
    online_noise = chance.standard_normal(n_experiments)
    columns = {"online": (effects + ONLINE_ERROR * online_noise, ONLINE_ERROR, 0.0)}
    for number, r in enumerate(CORRELATIONS):
        noises = chance.standard_normal((2, n_experiments))
        error = error_of(number, is_shared=is_shared)
        share = SHARED if error == ONLINE_ERROR else 0.0
        noise = share * online_noise + math.sqrt(1 - share**2) * noises[1]
        moved = r * effects + math.sqrt(1 - r * r) * noises[0] + error * noise
        columns[f"m{number}"] = (moved, error, share * error * ONLINE_ERROR)
    names = [f"e{i}" for i in range(n_experiments)]
    parts = [
        pa.table(
            {
                "experiment": names,
                "metric": [metric] * n_experiments,
                "difference": differences,
                "standard_error": [error] * n_experiments,
                "covariance": [covariance] * n_experiments,
            }
        )
        for metric, (differences, error, covariance) in columns.items()
    ]
    return pa.concat_tables(parts)


def measured(n_programmes: int, n_experiments: int, *, is_shared: bool) -> dict[str, float]:
    """Name -> the share of programmes; of intervals; and of trusted metrics that are useless."""
    counts = dict.fromkeys(("best", "naive", "trusts", "useless", *COVERED), 0.0)
    n_intervals = 0
    with sm.connect() as connection:
        for seed in range(n_programmes):
            table = programme(seed, n_experiments, is_shared=is_shared)
            result = sm.foretell(table, "online", replicates=300, connection=connection)
            rows = {row["metric"]: row for row in result if row["metric"].startswith("m")}
            naive = {name: row["correlation"] for name, row in rows.items()}
            counts["naive"] += max(naive, key=naive.__getitem__) == "m0"
            rated = {name: row for name, row in rows.items() if row["quality"] is not None}
            if not rated:
                continue
            first = max(rated, key=lambda name: rated[name]["quality"])
            trusts = rated[first]["quality_low"] > 0
            counts["best"] += first == "m0"
            counts["trusts"] += trusts
            counts["useless"] += trusts and first in ("m3", "m4")
            for number, r in enumerate(CORRELATIONS):
                row = rated[f"m{number}"]
                n_intervals += 1
                quality = r / math.hypot(1, error_of(number, is_shared=is_shared))
                counts["quality"] += row["quality_low"] <= quality <= row["quality_high"]
                low, high = row["true_correlation_low"], row["true_correlation_high"]
                counts["true r"] += low is None or low <= r <= high
                z, width = math.atanh(row["correlation"]), Z / math.sqrt(n_experiments - 3)
                counts["measured r"] += math.tanh(z - width) <= r <= math.tanh(z + width)
    totals = dict.fromkeys(COVERED, n_intervals) | {"useless": counts["trusts"]}
    return {name: count / max(1, totals.get(name, n_programmes)) for name, count in counts.items()}


COVERED = ("quality", "true r", "measured r")


def main() -> None:
    """Print a row per kind of programme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programmes", type=int, default=500)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    n_programmes, sizes = vars(parser.parse_args()).values()
    head = [
        "errors",
        "experiments",
        "foretell picks the best",
        "measured r picks it",
        "trusts a metric",
    ]
    head += ["of these, useless", "quality covered", "true r covered", "by measured r"]
    print("|", " | ".join(head), "|\n" + "|---" * len(head) + "|")
    for is_shared in (False, True):
        for size in sizes:
            shares = measured(n_programmes, size, is_shared=is_shared).values()
            cells = ["shared" if is_shared else "independent", str(size)]
            cells += [f"{100 * share:.1f} %" for share in shares]
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
