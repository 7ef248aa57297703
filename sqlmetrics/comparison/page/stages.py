"""The picture of a funnel: what each stage of a ranking loses of the relevant items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlmetrics.comparison.page.charts import Chart, Sized
from sqlmetrics.comparison.page.content import ALL, Content
from sqlmetrics.comparison.page.picture import Picture
from sqlmetrics.comparison.page.words import Words, number, percent
from sqlmetrics.tables.tabular import Row


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
        "funnel", Chart("waterfall", bars, parameters), columns, cells, 1, about, more=suffix
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
