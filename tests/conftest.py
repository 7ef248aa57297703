"""What the tests share: the data beside the checkout, and peers that may be missing."""

from __future__ import annotations

import compileall
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest
from engines.starting import STARTED, Servers
from marked import engines, off_turn, run_by_other_commits
from slices import is_all, keep
from suite import Suite

from sqlmetrics import errors
from sqlmetrics.sql import transpile

REQUIRED = os.environ.get("REQUIRE_ENGINES") == "1"

PEERS = (
    *(
        "crowdkit",
        "cwl",
        "ir_measures",
        "irrCAC",
        "krippendorff",
        "pytrec_eval",
        "ranx",
        "rbo",
        "scipy",
    ),
    *("scipy", "sklearn", "statsmodels"),
)
MODELS = (
    "catboost",
    "haystack",
    "lightgbm",
    "llama_index",
    "mlflow",
    "trulens",
    "vespa",
    "xgboost",
)
LAKEHOUSE = ("deltalake", "pyiceberg")
RETRIEVAL = ("beir", "deepeval", "mteb", "ragas", "sentence_transformers")
ALONE = ("crowdkit", "daisy", "irrCAC", "rbo", "recbole", "recommenders")
"""Tools whose own requirements fit nothing else."""


def pytest_configure(config: pytest.Config) -> None:
    """Count what the tests cost."""
    budget = float(os.environ.get("SQLMETRICS_CPU_BUDGET", "0"))
    config.pluginmanager.register(Suite(budget), "suite")
    if not hasattr(config, "workerinput"):  # else each worker of a new checkout compiles it
        compileall.compile_dir(Path(errors.__file__).parent, quiet=2)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data; tests skip without it, and fail in CI unless it is told so."""
    folder = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    if not folder.is_dir():
        is_due = "CI" in os.environ and "SQLMETRICS_WITHOUT_DATA" not in os.environ
        (pytest.fail if is_due else pytest.skip)("the data beside the checkout")
    return folder


def peer(name: str) -> ModuleType:
    """A tool to compare with; the test skips by name without it, and fails if required."""
    try:
        return import_module(name)
    except ImportError:
        message = f"{name} is not installed; {remedy(name)}"
        (pytest.fail if REQUIRED else pytest.skip)(message)


MANY = 6
"""A test with as many cells is a matrix."""
SHARES = {"a matrix": 0.09, "another engine": 0.06}
"""What a plain `pytest` takes of them, by its seed: CI asks each engine for the rest, too."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Choose: costly tests off their turn are long ones, before -m; behind it, slices are drawn.

    `SQLMETRICS_ENGINES=sqlite,postgres` has all cells of these engines alone;
    `SQLMETRICS_SHARE=0.3` such a share of what was chosen, and one at least, as CI does in its
    large steps.
    """
    off = off_turn(items)
    for item in off:
        item.add_marker(pytest.mark.long)
    _deselect(config, items, run_by_other_commits(off))
    yield
    if engine_names := os.environ.get("SQLMETRICS_ENGINES"):
        groups = set(engine_names.split(","))
        if unknown := groups - {*STARTED}:
            raise pytest.UsageError(f"SQLMETRICS_ENGINES: {unknown} of {', '.join(STARTED)}")
        chosen = [item for item in items if groups & _groups(item)]
    elif config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        cells = Counter(item.nodeid.partition("[")[0] for item in items)
        chosen = [item for item in items if _is_kept(item, cells)]
    else:
        chosen = items
    share = float(os.environ.get("SQLMETRICS_SHARE", "1"))
    drawn_items = [item for item in chosen if keep(f"share {item.nodeid}", share)]
    chosen = drawn_items or chosen[:1]  # of two tests none may be drawn, and a run of none fails
    _deselect(config, items, set(items) - set(chosen))


def _deselect(
    config: pytest.Config, items: list[pytest.Item], deselected: Collection[pytest.Item]
) -> None:
    """Leave tests out, and say how many."""
    deselected = set(deselected)
    config.hook.pytest_deselected(items=[item for item in items if item in deselected])
    items[:] = [item for item in items if item not in deselected]


def _is_kept(item: pytest.Item, cells: Mapping[str, int]) -> bool:
    """Whether a cell is in this run's slice; all that are no cells are."""
    name, bracket, _ = item.nodeid.partition("[")
    if not bracket or "test_seams" in name:
        return True
    if _groups(item) & {*STARTED} - {"duckdb"}:
        return keep(item.nodeid, SHARES["another engine"])
    return cells[name] < MANY or keep(item.nodeid, SHARES["a matrix"])


def _groups(item: pytest.Item) -> set[str]:
    return {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}


# What is patched in every test. The first two change what runs, to save time: `SQLMETRICS_ALL=1`,
# as by night, leaves them out. The others keep one test from another, and from the terminal.


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """A DuckDB has one thread in tests: the data are small, and the workers share the cores."""
    original = duckdb.connect

    def connect(*arguments: Any, config: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return original(*arguments, config={"threads": 1, **(config or {})}, **options)

    yield from _patched(duckdb, "connect", connect)


@pytest.fixture(scope="session", autouse=True)
def translated_once() -> Iterator[None]:
    """A text in a dialect is the same each time: what many runs of jobs ask is kept.

    That it is the same is tested by the texts themselves, in test_portable.
    """
    original, kept = transpile.translated, dict[tuple[Any, ...], str]()

    def translated(text: str, dialect: Any, about: Mapping[str, str]) -> str:
        key = (text, repr(dialect), tuple(about.items()))
        if key not in kept:
            kept[key] = original(text, dialect, about)
        return kept[key]

    yield from _patched(transpile, "translated", translated)


def _patched(module: ModuleType, name: str, function: Any) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not is_all():
            patch.setattr(module, name, function)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_terminal() -> Iterator[None]:
    """Tables are as wide as they are: workers of pytest-xdist are told how wide its terminal is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(autouse=True)
def no_secret_of_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A word that was a secret in one test is a word in the next of the same process."""
    monkeypatch.setattr(errors, "_KEPT", set(errors._KEPT))
    yield
    errors._pattern.cache_clear()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The engines, each started when it is first asked for."""
    with Servers() as started:
        yield started


@pytest.fixture(params=engines(STARTED, now=["duckdb", "sqlite", "postgres", "datafusion"]))
def engine(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Any]:
    """Every engine that can be started here, open."""
    with servers.open(request.param) as opened:
        yield opened


def remedy(name: str) -> str:
    """How to install what a module is in.

    >>> remedy("ranx"), remedy("lenskit.data")
    ("pip install '.[peers]'", "pip install '.[tools]'")
    """
    package = name.partition(".")[0]
    extras = {"peers": PEERS, "models": MODELS, "retrieval": RETRIEVAL, "lakehouse": LAKEHOUSE}
    extra = next((group for group, packages in extras.items() if package in packages), "tools")
    alone = {"crowdkit": "crowd-kit nltk regex", "daisy": "daisyRec"}.get(package, package)
    second_step = f", then pip install --no-deps {alone}" if package in ALONE else ""
    return f"pip install '.[{extra}]'{second_step}"
