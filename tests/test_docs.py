"""The README, the docs and the examples say what is so: their blocks are run."""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
import yaml
from documentation import PAGES, README, ROOT

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.metric_files import WORDS
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.cli import learn
from sqlmetrics.jobs.exports.formats import FORMATS
from sqlmetrics.jobs.schema import TABLES, TableColumn
from sqlmetrics.plan.expressions import RowContext


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_readme_keeps_its_promises_of_length() -> None:
    lines = README.splitlines()
    assert len(lines) <= 150
    assert next(n for n, line in enumerate(lines) if "<picture>" in line) < 10
    assert lines.index("```sh") < 30
    assert [block.count("\n") <= 15 for block in blocks(README, "sql")] == [True]


def test_the_site_has_pages_as_markdown_llms_txt_and_the_schema(tmp_path: Path) -> None:
    files = runpy.run_path(str(ROOT / "docs" / "site_files.py"))
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    nav = config["nav"]
    address = {"docs_dir": ROOT / "docs", "site_dir": tmp_path, "site_url": "https://docs.example/"}
    (tmp_path / "index.html").write_text('<img src="a.svg"><script src="/b.js"></script>')
    (tmp_path / "a.svg").write_bytes(b" " * 1000)
    (tmp_path / "b.js").write_bytes(b" " * 2000)
    assert files["weights"](tmp_path)["index.html"] == 3046
    files["on_post_build"](config | address)
    pages = [file for _, section in files["sections"](nav) for _, file in section]
    lines = (tmp_path / "llms.txt").read_text(encoding="utf-8").splitlines()
    described = dict(re.findall(r"^- \[.+?\]\((.+?)\): (.{12,})$", "\n".join(lines), re.MULTILINE))
    assert sorted(described) == sorted(pages)
    about = {file: text for file, text in described.items() if "ccepted" in text[:20]}
    assert not about, "the state of a decision is not what it is about"
    assert described["presets/beir.md"].startswith("BEIR's `EvaluateRetrieval.evaluate`: NDCG@k")
    assert described["evaluate.md"].startswith("`evaluate` computes metrics from rankings and")
    assert "- [BEIR](presets/beir.md)" in "\n".join(lines)
    assert all(
        (tmp_path / page).read_bytes() == (ROOT / "docs" / page).read_bytes() for page in pages
    )
    (schema,) = tmp_path.glob("schema/*/spec.json")
    published = json.loads(schema.read_text(encoding="utf-8"))
    assert published.pop("$id") == f"https://docs.example/{schema.relative_to(tmp_path)}"
    assert published == json.loads(files["SCHEMA"].read_text(encoding="utf-8"))
    (tmp_path / "b.js").write_bytes(b" " * 1_000_000)
    with pytest.raises(ValueError, match=r"above 1,000,000 bytes: .*index\.html"):
        files["on_post_build"](config | address)


def test_columns_of_the_demo_s_picture_do_not_hang_on_a_font() -> None:
    """Each word has its own place: librsvg, which GitHub may draw with, knows no textLength."""
    for name in ("light", "dark"):
        picture = (ROOT / "docs" / "pictures" / f"demo-{name}.svg").read_text(encoding="utf-8")
        words = re.findall(r'x="([\d.]+)" y="[\d.]+" textLength[^>]+>([^<\n]+)</text>', picture)
        assert len(words) > 60
        assert not [word for _, word in words if "&#160;" in word or " " in word]
        assert all(
            float(x) / 12.2 == pytest.approx(round(float(x) / 12.2), abs=0.02) for x, _ in words
        )


def test_the_sql_in_the_docs_is_what_compile_prints() -> None:
    spec = sm.Spec(
        rankings={"file": "runs.parquet"},
        labels={"file": "labels.parquet"},
        metrics=["ndcg@10", "recall@100", "mrr"],
    )
    text = sm.compile(spec, per_query=True)
    page = ROOT / "docs" / "sql.md"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        (old,) = blocks(page.read_text(encoding="utf-8"), "sql")
        page.write_text(page.read_text(encoding="utf-8").replace(old, text), encoding="utf-8")
    assert blocks(page.read_text(encoding="utf-8"), "sql") == [text]
    assert blocks(README, "sql")[0] in text


