"""Beside the pages of the site: each page as Markdown, llms.txt, and the JSON schema of specs.

mkdocs runs `on_post_build`; see `hooks` in mkdocs.yml.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "sqlmetrics" / "spec" / "spec.schema.json"
HEAVIEST = 1_000_000
"""So many bytes a page and all that it needs to be read may have; its search is loaded later."""

Pages = list[tuple[str, list[tuple[str, str]]]]
"""Section -> title and file of each page, in the order of the navigation."""


def on_post_build(config: Any, **_: object) -> None:
    """Write the files, and weigh the pages.

    Raises:
        ValueError: If a page is heavier than HEAVIEST.
    """
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    pages = sections(config["nav"])
    for _, files in pages:
        for _, file in files:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(docs / file, target)
    text = index(pages, docs, config["site_name"], config["site_description"])
    (site / "llms.txt").write_text(text, encoding="utf-8")
    schema = site / schema_path()
    schema.parent.mkdir(parents=True, exist_ok=True)
    schema.write_text(published_schema(config["site_url"] or ""), encoding="utf-8")
    heavy = {page: size for page, size in weights(site).items() if size > HEAVIEST}
    if heavy:
        raise ValueError(f"pages above {HEAVIEST:,} bytes: {heavy}")


def sections(nav: list[Any], section: str = "Start") -> Pages:
    """The pages of a navigation by their sections; a page without one is of the first.

    A page that has no title there is called by its heading.
    """
    by_section: dict[str, list[tuple[str, str]]] = {}
    for entry in nav:
        if isinstance(entry, str):
            entry = {"": entry}  # noqa: PLW2901
        ((title, content),) = entry.items()
        if isinstance(content, str):
            by_section.setdefault(section, []).append((title, content))
            continue
        for name, files in sections(content, title):
            by_section.setdefault(name, []).extend(files)
    return list(by_section.items())


def index(pages: Pages, docs: Path, name: str, about: str) -> str:
    """llms.txt: each page in a line, with the sentence that it begins with."""
    lines = [f"# {name}", "", f"> {about}"]
    for section, files in pages:
        lines += ["", f"## {section}", ""]
        for title, file in files:
            page = (docs / file).read_text(encoding="utf-8")
            heading = title or page.partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{heading}]({file}): {first_sentence(page)}")
    return "\n".join(lines) + "\n"


def first_sentence(page: str) -> str:
    """The first sentence of the first paragraph, without marks of Markdown."""
    blocks = re.sub(r"^```.*?^```$|<[^>]+>", "", page, flags=re.DOTALL | re.MULTILINE)
    paragraphs = [" ".join(block.split()) for block in blocks.split("\n\n")]
    said = (text for text in paragraphs if _SENTENCES.match(text) and not _NO_SENTENCE.match(text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", next(said, "")).replace("**", "")
    text = re.sub(r"^(`preset: \w+`|Context)\. ", "", text)
    sentence = re.match(r"(?:`[^`]*`|[^`])*?[.?!](?=\s|$)", text)
    return sentence[0] if sentence else text.rstrip(":")


_SENTENCES = re.compile(r"[\w`*\[\"(]")
_NO_SENTENCE = re.compile(r"(?:Status: )?[Aa]ccepted\b.{0,40}$|`[^`]*`\.?$")
"""The state of an ADR, and a name alone."""


def schema_path() -> str:
    """Where the schema is: below its minor version, which says what it takes."""
    init = (ROOT / "sqlmetrics" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(\d+\.\d+)', init, re.MULTILINE)
    return f"schema/{version}/spec.json"


def published_schema(url: str) -> str:
    """The schema; with its address, where the site has one."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    head = {"$schema": schema["$schema"]}
    address = {"$id": urljoin(url, schema_path())} if url else {}
    return json.dumps(head | address | schema, ensure_ascii=False, indent=2) + "\n"


def weights(site: Path) -> dict[str, int]:
    """Bytes of each page with its styles, scripts and pictures."""
    return {
        str(page.relative_to(site)): sum(
            file.stat().st_size for file in {page, *needed(page, site)} if file.is_file()
        )
        for page in site.rglob("*.html")
    }


def needed(page: Path, site: Path) -> Iterator[Path]:
    """The files that a page loads as it opens."""
    text = page.read_text(encoding="utf-8")
    tags = re.findall(r'<(?:img|script|source)\b[^>]*\bsrc(?:set)?="([^"]+)"', text)
    tags += re.findall(r'<link\b[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
    for address in tags:
        path = unquote(address.partition("?")[0])
        yield (site / path[1:] if path.startswith("/") else page.parent / path).resolve()
