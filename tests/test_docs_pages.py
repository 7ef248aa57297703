"""The tutorial, the how-to and concept pages do what they say, from nothing; the site has all."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from test_docs import OWN_STATE, ROOT
from walked import FENCE, printed

DOCS = ROOT / "docs"


@pytest.mark.parametrize("page", OWN_STATE, ids=lambda page: page.stem)
def test_a_page_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    now = printed(text, tmp_path)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        page.write_text(now, encoding="utf-8")
    else:
        assert text == now


def test_blocks_that_are_not_run_can_be_read() -> None:
    """Of other programs: their grammar at least."""
    for page in OWN_STATE:
        for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
            if language == "yaml":
                yaml.safe_load(body)
            if language == "py":
                compile(body, page.name, "exec")


def test_every_page_has_a_place_on_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"[\w./-]+\.md", site.partition("\nnav:")[2])
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
