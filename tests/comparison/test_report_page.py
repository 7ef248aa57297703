"""The page in a browser: by night, in an environment with the extra `report` and Playwright.

It needs Chromium (CHROMIUM names it) and, for axe-core, npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from comparison.report_world import month
from marked import by_night

import sqlmetrics as sm

SIZES = {"desktop": (1200, 900), "phone": (375, 800)}
THEMES = ("light", "dark")
LANGUAGES = ("en", "zh")
ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
LARGEST = 1_000_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    pytest.importorskip("vl_convert")
    playwright = pytest.importorskip("playwright.sync_api")
    executable = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if not executable:
        pytest.skip("no Chromium")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core, as npm brings it."""
    if not shutil.which("npm"):
        pytest.skip("no npm")
    folder = tmp_path_factory.mktemp("npm")
    subprocess.run(
        ["npm", "install", "--silent", "--no-save", "axe-core@4"], cwd=folder, check=True
    )
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reports() -> dict[str, sm.Report]:
    """A month with a regression, one day of one system, and what data there is at hand."""
    by_name = {"month": sm.report(*month(planted=True), ["ndcg@5", "mrr"], date="ds", by="country")}
    tables = month(planted=False, days=1)
    by_name["day"] = sm.report(*tables, "ndcg@5", where="system = 'new'")
    robust, clicks = SHARED / "robust03", SHARED / "clicks"
    if robust.is_dir():
        runs = {file.name.partition(".")[0]: file for file in sorted(robust.glob("*.txt.gz"))}
        qrels = runs.pop("qrels")
        by_name["robust"] = sm.report(
            {name: str(file) for name, file in runs.items()}, str(qrels), ["ap", "ndcg@20", "mrr"]
        )
    if clicks.is_dir():
        files = [str(clicks / f"ubi_{name}.ndjson") for name in ("queries", "events")]
        by_name["clicks"] = sm.report(*files)
    return by_name


@by_night
@pytest.mark.parametrize("look", [*product(SIZES, THEMES, LANGUAGES)], ids=" ".join)
def test_pages_in_a_browser(
    browser: Any,
    axe: str,
    reports: dict[str, sm.Report],
    tmp_path: Path,
    look: tuple[str, str, str],
) -> None:
    size, theme, language = look
    width, height = SIZES[size]
    for name, report in reports.items():
        file = sm.Report(report.content, language).save(tmp_path / f"{name}.html")
        assert file.stat().st_size <= LARGEST, name
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, bypass_csp=True
        )
        page = context.new_page()
        problems: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message, problems=problems: problems.append(message.text))
        page.on("pageerror", lambda error, problems=problems: problems.append(str(error)))
        page.on("request", lambda request, requests=requests: requests.append(request.url))
        begun = time.perf_counter()
        page.goto(file.as_uri())
        assert time.perf_counter() - begun < 3, "opens in a second, on a machine with time"
        assert requests == [file.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
        _is_drawn(page, size)
        _sorts(page)
        page.evaluate(axe)
        audit = page.evaluate("axe.run({resultTypes: ['violations']})")
        bad = [
            (violation["id"], [node["html"][:120] for node in violation["nodes"][:3]])
            for violation in audit["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
        assert bad == [], (name, bad)
        assert problems == [], (name, problems)
        context.close()


def _is_drawn(page: Any, size: str) -> None:
    """The drawings of this width are seen, and nothing of them lies outside the page."""
    visible, hidden = ("wide", "narrow") if size == "desktop" else ("narrow", "wide")
    assert page.locator(f".drawing.{visible} svg").count() > 0
    assert all(drawing.is_visible() for drawing in page.locator(f".drawing.{visible} svg").all())
    assert not any(drawing.is_visible() for drawing in page.locator(f".drawing.{hidden} svg").all())
    outside = page.evaluate(
        """name => [...document.querySelectorAll(`.drawing.${name} text`)]
            .map(one => [one.textContent, one.getBoundingClientRect()])
            .filter(([text, box]) => text && (box.left < -1 || box.right > innerWidth + 1))
            .map(([text]) => text)""",
        visible,
    )
    assert outside == []


def _sorts(page: Any) -> None:
    """The first table of numbers sorts by its second column: by a click, and by keyboard."""
    section = page.locator("section:has(table.sortable)").first
    section.locator("summary", has_not_text="→").last.click()
    button = section.locator("table.sortable th button").nth(1)
    cells = "table.sortable tbody td:nth-child(2)"
    button.click()
    down = section.locator(cells).all_text_contents()
    button.press("Enter")
    up = section.locator(cells).all_text_contents()
    assert sorted(down) == sorted(up)
    assert section.locator("th[aria-sort=ascending]").count() == 1


@by_night
def test_slices_open_by_a_click_and_lines_join_items(
    browser: Any, reports: dict[str, sm.Report], tmp_path: Path
) -> None:
    file = reports["month"].save(tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.goto(file.as_uri())
    page.locator(".drawing.wide [data-opens=slice-3] path").first.click()
    page.wait_for_function("document.getElementById('slice-3').open")
    page.locator("#slice-2 summary").press("Enter")
    assert page.locator("#slice-2 table").is_visible(), "by keyboard"
    lines = "document.querySelectorAll('details.mover[open] .joins path').length"
    assert page.evaluate(lines) == 10
    page.locator("details.mover summary").nth(1).click()
    page.wait_for_function(f"{lines} === 20")
    boxes = "[...document.querySelectorAll('.joins')].map(one => one.getBoundingClientRect().width)"
    assert max(page.evaluate(boxes)) == 64


@by_night
def test_a_page_prints(browser: Any, reports: dict[str, sm.Report], tmp_path: Path) -> None:
    file = reports["month"].save(tmp_path / "page.html")
    page = browser.new_page()
    page.goto(file.as_uri())
    printed = page.pdf(format="A4")
    assert 3 <= printed.count(b"/Type /Page\n") <= 25
