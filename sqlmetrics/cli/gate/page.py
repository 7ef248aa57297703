"""What a gate says, as Markdown: a headline, the numbers, the queries that moved, the SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from html import escape
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from sqlmetrics import __version__
from sqlmetrics.cli.gate.revisions import Revision
from sqlmetrics.errors import CheckError
from sqlmetrics.plan.summary import ALL
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    from sqlmetrics.comparison.report.comparison import Comparison
    from sqlmetrics.evaluation.report.failure import Failure
    from sqlmetrics.evaluation.report.result import Result

NO_SPACE = "\u200b"
"""Behind an @ it keeps a word from being a mention of a person."""

LONGEST_DIFF = 150
"""As many lines of a difference of SQL are shown."""


@dataclass(frozen=True)
class Rankings:
    """What came of the rankings.

    Attributes:
        comparison: The branch beside its base.
        failure: What the gate does not let through.
        result: The branch by itself, where its base has nothing to compare with.
        error: Why there are no numbers.
        notes: Sentences about the files.
    """

    comparison: Comparison | None = None
    failure: CheckError | None = None
    result: Result | None = None
    error: str = ""
    notes: Sequence[str] = ()

    def outcome(self, base: str) -> str:
        """What came of it, in words; `base` is what the base is called."""
        if self.error:
            return "no numbers"
        if self.comparison is None:
            return f"{base} has nothing to compare with"
        rows = self.comparison.rows
        verdicts = {row["verdict"] for row in rows}
        of_all = {row["verdict"] for row in rows if row["segment_name"] == ALL}
        if "worse" in verdicts:
            return f"{'worse' if 'worse' in of_all else 'worse in part'} than {base}"
        if self.failure:
            return f"not better than {base}"
        if "better" in verdicts:
            return f"{'better' if 'better' in of_all else 'better in part'} than {base}"
        same = "as good as" if verdicts == {"equivalent"} else "no real difference from"
        return f"{same} {base}"


@dataclass(frozen=True)
class SpecChange:
    """What a branch does to a spec.

    Attributes:
        file: The spec.
        before: Its SQL in the base; None if it is not there, empty if it cannot be read.
        after: Its SQL in the branch; None if it was removed.
        error: What is wrong with it in the branch.
    """

    file: str
    before: str | None = None
    after: str | None = None
    error: str = ""


@dataclass(frozen=True)
class Page:
    """The comment.

    Attributes:
        title: What the gate is called; several on one request have several titles.
        base: The revision that is compared with.
        branch: The revision of the request.
        rankings: What came of the rankings, if there are any.
        specs: What the branch does to specs.
    """

    title: str
    base: Revision
    branch: Revision
    rankings: Rankings | None = None
    specs: Sequence[SpecChange] = field(default=())

    @property
    def marker(self) -> str:
        """The line by which the comment is found again; a reader does not see it."""
        return f"<!-- sqlmetrics gate: {quote(self.title, safe=' ')} -->"

    @property
    def outcome(self) -> str:
        """What came of it, in words that follow the title."""
        words = [self.rankings.outcome(self.base.name)] if self.rankings else []
        total = many(len(self.specs), "spec")
        n_broken = sum(bool(spec.error) for spec in self.specs)
        n_changed = sum(not spec.error and spec.before != spec.after for spec in self.specs)
        if n_broken:
            words.append(f"{n_broken} of {total} cannot be read")
        if n_changed or not words:
            words.append(f"the SQL of {n_changed} of {total} changes")
        return "; ".join(words)

    @property
    def has_failed(self) -> bool:
        """Whether the request is not let through."""
        rankings = self.rankings
        is_red = rankings is not None and bool(rankings.error or rankings.failure)
        return is_red or any(spec.error for spec in self.specs)

    def markdown(self) -> str:
        """The whole comment; nothing in it mentions a person or runs."""
        has_no_base = self.rankings is not None and self.rankings.result is not None
        mark = "❌" if self.has_failed else "⚠️" if has_no_base else "✅"
        blocks = [f"### {mark} {_plain(self.title)}: {_plain(self.outcome)}"]
        blocks += self._ranking_blocks()
        blocks += [block for spec in self.specs for block in _spec_blocks(spec)]
        blocks.append(
            f"<sub>{_plain(self.base.name)} at {self.base.commit}, this branch at "
            f"{self.branch.commit}, sqlmetrics {__version__}</sub>"
        )
        text = re.sub(r"(?<!\w)@(?=\w)", f"@{NO_SPACE}", "\n\n".join(filter(None, blocks)))
        return f"{self.marker}\n{text}\n"

    def _ranking_blocks(self) -> Iterator[str]:
        from sqlmetrics.comparison.report.text import sections

        rankings = self.rankings
        if rankings is None:
            return
        if rankings.error:
            yield _fenced(rankings.error)
        if rankings.result is not None:
            yield rankings.result.markdown()
        if rankings.comparison is not None:
            comparison = rankings.comparison
            failures = cast(
                "Sequence[Failure]", rankings.failure.failures if rankings.failure else ()
            )
            texts = [str(failure) for failure in failures]
            failed = {failure.metric for failure in failures if not failure.segment}
            texts += [
                row["sentence"]
                for row in comparison.rows
                if row["segment_name"] == ALL and row["metric"] not in failed
            ]
            yield "\n".join(f"- {_plain(text)}" for text in texts)
            yield replace(comparison, movers=()).markdown()
            if moved := [table.markdown() for table in sections(comparison)]:
                yield _folded("The queries that moved most", "\n\n".join(moved))
        yield "\n".join(f"- {_plain(note)}" for note in rankings.notes)


def _spec_blocks(spec: SpecChange) -> Iterator[str]:
    """What a branch does to a spec: a line, and what differs."""
    file = f"`{spec.file.replace('`', '')}`"
    if spec.error:
        yield f"{file} cannot be read:"
        yield _fenced(spec.error)
    elif spec.after is None:
        yield f"{file} is removed; the rows of its tables stay until `sqlmetrics retire`."
    elif spec.before is None:
        yield _folded(f"{file} is new: its SQL", _fenced(spec.after, "sql"))
    elif spec.before == spec.after:
        yield f"{file}: the same SQL."
    else:
        texts = spec.before.splitlines(), spec.after.splitlines()
        _, _, *lines = unified_diff(*texts, lineterm="")
        more = len(lines) - LONGEST_DIFF
        lines = lines[:LONGEST_DIFF] + [f"... and {more:,} more lines"] * (more > 0)
        yield _folded(f"{file} changes its SQL", _fenced("\n".join(lines), "diff"))


def _folded(title: str, body: str) -> str:
    summary = re.sub("`(.*?)`", r"<code>\1</code>", escape(title, quote=False))
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str, language: str = "text") -> str:
    """A text as it is; its fence is longer than any in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _plain(text: str) -> str:
    """A text that Markdown shows as it is, on lines of a list."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escape(text, quote=False)).replace("\n", "<br>")
