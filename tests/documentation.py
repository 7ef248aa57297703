"""Where the docs are, and what their blocks need."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
SELF_CONTAINED = [page for page in PAGES if page.parent.name in ("how-to", "concepts")]
SELF_CONTAINED += [
    ROOT / "docs" / "tutorial.md",
    ROOT / "docs" / "compare.md",
    ROOT / "docs" / "foretell.md",
    ROOT / "docs" / "track.md",
    ROOT / "docs" / "counterfactual.md",
    ROOT / "docs" / "counterfactual-policies.md",
    ROOT / "README.md",
]
"""Pages that make what they need: test_docs_pages runs them from an empty folder."""
