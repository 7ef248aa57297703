"""Builds the page that computes in the browser: mkdocs runs `on_post_build`, see mkdocs.yml.

DuckDB for browsers comes from npm, in fixed versions whose checksums stand here. Without npm the
site has a page in its place that says so. BROWSER_PAGE says what to build: `all`, some dialects
of the texts to copy like `duckdb,postgres`, or `off`.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
LARGEST = 300_000
"""So many bytes the page may add to the files of others."""

PACKAGES = {
    "@duckdb/duckdb-wasm@1.32.0": (
        "IewXTNYEjsZCPE9weUWgtjGxUlMRo7qhX0GF6tq/KjK8bnY+RAl4cyUdYUfcdzbyb4b9ZxPC+FOsCcxgaKFWMg==",
        {
            "dist/duckdb-browser.mjs": "duckdb-browser.mjs",
            "dist/duckdb-browser-eh.worker.js": "duckdb-browser-eh.worker.js",
            "dist/duckdb-eh.wasm": "duckdb-eh.wasm",
        },
    ),
    "apache-arrow@17.0.0": (
        "X0p7auzdnGuhYMVKYINdQssS4EcKec9TCXyez/qtJt32DrIMGbzqiaMiQ0X6fQlQpw8Fl0Qygcv4dfRAr5Gu9Q==",
        {"Arrow.es2015.min.js": "Arrow.es2015.min.js", "LICENSE.txt": "arrow-license.txt"},
    ),
    "hyparquet@1.31.5": (
        "KPVfaxW8xOiO2/4fjeiBfFNEXhGVw9tfcb9ha2iNZdJ3J/yBjEwIeAnTyyuhllFFTb9YO9wg0DfRAOnm6KCvBg==",
        {"src/": "hyparquet/", "LICENSE": "hyparquet/LICENSE"},
    ),
    "fzstd@0.1.1": (
        "dkuVSOKKwh3eas5VkJy1AW1vFpet8TA/fGmVA5krThl8YcOVE/8ZIoEA1+U1vEn5ckxxhLirSdY837azmbaNHA==",
        {"esm/index.mjs": "fzstd.mjs", "LICENSE": "fzstd-license.txt"},
    ),
}
"""Package -> its SHA-512, and what the page needs of it: file -> its name there."""

ARROW = "export const { RecordBatchReader, Table, Type, tableToIPC } = globalThis.Arrow;\n"
"""What DuckDB's module imports; the page loads Arrow as one script: its modules are 300 files."""

ABSENT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>sqlmetrics</title>
<p>This copy of the site was built without the page that computes in the browser: {reason}.
<a href="../index.html">Documentation</a></p></html>
"""


def on_post_build(config: Any, **_: object) -> None:
    """Write the page into the site, or in its place why it is not there.

    Raises:
        ValueError: If a package is not the one that is named here, or the page is too large.
    """
    page = Path(config["site_dir"]) / "browser"
    wanted = os.environ.get("BROWSER_PAGE", "all")
    reason = "BROWSER_PAGE is off" if wanted == "off" else ""
    if not reason:
        try:
            fetch(page / "duckdb")
        except (OSError, subprocess.CalledProcessError) as error:
            reason = f"npm did not bring DuckDB ({type(error).__name__})"
    if reason:
        shutil.rmtree(page, ignore_errors=True)
        page.mkdir(parents=True)
        (page / "index.html").write_text(ABSENT.format(reason=reason), encoding="utf-8")
        print(f"the page browser/ is left out: {reason}", file=sys.stderr)
        return
    write_data(page, () if wanted == "all" else tuple(wanted.split(",")))


def fetch(folder: Path) -> None:
    """Bring the files of others from npm.

    Raises:
        ValueError: If a package has another checksum than here.
        OSError, CalledProcessError: If npm is not there or brings nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for package, (checksum, files) in PACKAGES.items():
        with tempfile.TemporaryDirectory() as place:
            command = ["npm", "pack", "--silent", package]
            subprocess.run(command, cwd=place, check=True, timeout=300, capture_output=True)  # noqa: S603
            (archive,) = Path(place).glob("*.tgz")
            digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
            if digest != checksum:
                raise ValueError(f"{package}: the checksum is {digest}, not {checksum}")
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")
            for source, target in files.items():
                copied = shutil.copytree if source.endswith("/") else shutil.copyfile
                copied(Path(place) / "package" / source, folder / target)
    module = folder / "duckdb-browser.mjs"
    text = module.read_text(encoding="utf-8").replace('from"apache-arrow"', 'from"./arrow.mjs"')
    module.write_text(text.partition("//# sourceMappingURL")[0], encoding="utf-8")
    (folder / "arrow.mjs").write_text(ARROW, encoding="utf-8")


def write_data(page: Path, dialects: tuple[str, ...] = ()) -> None:
    """Write the catalogue and the demo's data, and weigh the page.

    Args:
        page: Its folder.
        dialects: Those of the texts to copy; empty for all.

    Raises:
        ValueError: If the page is too large.
    """
    sys.path.insert(0, str(FOLDER))
    from catalogue import catalogue

    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it cannot say is refused
    data = {
        "catalogue": catalogue(dialects) if dialects else catalogue(),
        "demo": demo(),
    }
    for name, content in data.items():
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (page / f"{name}.bin").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    for source in ("words.toml", "facts.sql"):
        (page / source).unlink(missing_ok=True)
    sizes = {file.name: file.stat().st_size for file in page.iterdir() if file.is_file()}
    if sum(sizes.values()) > LARGEST:
        raise ValueError(f"the page has more than {LARGEST:,} bytes: {sizes}")


def demo(queries: int = 120) -> dict[str, str]:
    """The demo's last day, of some queries, as two texts of CSV."""
    import duckdb

    from sqlmetrics.cli.demo import make_log

    rankings, labels = make_log()
    with duckdb.connect() as connection:
        connection.register("all_rankings", rankings)
        connection.register("all_labels", labels)
        connection.execute(
            "create table rankings as select system, query_id, item_id, score from all_rankings "
            "where ds = (select max(ds) from all_rankings) qualify "
            f"dense_rank() over (order by query_id) <= {queries}"
        )
        connection.execute(
            "create table labels as select query_id, item_id, grade from all_labels "
            "where query_id in (select query_id from rankings)"
        )
        texts = {}
        for table in ("rankings", "labels"):
            cursor = connection.execute(f"select * from {table}")
            names = [column[0] for column in cursor.description]
            rows = [",".join(map(str, row)) for row in cursor.fetchall()]
            texts[table] = "\n".join([",".join(names), *rows, ""])
    return texts
