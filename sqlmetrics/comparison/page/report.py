"""`report`: the page of a spec, two files, a result, a comparison or a click log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from sqlmetrics.comparison.page import page
from sqlmetrics.comparison.page.averages import days, deltas, means, scatter, segments, trend
from sqlmetrics.comparison.page.content import Content, Words
from sqlmetrics.comparison.page.differences import contributions, slices, verdicts
from sqlmetrics.comparison.page.lists import (
    bounds,
    curves,
    funnel,
    judged,
    precision_recall,
    relevant,
    ties,
    tools,
)
from sqlmetrics.comparison.page.log_pictures import (
    cleaning,
    examination,
    first,
    movers,
    offline_online,
    positions,
    rates,
)
from sqlmetrics.comparison.page.page import fragment, headline, page_html
from sqlmetrics.comparison.page.picture import Picture, can_draw, import_drawing
from sqlmetrics.engines.output_files import (
    has_mark,
    output_file,
    output_folder,
    refuse_input,
    writing_to,
)
from sqlmetrics.errors import SpecError

MARK = b"sqlmetrics report"
"""Every file says it somewhere; one that does not is somebody's own, and is left alone."""

ENDINGS = (".html", ".md", ".tex", ".txt", ".png", ".svg")

MAKERS: tuple[Callable[[Content, Words], Picture | None], ...] = (
    verdicts,
    means,
    rates,
    deltas,
    movers,
    days,
    trend,
    curves,
    slices,
    segments,
)
"""The pictures before the waterfalls of segments."""

LATER: tuple[Callable[[Content, Words], Picture | None], ...] = (
    scatter,
    relevant,
    first,
    precision_recall,
    judged,
    bounds,
    ties,
    cleaning,
    positions,
    examination,
    offline_online,
    tools,
)


@dataclass(frozen=True, repr=False)
class Report:
    """A report; it prints as text, and as a page in a notebook.

    Attributes:
        content: The numbers of the report.
        language: `en` or `zh`.
    """

    content: Content
    language: str = "en"

    @cached_property
    def words(self) -> Words:
        """The words of its language."""
        return Words(self.language)

    @cached_property
    def pictures(self) -> list[Picture]:
        """What is drawn, in order."""
        return pictures(self.content, self.words)

    @property
    def headline(self) -> str:
        """The verdict, in one sentence or a few."""
        return " ".join(headline(self.content, self.words))

    @cached_property
    def html(self) -> str:
        """One page, which loads nothing.

        Raises:
            SpecError: If the extra `report` is not installed.
        """
        import_drawing()
        return page_html(self.content, self.pictures, self.words, _version())

    @property
    def markdown(self) -> str:
        """The verdict, and the numbers behind each chart as tables."""
        return page.markdown(self.content, self.pictures, self.words)

    @property
    def latex(self) -> str:
        """The differences, or the means, as a LaTeX table."""
        return page.latex(self.pictures, self.words)

    @property
    def text(self) -> str:
        """Text for a terminal: the verdict, tables and sparklines."""
        return page.text(self.content, self.pictures, self.words)

    def plot(self, name: str) -> Picture:
        """One chart by its name, such as `verdicts`.

        Raises:
            SpecError: If the report has no chart of this name.
        """
        return page.find_picture(self.pictures, name)

    def charts(self) -> Mapping[str, dict[str, object]]:
        """Name -> the Vega-Lite specification of each chart."""
        return {picture.key: picture.chart.spec(self.words) for picture in self.pictures}

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the report; the ending decides the format: .html, .md, .tex, .txt, .png, .svg.

        Args:
            path: The file; PNG and SVG files show the first chart.
            overwrite: Whether to replace a file that no report wrote, too.

        Raises:
            SpecError: If the ending is unknown, a file that no report wrote is in the way, or the
                extra `report` is needed but not installed.
        """
        file = Path(path)
        save(file, self._bytes(file), overwrite=overwrite)
        return file

    def save_charts(self, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write the Vega-Lite specification of each chart into a folder, as JSON.

        Args:
            folder: The folder, created if it does not exist.
            overwrite: Whether to replace files of these names that are not charts, too.

        Raises:
            SpecError: If a file that no report wrote is in the way.
        """
        names = {f"{picture.key}.vl.json": picture for picture in self.pictures}
        with output_folder(folder, overwrite=overwrite, is_ours=has_mark(MARK)) as staging_folder:
            for name, picture in names.items():
                (staging_folder / name).write_bytes(picture.chart.as_file(".json", self.words))
        return [Path(folder) / name for name in names]

    def save_plot(self, name: str, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write one chart: .svg, .png, or .json for its Vega-Lite specification.

        Args:
            name: The name of the chart.
            path: The file.
            overwrite: Whether to replace a file that no report wrote, too.

        Raises:
            SpecError: The errors of `save`, or if there is no such chart.
        """
        file, picture = Path(path), self.plot(name)
        content = picture.chart.as_file(file.suffix.casefold(), self.words)
        save(file, content, overwrite=overwrite)
        return file

    def _bytes(self, file: Path) -> bytes:
        check_ending(file)
        ending = file.suffix.casefold()
        if ending in (".png", ".svg"):
            first = self.pictures[0].key if self.pictures else ""
            return self.plot(first).chart.as_file(ending, self.words)
        texts = {
            ".html": lambda: self.html,
            ".md": lambda: f"<!-- sqlmetrics report -->\n{self.markdown}",
            ".tex": lambda: f"% sqlmetrics report\n{self.latex}",
            ".txt": lambda: f"{self.text}\n\nsqlmetrics report\n",
        }
        return texts[ending]().encode()

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if not can_draw():
            return f"<pre>{escape(self.text)}</pre>"
        return fragment(self.content, self.pictures, self.words, _version())


def check_ending(file: Path) -> None:
    """Raise SpecError for a file whose ending is no format of a report."""
    if file.suffix.casefold() not in (*ENDINGS, ".json"):
        raise SpecError(
            f"{str(file)!r}: a report needs a name that ends in one of {', '.join(ENDINGS)}"
        )


def refuse_foreign(file: Path, *, overwrite: bool) -> None:
    """Raise SpecError for a file that no report wrote, or that nothing may replace."""
    refuse_input(file)
    if not overwrite and file.is_file() and not has_mark(MARK)(file, file):
        raise SpecError(
            f"{str(file)!r} already exists and was not written by sqlmetrics; give another name "
            "(--out), or --overwrite"
        )


def save(file: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file of a report, or a picture.

    Raises:
        SpecError: If a file that no report wrote is in the way.
    """
    refuse_foreign(file, overwrite=overwrite)
    with writing_to(file.parent), output_file(file, overwrite=True) as staging_file:
        staging_file.write_bytes(content)


def _version() -> str:
    import sqlmetrics

    return sqlmetrics.__version__


def pictures(content: Content, words: Words) -> list[Picture]:
    """The pictures of a report in their order; one that has nothing to say is not there.

    Args:
        content: The numbers.
        words: The language.
    """
    before = (make(content, words) for make in MAKERS)
    after = (make(content, words) for make in LATER)
    return [
        *(picture for picture in before if picture is not None),
        *contributions(content, words),
        *funnel(content, words),
        *(picture for addition in content.additions for picture in addition.pictures(words)),
        *(picture for picture in after if picture is not None),
    ]