def test_the_readme_s_differences_are_those_that_were_measured() -> None:
    measured = (ROOT / "docs" / "presets" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (\d+) \| (\S+) \|$", README, re.MULTILINE)
    assert len(rows) == 5
    for preset, tool, values, largest in rows:
        row = rf"{re.escape(tool)} \| ndcg \| [^|]* \| {values} \| {largest} \|"
        assert re.search(rf"\| \[{preset}\]\(\S+\) \| {row}", measured), preset
    n_presets = len(PRESETS) - 1  # house is no tool's
    assert f"[{n_presets} presets]" in README


def test_the_chinese_readme_has_the_same_commands() -> None:
    chinese = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    fences = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        english = iter(fences.findall(README))
        (ROOT / "README.zh-CN.md").write_text(fences.sub(lambda _: next(english), chinese), "utf-8")
        chinese = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
    assert fences.findall(chinese) == fences.findall(README)
    of_rows = re.compile(r"^\| `.*", re.MULTILINE)
    assert of_rows.findall(chinese) == of_rows.findall(README)


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda p: p.stem)
def test_examples_run(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, where warnings are errors too."""
    runpy.run_path(str(example), run_name="__main__")
    assert "queries" in capsys.readouterr().out


def test_pages_of_schedulers_show_the_examples_that_are_run() -> None:
    """tests/schedulers runs the files; the pages have them whole, and no other blocks."""
    files = {
        path.read_text(encoding="utf-8"): path.name
        for path in (ROOT / "examples" / "schedulers").iterdir()
        if path.is_file()
    }
    pages = {
        page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/how-to").glob("*")
    }
    scheduler_blocks = [
        block for name in ("airflow", "dagster", "prefect") for block in blocks(pages[name], r"\w+")
    ]
    gates = [path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "gate").iterdir()]
    assert {*gates} <= {*blocks(pages["gate"], r"\w+")}
    night = [block for block in blocks(pages["every-night"], r"\w+") if block in files]
    assert sorted(files[block] for block in scheduler_blocks + night) == sorted(files.values())


WRITTEN_BY_TESTS = (
    *("docs/commands.md", "docs/gallery.md", "docs/glossary.md", "docs/messages.md", "docs/adr"),
)
"""Pages that nobody writes by hand, and decisions, which are left as they were."""
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What links name after the `#` of a page: its headings, as GitHub and mkdocs spell them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", name.lower())) for name in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_is_short_and_its_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}"
    name = page.relative_to(ROOT).as_posix()
    if name.startswith(WRITTEN_BY_TESTS) or page.parent == ROOT:
        return
    by_hand = re.sub(r"<!-- generated.*?<!-- end -->", "", text, flags=re.DOTALL)
    n_lines = len(by_hand.splitlines())
    assert n_lines <= 250, f"{name} has {n_lines} lines: split it by task"
    prose = FENCED.sub("\n", by_hand)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )", prose):
        lines = textwrap.wrap(" ".join(paragraph.split()), 120)
        is_table = paragraph.lstrip().startswith("|")
        assert is_table or len(lines) <= 6, f"{name}: more than six lines: {lines[0]}"


def _table(names: list[str], rows: list[list[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(cell or " " for cell in row) + " |" for row in lines)


def _empty() -> tuple[list[str], list[list[str]]]:
    return ["metric", "empty"], [[metric.name, metric.empty] for metric in listed()]


def _metrics(*columns: str) -> tuple[list[str], list[list[str]]]:
    """Some columns of the list of metrics, and the source."""
    table = learn.table("metrics")
    sources = {metric.title: metric.source for metric in listed()}
    every = [
        dict(zip(table.columns, row, strict=True)) | {"source": sources[row[1]]}
        for row in table.rows
    ]
    return [*columns], [[row[column] for column in columns] for row in every]


def _listed(kind: str) -> tuple[list[str], list[list[str]]]:
    table = learn.table(kind)
    return table.columns, table.rows


def _settings(name: str) -> tuple[list[str], list[list[str]]]:
    """What a preset sets, and what that means; the house's values of the same options."""
    preset = PRESETS[name]
    settings = [("", *setting) for setting in preset.options.items()]
    settings += [
        (metric, *setting)
        for metric, options in preset.metrics.items()
        for setting in options.items()
    ]
    rows = []
    for metric, option, value in settings:
        convention = OPTIONS[option]
        meaning = f"{convention.meaning}: {convention.choice(value).meaning}"
        rows.append([f"`{option}={value}`", metric, meaning, f"`{convention.choices[0].name}`"])
    names = ["setting", "only for", "meaning", "otherwise (house)"]
    keep = [0, *([1] if preset.metrics else []), 2, 3]
    return [names[i] for i in keep], [[row[i] for i in keep] for row in rows]


def _differences(name: str) -> tuple[list[str], list[list[str]]]:
    """Of which metrics a preset does not give its tool's number, and why."""
    rows = [
        [
            ", ".join(f"`{metric}`" for metric in difference.metrics)
            + " without a cutoff" * difference.uncut,
            difference.reason,
        ]
        for difference in PRESETS[name].differences
    ]
    return ["metric", "how the tool's number differs"], rows


def _exports() -> tuple[list[str], list[list[str]]]:
    """For whom each export is, and whether the tests run the tool over it."""
    rows = [
        [
            f"`{export.name}`",
            export.title,
            export.whom,
            export.about,
            "yes" if export.executed else "not run",
        ]
        for export in FORMATS.values()
    ]
    return ["export", "tool", "take it if", "what it is", "run in tests"], rows


def _columns(columns: Mapping[str, TableColumn]) -> tuple[list[str], list[list[str]]]:
    """The columns of a table that a job writes."""
    rows = [
        [
            f"`{column.name}`",
            column.kind,
            column.meaning,
            f"`{column.roll_up}`" * bool(column.roll_up),
        ]
        for column in columns.values()
    ]
    names = ["column", "type", "what it holds", "days together"]
    has_sums = any(row[3] for row in rows)
    return names[: 3 + has_sums], [row[: 3 + has_sums] for row in rows]


def _metric_words() -> tuple[list[str], list[list[str]]]:
    """What `m` has in a metric file: by the name that its rows have in `over`."""
    overs: dict[str, list[str]] = {}
    for over, words in WORDS.items():
        for word in words:
            overs.setdefault(word, []).append(f"`{over}`")
    rows = []
    for word, over_names in overs.items():
        member = getattr(RowContext, word, None)
        arguments = ""
        if callable(member):
            names = [name for name in inspect.signature(member).parameters if name != "self"]
            arguments = f"({', '.join(names)})"
        meaning = "The cutoff, a whole number." if word == "k" else inspect.getdoc(member) or ""
        rows.append([f"`m.{word}{arguments}`", meaning.split("\n")[0], ", ".join(over_names)])
    return ["name", "what it is", "over"], rows


GENERATED: dict[str, Callable[[], tuple[list[str], list[list[str]]]]] = {
    "metrics": partial(_metrics, "metric", "formula", "range", "better"),
    "sources": partial(_metrics, "metric", "title", "aliases", "unit", "source"),
    "empty": _empty,
    "exports": _exports,
    "options": partial(_listed, "options"),
    "presets": partial(_listed, "presets"),
    "facts": partial(_columns, TABLES["facts"].columns),
    "beside_baseline": partial(_columns, TABLES["facts"].later),
    "per_query": partial(_columns, TABLES["per_query"].columns),
    "experiment": partial(_columns, TABLES["experiment"].columns),
    "runs": partial(_columns, TABLES["runs"].columns),
    "metrics_table": partial(_columns, TABLES["metrics"].columns),
    "definitions": partial(_columns, TABLES["definitions"].columns),
    "metric_words": _metric_words,
    "archives": partial(_columns, TABLES["facts"].archived),
}


PRESET_PAGES = [
    f"presets/{name}.md" for name, preset in PRESETS.items() if preset.options or preset.metrics
]


@pytest.mark.parametrize(
    "page",
    [
        "metrics.md",
        "metric-files.md",
        "conventions.md",
        "exports.md",
        "tables.md",
        *PRESET_PAGES,
    ],
)
def test_generated_tables_are_current(page: str) -> None:
    path = ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")
    of_page = {
        "settings": partial(_settings, path.stem),
        "differences": partial(_differences, path.stem),
    }
    if path.stem in PRESETS:
        has_differences = bool(PRESETS[path.stem].differences)
        assert ("<!-- generated: differences -->" in text) == has_differences

    def current(match: re.Match[str]) -> str:
        table = _table(*(GENERATED | of_page)[match[1]]())
        return f"<!-- generated: {match[1]} -->\n{table}\n<!-- end -->"

    assert "<!-- generated:" in text
    fresh = re.sub(r"<!-- generated: (\w+) -->.*?<!-- end -->", current, text, flags=re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(fresh, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == fresh


def test_the_spec_in_the_docs_is_a_spec(tmp_path: Path) -> None:
    block = blocks((ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8"), "yaml")[0]
    path = tmp_path / "search_quality.yml"
    path.write_text(block, encoding="utf-8")
    assert "from analytics.rankings" in sm.compile(sm.Spec.read(path))


def test_every_option_and_preset_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "conventions.md").read_text(encoding="utf-8")
    for name in [*OPTIONS, *PRESETS]:
        assert name in page


def test_the_page_of_dialects_lists_them() -> None:
    page = ROOT / "docs" / "dialects.md"
    text = page.read_text(encoding="utf-8")
    wanted = f"```text\n{learn.table('dialects').text()}\n```"
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(
            re.sub(r"```text\n.*?```", lambda _: wanted, text, flags=re.DOTALL), "utf-8"
        )
    assert wanted in page.read_text(encoding="utf-8")
