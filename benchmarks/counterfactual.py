"""How often intervals cover a planted truth: `python -m benchmarks.counterfactual`.

Simulated logs, 200 a setting, of a ranker that is shown; what is estimated is one that is not. Of
the clicks some are made as the model has it, and some are not: people trust what stands on top, or
read from the top and stop where they are satisfied. The truth is what attracts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent / "tests"
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
BROKEN = {
    "cascade": "share of users who read from the top and stop",
    "trust": "trust in position 1",
}
NAMES = {
    "ips": "ips, dr",
    "snips": "snips",
    "naive ips": "ips, naive",
    "naive snips": "snips, naive",
}
"""Estimators that are drawn: where all items were shown and no weight is clipped, dr is ips."""
GREY = "#57606a"
"""Readable on a light page and on a dark one."""
FIGURES = {"share": "intervals that cover the truth", "off": "error of the estimate"}


def main() -> None:
    """Measure each setting, print a Markdown table, and draw it."""
    options = _parser().parse_args()
    rows = list(_measured(options.seeds, options.impressions))
    print(_table(rows))
    if options.out:
        print(_draw(rows, options.out), file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counterfactual", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=200, help="logs of each setting")
    parser.add_argument("--impressions", type=int, default=20_000, help="of each log")
    parser.add_argument("--out", type=Path, help="a folder for the picture")
    return parser


def _measured(seeds: int, impressions: int) -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(TESTS))
    from clicks.unshown import covered, worlds

    for kind in BROKEN:
        for share in SHARES:
            logs = worlds(range(1, seeds + 1), impressions, **{kind: share})
            coverage = covered(logs)
            for name, estimator_coverage in coverage.items():
                row = {"broken": kind, "by": share, "estimator": name}
                yield {**row, "share": estimator_coverage.share, "off": estimator_coverage.off}
            print(f"{kind} {share}: {coverage}", file=sys.stderr, flush=True)


def _table(rows: list[dict[str, Any]]) -> str:
    """The shares that cover, and behind them how far off the estimates are on average."""
    names = [*dict.fromkeys(row["estimator"] for row in rows)]
    lines = [f"| broken | by | {' | '.join(names)} |", "|---|---:|" + "---:|" * len(names)]
    for kind in BROKEN:
        for share in SHARES:
            setting_rows = [row for row in rows if (row["broken"], row["by"]) == (kind, share)]
            cells = [f"{row['share']:.1%} ({row['off']:+.1%})" for row in setting_rows]
            lines.append(f"| {kind} | {share:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _draw(rows: list[dict[str, Any]], folder: Path) -> str:
    if not find_spec("vl_convert"):
        return "for the picture: pip install vl-convert-python"
    import vl_convert

    values = [
        row | {"estimator": NAMES[row["estimator"]], "broken": BROKEN[row["broken"]]}
        for row in rows
        if row["estimator"] in NAMES
    ]
    x = {"field": "by", "type": "quantitative", "axis": {"title": None, "format": "%"}}
    colours = {"domain": [*NAMES.values()], "range": ["#1f77b4", "#2ca02c", "#d62728", "#e8912d"]}
    colour = {"field": "estimator", "type": "nominal", "scale": colours, "title": None}
    words = {"labelColor": GREY, "titleColor": GREY, "titleFontWeight": "normal"}
    spec = {
        "config": {
            "background": None,
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": words | {"gridColor": "#d0d7de55", "domain": False, "ticks": False},
            "header": words | {"labelFontSize": 12},
            "legend": words | {"labelFontSize": 12},
        },
        "data": {"values": values},
        "vconcat": [
            {
                "facet": {"column": {"field": "broken", "title": None}},
                "spec": {
                    "width": 280,
                    "height": 150,
                    "mark": {"type": "line", "point": True},
                    "encoding": {
                        "x": x,
                        "y": {"field": figure, "type": "quantitative", "axis": {"format": "%"}}
                        | {"title": title},
                        "color": colour,
                    },
                },
            }
            for figure, title in FIGURES.items()
        ],
    }
    file = folder / "counterfactual.svg"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(vl_convert.vegalite_to_svg(json.dumps(spec)), encoding="utf-8")
    return str(file)


if __name__ == "__main__":
    main()
