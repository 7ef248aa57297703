"""Pictures of a click log: what the cleaning left out, clicks by position, offline and online."""

from __future__ import annotations

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.clicks.cleaning_report import UNUSED
from sqlmetrics.comparison.page.charts import Chart, Sized
from sqlmetrics.comparison.page.content import ALL, Content, Log
from sqlmetrics.comparison.page.differences import SHOWN_ROWS
from sqlmetrics.comparison.page.means import drawn_ends, panels, pooled
from sqlmetrics.comparison.page.picture import Picture, rows_left_out, systems_left_out
from sqlmetrics.comparison.page.words import Words, number, percent
from sqlmetrics.stats.estimate import INTERVAL, wilson_interval
from sqlmetrics.stats.nonparametric import spearman
from sqlmetrics.tables.tabular import Row

SHOWN_POSITIONS = 30
LEAST_DAYS = 5
"""Of fewer points no correlation is told."""


def cleaning(content: Content, words: Words) -> Picture | None:
    """What each step took away from the log, as a waterfall."""
    log = content.log
    if log is None or not log.rows or not any(s["removed"] for s in log.steps):
        return None
    bars, cells = [], []
    unused = {step["what"] for step in log.steps if step["why"] == UNUSED}
    for row_kind, (logged, remaining) in log.rows.items():
        if row_kind in unused:
            cells.append([row_kind, words("reason.not_used"), words.n(logged), "0"])
            continue
        bars.append(
            _bar(f"{row_kind}: {words('column.logged')}", (0, logged), words, is_loss=False)
        )
        cells.append([row_kind, words("column.logged"), "", words.n(logged)])
        for step in (step for step in log.steps if step["what"] == row_kind):
            reason = words(f"reason.{step['why'].replace(' ', '_')}")
            label = f"{row_kind}: {reason}"
            ends = step["rows_out"], step["rows_in"]
            if step["removed"]:
                bars.append(_bar(label, ends, words, is_loss=True))
            cells.append([row_kind, reason, words.n(step["removed"]), words.n(step["rows_out"])])
        if logged != remaining:
            bars.append(
                _bar(f"{row_kind}: {words('column.left')}", (0, remaining), words, is_loss=False)
            )
        cells.append([row_kind, words("column.left"), "", words.n(remaining)])
    columns = [words(f"column.{column}") for column in ("rows", "step", "removed", "left")]
    most = max(logged for row_kind, (logged, _) in log.rows.items() if row_kind not in unused)
    domain = Sized(([0, 1.45 * most], [0, 1.14 * most]))
    parameters = {"domain": domain, "x_title": words("column.rows"), "format": "~s", "values": None}
    about = {"n": words.n(sum(logged for logged, _ in log.rows.values()))}
    return Picture("cleaning", Chart("waterfall", bars, parameters), columns, cells, 2, about)


def _bar(
    label: str, ends: tuple[float, float], words: Words, *, is_loss: bool
) -> dict[str, object]:
    start, end = ends
    text = f"−{words.n(end - start)}" if is_loss else words.n(end)
    kind = "worse" if is_loss else "total"
    return {"label": label, "start": start, "end": end, "far": end, "kind": kind, "text": text}


def positions(content: Content, words: Words) -> Picture | None:
    """The share of impressions at each position that were clicked."""
    log = content.log or Log()
    rows = [row for row in log.positions if row["position"] <= SHOWN_POSITIONS and row["n_shown"]]
    if len({row["position"] for row in rows}) < 2 or not any(row["n_clicked"] for row in rows):
        return None
    systems = content.in_order(row["system"] for row in rows)[:8]
    points = [
        {
            "system": row["system"],
            "position": row["position"],
            "share": row["n_clicked"] / row["n_shown"],
            **dict(
                zip(
                    INTERVAL,
                    wilson_interval(row["n_clicked"], row["n_shown"], content.level),
                    strict=True,
                )
            ),
        }
        for row in rows
        if row["system"] in systems
    ]
    names = ("system", "position", "shown", "clicked", "ctr", "interval")
    cells = []
    for row in rows:
        low, high = wilson_interval(row["n_clicked"], row["n_shown"], content.level)
        ctr = row["n_clicked"] / row["n_shown"]
        ends = words("page.to", low=percent(low), high=percent(high))
        counts = [words.n(row["n_shown"]), words.n(row["n_clicked"])]
        cells.append([row["system"], str(row["position"]), *counts, percent(ctr), ends])
    about = {
        "level": f"{100 * content.level:g}",
        "n": words.n(sum(row["n_shown"] for row in rows)),
    }
    columns = [words(f"column.{column}") for column in names]
    parameters = {"y_title": words("column.ctr")}
    hidden = systems_left_out((row["system"] for row in rows), systems, words)
    chart = Chart("positions", points, parameters, systems)
    return Picture("positions", chart, columns, cells, 1, about, left_out=hidden)


