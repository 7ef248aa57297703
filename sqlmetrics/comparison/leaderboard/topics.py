"""What topics do: which are hard, which divide the systems, and how many of them it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sqlmetrics.comparison.leaderboard.scores import Scores
from sqlmetrics.stats.student import f_quantile
from sqlmetrics.tables.tabular import Row

RELIABLE = 0.95
"""The reliability that `n_topics_needed` is for."""

TOPIC_KINDS = {
    **dict.fromkeys(("metric", "topic"), "string"),
    **dict.fromkeys(("mean", "sd", "lowest"), "double"),
    "lowest_system": "string",
    "highest": "double",
    "highest_system": "string",
    "n_systems": "int64",
}

VARIANCE_KINDS = {
    "metric": "string",
    **dict.fromkeys(("system_variance", "topic_variance", "residual_variance"), "double"),
    **dict.fromkeys(("reliability", "reliability_low", "reliability_high"), "double"),
    "n_topics": "int64",
    **dict.fromkeys(("n_topics_needed", "n_topics_low", "n_topics_high"), "int64"),
}


def topic_rows(scores: Scores) -> Iterator[Row]:
    """A row per topic, hardest first: its values over systems, and who has the ends.

    Of tied systems the first is named. The standard deviation is that of a sample, NULL of one
    system.
    """
    sign, rows = scores.sign or 1, []
    for topic, values in zip(scores.topics, scores.values.T.tolist(), strict=True):
        pairs = [
            (value, system)
            for value, system in zip(values, scores.systems, strict=True)
            if not math.isnan(value)
        ]
        if not pairs:
            continue
        mean = math.fsum(value for value, _ in pairs) / len(pairs)
        squares = math.fsum((value - mean) ** 2 for value, _ in pairs)
        lowest, highest = min(pairs), max(pairs, key=lambda pair: pair[0])
        rows.append(
            {
                "metric": str(scores.measure),
                "topic": topic,
                "mean": mean,
                "sd": math.sqrt(squares / (len(pairs) - 1)) if len(pairs) > 1 else None,
                "lowest": lowest[0],
                "lowest_system": lowest[1],
                "highest": highest[0],
                "highest_system": highest[1],
                "n_systems": len(pairs),
            }
        )
    yield from sorted(rows, key=lambda row: (sign * row["mean"], row["topic"]))


def variance_rows(scores: Scores, level: float) -> Iterator[Row]:
    """The variance by system, topic and what neither explains, and the topics that it takes.

    Source: Bodoff and Li, Test theory for assessing IR test collections, SIGIR 2007. With mean
    squares MS of the two-way analysis of variance of S systems and T topics: residual = MS_res,
    system = (MS_sys - MS_res) / T, topic = (MS_top - MS_res) / S, none below 0; the reliability of
    n topics is system / (system + residual / n), which of the topics that there are is 1 - MS_res /
    MS_sys: Cronbach's alpha. Its interval is that of Feldt, The approximate sampling distribution
    of Kuder-Richardson reliability coefficient twenty, Psychometrika 30, 1965: (1 - reliability)
    MS_sys / MS_res has an F distribution; none of its ends is below 0. The interval of the topics
    that it takes has no upper end where that of the reliability begins at 0.

    Args:
        scores: The values of one metric; topics count that have one of each system.
        level: The confidence level of the intervals.
    """
    values = scores.complete
    n_systems, n_topics = values.shape
    if n_systems < 2 or n_topics < 2:
        return
    means, topic_means, mean = values.mean(axis=1), values.mean(axis=0), values.mean()
    residuals = values - means[:, None] - topic_means + mean
    residual = float((residuals**2).sum()) / ((n_systems - 1) * (n_topics - 1))
    of_systems = n_topics * float(((means - mean) ** 2).sum()) / (n_systems - 1)
    of_topics = n_systems * float(((topic_means - mean) ** 2).sum()) / (n_topics - 1)
    system = max(0.0, (of_systems - residual) / n_topics)
    reliability = system / (system + residual / n_topics) if system > 0 else 0.0
    df = n_systems - 1, (n_systems - 1) * (n_topics - 1)
    ratio = residual / of_systems if of_systems else 1.0
    low, high = (max(0.0, 1 - ratio * f_quantile((1 + side * level) / 2, *df)) for side in (1, -1))
    yield {
        "metric": str(scores.measure),
        "system_variance": system,
        "topic_variance": max(0.0, (of_topics - residual) / n_systems),
        "residual_variance": residual,
        "reliability": reliability,
        "reliability_low": low,
        "reliability_high": high,
        "n_topics": n_topics,
        "n_topics_needed": _n_topics_needed(reliability, n_topics),
        "n_topics_low": _n_topics_needed(high, n_topics),
        "n_topics_high": _n_topics_needed(low, n_topics),
    }


def _n_topics_needed(reliability: float, n_topics: int) -> int | None:
    """How many topics it takes to be RELIABLE, by how reliable some are (Spearman and Brown)."""
    if not reliability:
        return None
    needed = n_topics * RELIABLE / (1 - RELIABLE) * (1 - reliability) / reliability
    return max(1, math.ceil(needed - 1e-9))
