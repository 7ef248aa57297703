"""The table as a picture: seconds on the clock, a bar a contender."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from benchmarks.measure import Run


def write(folder: Path, rows: int, shape: str, runs: Sequence[Run], text: str) -> str:
    """Write the table and the chart to a folder; what is said of it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{shape}_{rows}"
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    if not (find_spec("altair") and find_spec("vl_convert")):
        return f"{folder / name}.md; for the chart: pip install altair vl-convert-python"
    import altair as alt

    bars = alt.Chart(alt.Data(values=_values(runs))).encode(
        x=alt.X("seconds:Q", title="seconds on the clock, from the files to the means"),
        y=alt.Y("contender:N", sort="x", title=None),
    )
    labels = bars.mark_text(align="left", dx=4).encode(text=alt.Text("seconds:Q", format=".2f"))
    color = alt.condition(
        "slice(datum.contender, 0, 10) == 'sqlmetrics'", alt.value("#1f6f8b"), alt.value("#b9c4c9")
    )
    title = f"Six metrics of {rows:,} ranked rows ({shape})"
    chart = (bars.mark_bar().encode(color=color) + labels).properties(title=title, width=560)
    for ending in ("svg", "png"):
        chart.save(folder / f"{name}.{ending}", **({"scale_factor": 2} if ending == "png" else {}))
    return f"{folder / name}.md, .svg and .png"


def _values(runs: Sequence[Run]) -> list[dict[str, object]]:
    names = dict.fromkeys(run.contender.name for run in runs)
    return [
        {"contender": name, "seconds": median(r.wall for r in runs if r.contender.name == name)}
        for name in names
    ]
