"""Pictures of the lists themselves: cutoffs, where the relevant stand, labels, ties, tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlmetrics.catalog.metric import without_cutoff
from sqlmetrics.comparison.page.content import ALL, Content, Words, number, percent
from sqlmetrics.comparison.page.picture import Chart, Picture, Sized, systems_left_out
from sqlmetrics.comparison.page.profile import COMPLETE
from sqlmetrics.tables.tabular import Row

JUDGED = 0.95
"""Precision over recall is drawn where so much of the top 10 has a label."""

SPREAD = 0.001
"""A smaller part of a metric may hang on the order of equal scores without a word."""

DRAWN_METRICS = ("ndcg", "recall", "precision")
SHOWN_SYSTEMS = 8


def _n(content: Content, words: Words) -> str:
    n = words.n(content.profile.n_queries)
    return words("page.sample" if content.profile.is_sample else "page.all_queries", n=n)


def about_lists(content: Content, words: Words) -> dict[str, object]:
    """What sentences below pictures of lists say of them."""
    note = words("curves.intervals") if content.rows else ""
    return {"n": _n(content, words), "metric": content.first, "interval_note": note}


def _systems(content: Content) -> tuple[str, ...]:
    """The systems that are drawn, the baseline and the leading one first."""
    first = dict.fromkeys([content.baseline or content.main, content.main, *content.systems])
    return tuple(first)[:SHOWN_SYSTEMS]


def _left_out(content: Content, systems: Sequence[str], words: Words) -> str:
    """Which systems of the lists are not in a picture."""
    return systems_left_out(content.systems, systems, words)


def _reaching(content: Content) -> int:
    """The last cutoff at which lists still differ from the one before."""
    deepest = 1
    rows = [row for row in content.profile.curves if row["family"] in ("recall", "judged")]
    for row in rows:
        before = [r for r in rows if _line(r) == _line(row) and r["k"] < row["k"]]
        if not before or abs(before[-1]["value"] - row["value"]) > 1e-9:
            deepest = max(deepest, row["k"])
    return deepest


def _line(row: Row) -> tuple[str, str]:
    return row["system"], row["family"]


def curves(content: Content, words: Words) -> Picture | None:
    """NDCG, recall and precision at each cutoff, a line a system."""
    deepest = _reaching(content)
    systems = _systems(content)
    rows = [
        row
        for row in content.profile.curves
        if row["family"] in DRAWN_METRICS and row["k"] <= deepest and row["system"] in systems
    ]
    cutoffs = sorted({row["k"] for row in rows})
    if len(cutoffs) < 3:
        return None
    metric_cutoffs = {without_cutoff(metric)[1] for metric in content.metrics if not content.log}
    parameters = {
        "families": [
            family for family in DRAWN_METRICS if any(row["family"] == family for row in rows)
        ],
        "cutoffs": cutoffs,
        "range": [cutoffs[0], cutoffs[-1]],
        "shaded": [{"k": k} for k in sorted(filter(None, metric_cutoffs)) if k in cutoffs],
    }
    names = [words(f"column.{column}") for column in ("metric", "system")]
    points = [{name: row[name] for name in ("family", "system", "k", "value")} for row in rows]
    cells = [
        [
            family,
            system,
            *(_at(rows, {"family": family, "system": system, "k": k}) for k in cutoffs),
        ]
        for family in parameters["families"]
        for system in systems
    ]
    columns = [*names, *(f"@{k}" for k in cutoffs)]
    chart = Chart("curves", points, parameters, systems)
    hidden = _left_out(content, systems, words)
    about = about_lists(content, words)
    return Picture("curves", chart, columns, cells, 2, about, left_out=hidden)


def _at(rows: Sequence[Row], conditions: Mapping[str, object]) -> str:
    values = (row["value"] for row in rows if conditions.items() <= row.items())
    return number(next(values, None))


def relevant(content: Content, words: Words) -> Picture | None:
    """How many relevant items a query has at which ranks, and how many are nowhere."""
    systems = _systems(content)
    rows = [row for row in content.profile.relevant if row["system"] in systems]
    last = max((row["last"] for row in rows if "last" in row), default=0)
    empty = {
        rank
        for rank in {row["rank"] for row in rows}
        if all(row["items"] < 1e-9 for row in rows if row["rank"] == rank)
    }
    nowhere = words("axis.not_in_lists", last=last)
    bars = [
        {
            "rank": nowhere if row["rank"] == "none" else row["rank"].replace("-", "–"),
            "system": row["system"],
            "items": row["items"],
        }
        for row in rows
        if row["rank"] not in empty
    ]
    ranks = list(dict.fromkeys(row["rank"] for row in bars))
    if len(ranks) < 2:
        return None
    columns = [words("column.system"), *ranks]
    cells = []
    for system in systems:
        items_by_rank = {row["rank"]: row["items"] for row in bars if row["system"] == system}
        cells.append([system, *(number(items_by_rank.get(rank)) for rank in ranks)])
    parameters = {"angle": Sized((-40, 0))}
    chart = Chart("relevant", bars, parameters, systems)
    note = words("relevant.last") if nowhere in ranks else ""
    about = {**about_lists(content, words), "last_note": note}
    hidden = _left_out(content, systems, words)
    return Picture("relevant", chart, columns, cells, 1, about, left_out=hidden)


def _judged_at_10(content: Content) -> float | None:
    shares = [
        r["value"] for r in content.profile.curves if r["family"] == "judged" and r["k"] == 10
    ]
    return min(shares, default=None)


def precision_recall(content: Content, words: Words) -> Picture | None:
    """Precision over recall, where nearly all that is shown has a label."""
    share = _judged_at_10(content)
    if share is None or share < JUDGED:
        return None
    systems, values = _systems(content), {}
    for row in content.profile.curves:
        values[row["system"], row["family"], row["k"]] = row["value"]
    points = [
        {
            "system": system,
            "k": k,
            "recall": values[system, "recall", k],
            "precision": values[system, "precision", k],
        }
        for system, family, k in values
        if family == "precision" and system in systems and (system, "recall", k) in values
        if k <= _reaching(content)
    ]
    if len({row["k"] for row in points}) < 3:
        return None
    columns = [words("column.system"), words("column.k"), "recall", "precision"]
    cells = [
        [row["system"], str(row["k"]), number(row["recall"]), number(row["precision"])]
        for row in points
    ]
    about = about_lists(content, words) | {"judged": percent(share)}
    chart = Chart("precision_recall", points, {}, systems)
    hidden = _left_out(content, systems, words)
    return Picture("precision_recall", chart, columns, cells, 1, about, left_out=hidden)


def left_out(content: Content, words: Words) -> list[str]:
    """Pictures that would mislead, and why they are not drawn."""
    share = _judged_at_10(content)
    if share is None or share >= JUDGED or content.log is not None:
        return []
    return [words("precision_recall.hidden", judged=percent(share))]


def judged(content: Content, words: Words) -> Picture | None:
    """The share of what is shown that has a label, by cutoff."""
    systems = _systems(content)
    rows = [
        row
        for row in content.profile.curves
        if row["family"] == "judged" and row["system"] in systems and row["k"] <= _reaching(content)
    ]
    if not rows or all(row["value"] >= COMPLETE for row in rows):
        return None
    cutoffs = sorted({row["k"] for row in rows})
    cells = [
        [system, *(_at(rows, {"system": system, "k": k}) for k in cutoffs)] for system in systems
    ]
    columns = [words("column.system"), *(f"@{k}" for k in cutoffs)]
    chart = Chart("judged", rows, {"cutoffs": cutoffs, "range": [cutoffs[0], cutoffs[-1]]}, systems)
    hidden = _left_out(content, systems, words)
    about = about_lists(content, words)
    return Picture("judged", chart, columns, cells, 1, about, left_out=hidden)


def bounds(content: Content, words: Words) -> Picture | None:
    """A metric by cutoff, were all items without a label bad, and were they good."""
    # bands of more than two systems hide one another
    systems, deepest = _systems(content)[:2], _reaching(content)
    rows = [
        row for row in content.profile.bounds if row["system"] in systems and row["k"] <= deepest
    ]
    cutoffs = sorted({row["k"] for row in rows})
    if len(cutoffs) < 2 or not any(row["best"] - row["worst"] > SPREAD for row in rows):
        return None
    family = rows[0]["family"]
    parameters = {"cutoffs": cutoffs, "range": [cutoffs[0], cutoffs[-1]], "y_title": f"{family}@k"}
    columns = [words("column.system"), words("column.k"), words("column.all_bad")]
    columns.append(words("column.all_good"))
    cells = [[r["system"], str(r["k"]), number(r["worst"]), number(r["best"])] for r in rows]
    about = about_lists(content, words) | {"metric": f"{family}@k"}
    points = [{name: row[name] for name in ("system", "k", "worst", "best")} for row in rows]
    hidden = _left_out(content, systems, words)
    chart = Chart("bounds", points, parameters, systems)
    return Picture("bounds", chart, columns, cells, 1, about, left_out=hidden)


def ties(content: Content, words: Words) -> Picture | None:
    """The least and the most that the order of equal scores could give."""
    rows = [
        row for row in content.profile.ties if None not in (row["worst"], row["best"], row["value"])
    ]
    if not any(row["best"] - row["worst"] > SPREAD for row in rows):
        return None
    tied = content.profile.tied
    columns = [words(f"column.{column}") for column in ("system", "worst", "after", "best", "tied")]
    cells = [
        [
            row["system"],
            *(number(row[name]) for name in ("worst", "value", "best")),
            percent(tied[row["system"]]) if row["system"] in tied else "–",
        ]
        for row in rows
    ]
    bars = [{**row, "label": row["system"]} for row in rows]
    chart = Chart("ties", bars, {}, _systems(content))
    return Picture("ties", chart, columns, cells, 1, about_lists(content, words))


def tools(content: Content, words: Words) -> Picture | None:
    """The number beside what other tools print of the same data."""
    systems = _systems(content)
    rows = [row for row in content.profile.tools if row["system"] in systems]
    presets = list(dict.fromkeys(row["preset"] for row in rows))
    if len(presets) < 3:
        return None
    label_by_preset = {preset: preset or words("tools.own") for preset in presets}
    points = [
        {"label": label_by_preset[row["preset"]], "system": row["system"], "value": row["value"]}
        for row in rows
    ]
    values = [row["value"] for row in rows if row["system"] == content.main]
    about = about_lists(content, words) | {"low": number(min(values)), "high": number(max(values))}
    columns = [words("column.tool"), *systems, words("column.queries")]
    cells = []
    for preset in presets:
        row_by_system = {row["system"]: row for row in rows if row["preset"] == preset}
        counts = sorted({row["n_queries"] for row in row_by_system.values()})
        cells.append(
            [
                label_by_preset[preset],
                *(
                    number(row_by_system[system]["value"]) if system in row_by_system else "–"
                    for system in systems
                ),
                " / ".join(map(words.n, counts)),
            ]
        )
    hidden = _left_out(content, systems, words)
    chart = Chart("tools", points, {}, systems)
    return Picture("tools", chart, columns, cells, 1, about, left_out=hidden)


# The picture of a funnel: what each stage of a ranking loses of the relevant items.


def funnel(content: Content, words: Words) -> Iterator[Picture]:
    """A waterfall a system, from all relevant items to those of the last stage."""
    overall = [row for row in content.funnel if row["segment_name"] == ALL]
    systems = list(dict.fromkeys(row["system"] for row in overall))
    for system in systems:
        rows = [row for row in overall if row["system"] == system]
        if rows[0]["n_relevant"]:
            yield _funnel(words, rows, system if len(systems) > 1 else "")


def _funnel(words: Words, rows: Sequence[Row], suffix: str) -> Picture:
    total, remaining = rows[0]["n_relevant"], rows[0]["n_relevant"]
    bars = [_bar(words("axis.relevant"), (0, 1), words.n(total), "total")]
    for row in rows:
        start, end = (remaining - row["n_lost"]) / total, remaining / total
        if row["n_lost"]:
            text = f"−{percent(row['lost_share'])} ({words.n(row['n_lost'])})"
            bars.append(_bar(row["stage"], (start, end), text, "worse"))
        else:
            bars.append(_bar(row["stage"], (0, end), words.n(remaining), "total"))
        remaining -= row["n_lost"]
    last = rows[-1]["stage"]
    bars.append(
        _bar(words("funnel.left", stage=last), (0, remaining / total), words.n(remaining), "total")
    )
    parameters = {
        "domain": Sized(([0, 1.6], [0, 1.2])),
        "x_title": words("axis.of_relevant"),
        "format": ".0%",
        "values": [0, 0.25, 0.5, 0.75, 1],
    }
    names = ("stage", "list_size", "recall", "retention", "lost", "lost_share")
    cells = [
        [
            str(row["stage"]),
            "–" if row["list_size"] is None else f"{row['list_size']:,.1f}",
            *(number(row[column]) for column in ("recall", "retention")),
            words.n(row["n_lost"]),
            percent(row["lost_share"]) if row["lost_share"] is not None else "–",
        ]
        for row in rows
    ]
    columns = [words(f"column.{column}") for column in names]
    about = {
        "n": words.n(rows[0]["n_queries"]),
        "items": words.n(total),
        "told": describe_losses(rows, words),
    }
    return Picture(
        "funnel", Chart("waterfall", bars, parameters), columns, cells, 1, about, suffix=suffix
    )


def describe_losses(rows: Sequence[Row], words: Words) -> str:
    """Where most are lost, and what is left, as a sentence or two.

    Args:
        rows: The stages of one system, in order.
        words: The language.
    """
    worst, last = max(rows, key=lambda row: row["n_lost"]), rows[-1]
    total = last["n_relevant"]
    if not total:
        return words("funnel.no_relevant")
    values = {"stage": worst["stage"], "share": percent(worst["lost_share"])}
    kind = "nothing" if not worst["n_lost"] else "not_found" if worst is rows[0] else "most_lost"
    counts = {"found": words.n(last["n_found"]), "items": words.n(total)}
    kept_sentence = words("funnel.kept", stage=last["stage"], **counts)
    return f"{words(f'funnel.{kind}', **values)} {kept_sentence}"


def _bar(label: str, ends: tuple[float, float], text: str, kind: str) -> dict[str, object]:
    start, end = ends
    return {"label": label, "start": start, "end": end, "far": end, "kind": kind, "text": text}