def examination(content: Content, words: Words) -> Picture | None:
    """How often positions are looked at, where labels are corrected by that."""
    rows = (content.log or Log()).propensities
    rows = [row for row in rows if row["position"] <= SHOWN_POSITIONS]
    if len({row["position"] for row in rows}) < 2:
        return None
    points = [
        {
            "system": str(row.get("group") or row["method"]),
            "position": row["position"],
            "share": row["propensity"],
            **{
                bound: row["propensity"] if row[bound] is None else row[bound] for bound in INTERVAL
            },
        }
        for row in rows
    ]
    groups = tuple(dict.fromkeys(row["system"] for row in points))[:8]
    hidden = systems_left_out((row["system"] for row in points), groups, words)
    points = [row for row in points if row["system"] in groups]
    names = ("segment", "position", "propensity", "interval")
    cells = [
        [row["system"], str(row["position"]), number(row["share"]), _text(row, words)]
        for row in points
    ]
    about = {
        "method": rows[0]["method"],
        "level": f"{100 * content.level:g}",
        "n": words.n(len({row["position"] for row in rows})),
    }
    chart = Chart("positions", points, {"y_title": words("column.propensity")}, groups)
    columns = [words(f"column.{column}") for column in names]
    return Picture("examination", chart, columns, cells, 1, about, left_out=hidden)


def offline_online(content: Content, words: Words) -> Picture | None:
    """A metric of lists beside one of what people did, a point a day and system."""
    log = content.log or Log()
    metric_pair = _pair(content, log)
    if metric_pair is None:
        return None
    offline, online = metric_pair
    points = [
        {
            "day": str(row["day"])[:10],
            "system": row["system"],
            "offline": row["offline"][offline],
            "online": row["online"][online],
        }
        for row in log.days
        if offline in row["offline"] and online in row["online"]
    ]
    if len(points) < 3:
        return None
    systems = content.in_order(row["system"] for row in points)
    columns = [words("column.day"), words("column.system"), offline, online]
    cells = [
        [row["day"], row["system"], number(row["offline"]), number(row["online"])] for row in points
    ]
    correlation = None
    if len(points) >= LEAST_DAYS:
        correlation = spearman(
            [row["offline"] for row in points], [row["online"] for row in points]
        )
    correlation_text = words("offline_online.too_few")
    if correlation is not None:
        correlation_text = words(
            "offline_online.spearman", value=f"{correlation:+.2f}".replace("-", "−")
        )
    rows = [r for r in log.online if _is_all(r) and at_cutoff(r["metric"], r["k"]) == online]
    n = words.n(sum(row["n_queries"] for row in rows))
    about = {"offline": offline, "online": online, "n": n, "correlation": correlation_text}
    chart = Chart("offline_online", points, {"x_title": offline, "y_title": online}, systems)
    return Picture("offline_online", chart, columns, cells, 2, about)


def _pair(content: Content, log: Log) -> tuple[str, str] | None:
    """The first metric of lists, and an online one: CTR if there is one."""
    online = list(dict.fromkeys(name for row in log.days for name in row["online"]))
    offline = list(dict.fromkeys(name for row in log.days for name in row["offline"]))
    if not (online and offline):
        return None
    liked = [metric for metric in online if metric.startswith("ctr")]
    first = content.first if content.first in offline else offline[0]
    return first, (liked or online)[0]


def _is_all(row: Row) -> bool:
    return bool(row["segment_name"] == ALL)


def rates(content: Content, words: Words) -> Picture | None:
    """The online metrics that are shares, with their intervals."""
    log = content.log or Log()
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in log.online:
        if _is_all(row):
            key = at_cutoff(row["metric"], row["k"]), str(row["system"])
            groups.setdefault(key, []).append(row)
    rows = []
    for (label, system), group in groups.items():
        total = pooled(group, content.level)
        if total is not None:
            rows.append({"label": label, "system": system, **total})
    if not rows:
        return None
    shown_rows = rows[:SHOWN_ROWS]
    scales = panels((row["label"], row["value"]) for row in shown_rows)
    points = [
        {
            **{column: row[column] for column in ("label", "system", "value")},
            **drawn_ends(row, row["label"]),
            "panel": scales[row["label"]],
        }
        for row in shown_rows
    ]
    systems = content.in_order(row["system"] for row in rows)
    columns = [words(f"column.{column}") for column in ("metric", "system", "after", "interval")]
    cells = [
        [row["label"], row["system"], number(row["value"]), _text(row, words), words.n(row["n"])]
        for row in rows
    ]
    about = {
        "level": f"{100 * content.level:g}",
        "n": words.n(max(row["n"] for row in rows)),
    }
    chart = Chart("means", points, {}, systems)
    names = [*columns, words("column.requests")]
    is_abandoned = any(row["label"] == "abandonment" for row in points)
    look_for = "" if is_abandoned else "rates.look_clicks"
    hidden = rows_left_out(len(points), len(rows), words)
    return Picture("rates", chart, names, cells, 2, about, look_for=look_for, left_out=hidden)


def _text(row: Row, words: Words) -> str:
    if row["ci_low"] is None:
        return "–"
    return words("page.to", low=number(row["ci_low"]), high=number(row["ci_high"]))
