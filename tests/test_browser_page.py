"""The page of the site that computes in the browser: its numbers are those of `evaluate`.

It needs npm for DuckDB and axe-core, Playwright, and Chromium (CHROMIUM names it).
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from documentation import ROOT
from marked import by_night, by_turns

import sqlmetrics as sm
from sqlmetrics.catalog.presets import PRESETS

FOLDER = ROOT / "docs" / "browser"
DIALECTS = ("duckdb", "postgres", "bigquery", "clickhouse")
WORLDS = int(os.environ.get("BROWSER_WORLDS", "20"))
FORMATS = ("csv", "tsv", "trec", "jsonl", "parquet", "csv.gz")
ODD_IDS = (
    "a",
    "A",
    "10",
    "9",
    "009",
    "é",
    "e\u0301",
    "😀",
    "o'x",
    'we"ird',
    "a b",
    "x" * 90,
    "1e3",
)
SCORES = (3.0, 2.0, 2.0, 1.5, 0.1 + 0.2, 0.3, 0.0, -1.0, 16777217.0, 16777216.0)
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}


def module(name: str) -> Any:
    """A module of the page's folder."""
    sys.path.insert(0, str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


# ---- without a browser


@by_turns(9)
def test_a_text_to_copy_is_what_compile_prints() -> None:
    """For each preset and metric, and for cutoffs that the catalogue was not made with."""
    catalogue = module("catalogue")
    builder = catalogue.Texts()
    texts = builder.of(["duckdb", "postgres"])
    lot = random.Random(7)
    pairs = [(p, m) for p in PRESETS for m in catalogue.measured(p)]
    for preset, metric in [*lot.sample(pairs, 60), ("rectools", "ndcg@k")]:
        k = lot.choice((10, 25, 60))
        cell = texts["cells"]["postgres"][preset][metric]
        ordered = PRESETS[preset].options.get("ties") == "input_order"
        spec = catalogue.spec_of(
            preset, [catalogue.cut(metric, k)], {"rank": "rank"} if ordered else {}
        )
        if isinstance(cell, str):
            with pytest.raises(sm.SpecError, match=re.escape(cell)):
                sm.compile(spec, dialect="postgres")
            continue
        compiled = sm.compile(spec, dialect="postgres")
        comment, body = cell
        pieces = [texts["pieces"][i] for i in texts["bodies"][body]]
        text = "\n".join([texts["pieces"][comment], "\n\n".join(pieces)])
        text = text.replace("\x01", str(k)).replace("\x02", catalogue.full_dcg(k))
        assert compiled.partition("\n")[2] == text, (preset, metric, k)


def test_without_npm_the_site_has_a_page_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    module("build").on_post_build({"site_dir": str(tmp_path)})
    assert "npm did not bring DuckDB" in capsys.readouterr().err
    page = (tmp_path / "browser" / "index.html").read_text(encoding="utf-8")
    assert "without the page" in page
    assert [file.name for file in (tmp_path / "browser").iterdir()] == ["index.html"]


def test_the_page_knows_all_words_in_both_languages() -> None:
    catalogue = module("catalogue")
    words = catalogue.tomllib.loads((FOLDER / "words.toml").read_text(encoding="utf-8"))
    english, chinese = words["en"], words["zh"]
    assert english.keys() == chinese.keys() - {"options"}
    assert english["roles"].keys() == chinese["roles"].keys() == {*catalogue.WORDED}
    values = {
        f"{option} {value}"
        for preset in PRESETS.values()
        for options in (preset.options, *preset.metrics.values())
        for option, value in options.items()
        if option in catalogue.WORDED
    }
    assert values <= {*chinese["options"]}


# ---- in a browser


def build_page(page: Path) -> None:
    """The page, as the site has it, but with texts of few dialects."""
    if not shutil.which("npm"):
        pytest.skip("no npm")
    shutil.copytree(FOLDER, page, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    build = module("build")
    try:
        build.fetch(page / "duckdb")
    except subprocess.SubprocessError:
        pytest.skip("npm brings nothing")
    build.write_data(page, DIALECTS)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is served, as a site would do it."""
    site = Path(os.environ.get("BROWSER_SITE") or tmp_path_factory.mktemp("site"))
    if not (site / "browser").exists():
        build_page(site / "browser")

    class Handler(http.server.SimpleHTTPRequestHandler):
        extensions_map = {".mjs": "text/javascript", ".wasm": "application/wasm"} | (
            http.server.SimpleHTTPRequestHandler.extensions_map
        )

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/browser/index.html"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not path:
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Page:
    """The page in a tab of its own, which may ask no other host.

    Args:
        browser: Chromium.
        address: Where the page is.
        choices: What stands behind # in its address.
    """

    def __init__(self, browser: Any, address: str, choices: str = "", **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(120_000)
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.messages.append(message.text))
        self.tab.on("pageerror", lambda error: self.messages.append(str(error)))
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(f"{address}#{choices}")
        self.tab.wait_for_selector("body[data-ready]")

    def wait(self) -> None:
        """Wait until all is computed."""
        self.tab.wait_for_selector("body[data-busy='0']")

    def set_cutoff(self, k: int) -> None:
        """Type a cutoff."""
        self.tab.evaluate(
            "k => { const box = document.getElementById('k'); box.value = k; box.onchange(); }", k
        )
        self.wait()

    def read(self, rankings: Path, labels: Path) -> dict[tuple[str, str], dict[str, str]]:
        """What the page shows of two files: preset, metric -> the data of the cell."""
        self.tab.set_input_files("#rankings", rankings)
        self.tab.set_input_files("#labels", labels)
        self.wait()
        return self.cells()

    def cells(self) -> dict[tuple[str, str], dict[str, str]]:
        """The table."""
        cells = self.tab.evaluate(
            "[...document.querySelectorAll('td')].map(cell => ({...cell.dataset}))"
        )
        return {(cell["preset"], cell["metric"]): cell for cell in cells}


def rows_of(seed: int) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Rankings and labels: ties, lists that are empty, queries without a label, odd ids."""
    lot = random.Random(seed)
    is_trec = FORMATS[seed % len(FORMATS)] == "trec"
    ids = [name for name in ODD_IDS if not (is_trec and " " in name)]
    queries = [f"{name}{n}" for n, name in enumerate(lot.sample(ids, 9))]
    rankings, labels = [], []
    for number, query in enumerate(queries):
        if number != 1:
            ranked = lot.sample(ids, lot.randint(1, len(ids)))
            rankings += [(query, item, lot.choice(SCORES)) for item in ranked]
        if number != 2:
            judged = lot.sample(ids, lot.randint(1, 8))
            grades = (0,) if number == 3 else (0, 0, 1, 1, 2, 3)
            labels += [(query, item, lot.choice(grades)) for item in judged]
    if seed % 5 == 4:
        rankings.append((*rankings[0][:2], lot.choice(SCORES)))
    lot.shuffle(labels)
    return rankings, labels


def write(file: Path, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Path:
    """Write rows in the format that the name ends with."""
    if file.suffix == ".trec":
        columns = [("Q0", 1), ("run",)] if len(rows) and names[-1] == "score" else []
        lines = [
            f"{q} Q0 {i} 1 {value!r} run" if columns else f"{q} 0 {i} {value}"
            for q, i, value in rows
        ]
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    elif file.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in rows]
        file.write_text("\n".join(lines), encoding="utf-8")
    else:
        with duckdb.connect() as connection:
            kinds = ("varchar", "varchar", "double" if names[-1] == "score" else "bigint")
            fields = ", ".join(f"{n} {kind}" for n, kind in zip(names, kinds, strict=True))
            connection.execute(f"create table rows ({fields})")
            connection.executemany("insert into rows values (?, ?, ?)", rows)
            options = {".tsv": "(delimiter '\t', header)", ".parquet": "(compression zstd)"}
            connection.execute(f"copy rows to '{file}' {options.get(file.suffix, '(header)')}")
    return file


def refused(page_cells: dict[tuple[str, str], dict[str, str]], preset: str) -> list[str]:
    """The metrics that the page refuses, beside those that the tool has not."""
    only = PRESETS[preset].only
    return [
        metric
        for (name, metric), cell in page_cells.items()
        if name == preset and "why" in cell and (not only or metric.partition("@")[0] in only)
    ]


def compare(
    cells: dict[tuple[str, str], dict[str, str]], files: tuple[Path, Path], preset: str, k: int
) -> list[float]:
    """The differences between what the page shows under a preset, and `evaluate`."""
    for metric in refused(cells, preset):
        with pytest.raises((sm.SpecError, sm.InputError)):
            sm.evaluate(*files, metric.replace("@k", f"@{k}"), preset=preset)
    values = {
        metric.replace("@k", f"@{k}"): cell["value"]
        for (name, metric), cell in cells.items()
        if name == preset and "value" in cell
    }
    result = sm.evaluate(*files, [*values], preset=preset) if values else {}
    differences = []
    for text, actual in values.items():
        expected = result[text]
        if expected is None or math.isnan(expected):
            assert actual in ("null", "NaN"), (preset, text, actual)
            continue
        differences.append(abs(float(actual) - expected) / max(1, abs(expected)))
        assert differences[-1] <= 1e-12, (preset, text, actual, expected)
    return differences


@by_night
def test_every_number_is_that_of_evaluate(browser: Any, address: str, tmp_path: Path) -> None:
    """Of twenty worlds, under each preset; what is refused here is refused there."""
    metrics = module("catalogue").METRICS
    differences: list[float] = []
    n_refused = 0
    page = Page(browser, address, f"m={','.join(metrics)}")
    for seed in range(WORLDS):
        k = random.Random(seed).choice((1, 2, 3, 5, 10, 100))
        ending = FORMATS[seed % len(FORMATS)]
        names = ("query_id", "item_id") if seed % 2 else ("qid", "docno")
        ranked, labelled = rows_of(seed)
        rankings = write(tmp_path / f"r{seed}.{ending}", (*names, "score"), ranked)
        labels = write(tmp_path / f"l{seed}.{ending}", (*names, "grade"), labelled)
        page.set_cutoff(k)
        cells = page.read(rankings, labels)
        for preset in PRESETS:
            differences += compare(cells, (rankings, labels), preset, k)
            n_refused += len(refused(cells, preset))
    assert page.messages == []
    assert all(url.startswith(address.partition("/browser")[0]) for url in page.requests)
    assert len(differences) > 350 * WORLDS
    print(
        f"{len(differences):,} numbers of {WORLDS} worlds, largest difference "
        f"{max(differences):.1e}; {n_refused} refused on both sides"
    )
    page.context.close()


@by_night
def test_the_demo_by_keyboard_and_its_link_and_command(
    browser: Any, address: str, tmp_path: Path
) -> None:
    page = Page(browser, address, "lang=en", permissions=["clipboard-read", "clipboard-write"])
    tab = page.tab
    press(tab, "demo", "Enter")
    page.wait()
    tab.focus("#seen")
    value = float(page.cells()["sklearn", "ndcg@k"]["value"])
    tab.keyboard.type(f"{value:.4f}".lstrip("0"))
    assert "sklearn" in tab.inner_text("#matches")
    assert tab.locator("td.match[data-preset=sklearn]").count() == 1
    cell = tab.locator("td[data-preset=trec_eval_9][data-metric='ndcg@k'] button")
    cell.focus()
    tab.keyboard.press("Enter")
    assert "higher item id first" in tab.inner_text("#why")
    tab.select_option("#dialect", "bigquery")
    assert "BigQuery has no exact equivalent of" in tab.inner_text("#sql")
    cell = tab.locator("td[data-preset=ranx][data-metric='ndcg@k'] button").press("Enter")
    assert "safe_divide" in tab.inner_text("#sql") or "float64" in tab.inner_text("#sql")
    tab.locator("#link").press("Enter")
    link = tab.evaluate("navigator.clipboard.readText()")
    assert "q0" not in link, "no data"

    contents = tab.evaluate(
        "fetch('demo.bin').then(r => r.body.pipeThrough(new DecompressionStream('gzip')))"
        ".then(stream => new Response(stream).json())"
    )
    for name, text in contents.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", *shlex.split(tab.inner_text("#command")), "-o", "json"]
    printed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    ndcg = float(page.cells()["ranx", "ndcg@k"]["value"])
    rows = json.loads(printed.stdout)
    assert any(abs(row.get("value", 9) - ndcg) < 1e-12 for row in rows), printed.stdout

    again = Page(browser, address, link.partition("#")[2])
    again.wait()
    assert again.cells() == page.cells()
    assert again.tab.inner_text("#detail_title") == tab.inner_text("#detail_title")
    with tab.expect_download() as download:
        tab.click("#image")
    picture = Path(download.value.path()).read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(picture) > 20_000
    page.context.set_offline(True)
    page.set_cutoff(3)
    assert page.cells()["ranx", "ndcg@k"]["value"] != str(ndcg)
    assert page.messages == again.messages == []


def press(tab: Any, name: str, key: str) -> None:
    """Go to a button by Tab alone, and press a key."""
    tab.wait_for_selector(f"#{name}:enabled")
    for _ in range(40):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.id") == name:
            tab.keyboard.press(key)
            return
    raise AssertionError(f"#{name} cannot be reached by Tab")


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core, as npm brings it."""
    if not shutil.which("npm"):
        pytest.skip("no npm")
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--silent", "--no-save", "axe-core@4"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@by_night
def test_axe_finds_nothing_and_nothing_is_cut_off(
    browser: Any, address: str, axe: str, tmp_path: Path
) -> None:
    """In two sizes, light and dark, in both languages; BROWSER_PICTURES keeps the pictures."""
    pictures = Path(os.environ.get("BROWSER_PICTURES") or tmp_path)
    for size, scheme, language in (
        ("phone", "light", "en"),
        ("phone", "dark", "zh"),
        ("desktop", "light", "zh"),
        ("desktop", "dark", "en"),
    ):
        width, height = SIZES[size]
        page = Page(
            browser,
            address,
            f"lang={language}&demo=1&cell=trec_eval_9+ap&seen=.64&m=ndcg@k,recall@k,mrr@k,ap",
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            bypass_csp=True,
        )
        page.wait()
        page.tab.screenshot(path=pictures / f"{size}-{scheme}-{language}.png", full_page=True)
        assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.tab.evaluate(axe)
        violations = page.tab.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in violations] == []
        page.context.close()
