"""`-o json`, `--out`, `--openlineage` and `--webhook`: to whom a run, or its failure, is told."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import overwrite_option, overwrites, say
from sqlmetrics.cli.location import PLACES, Location
from sqlmetrics.cli.options import OUTPUT, decorate, option
from sqlmetrics.cli.output import write
from sqlmetrics.engines.output_files import check_output, writing
from sqlmetrics.errors import NoDataError, SpecError, SqlmetricsError, masked_values

if TYPE_CHECKING:
    from sqlmetrics.jobs.checks.verdict import Verdict
    from sqlmetrics.jobs.notices.events import Lineage
    from sqlmetrics.jobs.notices.webhook import Webhook
    from sqlmetrics.jobs.summary import Summary

API_KEY = "OPENLINEAGE_API_KEY"

VARIABLE = "SQLMETRICS_WEBHOOK"

NO_DATA = NoDataError.exit_code


@dataclass(frozen=True)
class Recipients:
    """To whom a run is told.

    Attributes:
        output: `text`, or `json` for a summary on stdout.
        out: The file that the summary is written to instead.
        openlineage: The file to which events are added, or the URL that they are sent to.
    """

    output: str = "text"
    out: str | None = None
    openlineage: str | None = None

    @property
    def is_asked(self) -> bool:
        """Whether anything is to be told."""
        return self.output == "json" or bool(self.out or self.openlineage)

    @contextmanager
    def hear_of(self, summary: Summary, location: Location) -> Iterator[None]:
        """Tell of a run when it begins, and when it has ended, in whichever way.

        Raises:
            SpecError: If a file is there that is not ours.
            EngineError: If a file cannot be written.
        """
        self._check(summary)
        lineage = self._lineage(summary, location)
        self._send(lineage, "START", summary)
        try:
            yield
        except SqlmetricsError as error:
            summary.fail(error)
            self._send(lineage, "FAIL", summary)
            raise
        else:
            self._send(lineage, "COMPLETE", summary)
        finally:
            self._print(summary)

    def _check(self, summary: Summary) -> None:
        """Refuse files of others before anything is done."""
        if self.out is not None:
            check_output(self.out, json.dumps(summary.to_dict()).encode(), overwrite=overwrites())
        if self.openlineage and "://" not in self.openlineage:  # events are added, none replaced
            check_output(self.openlineage, b'{"eventType": 1, "eventTime": 1, "producer": 1}')

    def _lineage(self, summary: Summary, location: Location) -> Lineage | None:
        if self.openlineage is None:
            return None
        from sqlmetrics.jobs.notices.events import Lineage

        if not self.openlineage.strip():
            raise SpecError("--openlineage has no value; give a URL or a file")
        if "://" in self.openlineage:
            _transport(self.openlineage)
        return Lineage(summary.spec, location.url, str(uuid.uuid4()))

    def _send(self, lineage: Lineage | None, kind: str, summary: Summary) -> None:
        """An event to where events go; a server that does not answer fails no run."""
        if lineage is None or self.openlineage is None:
            return
        event = masked_values(lineage.event(kind, summary))
        if "://" not in self.openlineage:
            with writing(self.openlineage), Path(self.openlineage).open("a", encoding="utf-8") as f:
                f.write(json.dumps(event, ensure_ascii=False) + "\n")
            return
        try:
            _transport(self.openlineage).emit(event)
        except Exception as error:  # the client raises what its libraries do
            say(f"note: {self.openlineage} did not take the event {kind}: {error}")

    def _print(self, summary: Summary) -> None:
        if self.output != "json" and self.out is None:
            return
        text = json.dumps(masked_values(summary.to_dict()), ensure_ascii=False, indent=2)
        write(f"{text}\n", self.out)


def _transport(url: str) -> Any:
    """What posts events.

    Raises:
        SpecError: If its package is not installed.
    """
    try:
        from openlineage.client.transport.http import HttpConfig, HttpTransport
    except ImportError:
        raise SpecError(
            "--openlineage URL needs openlineage-python: pip install 'sqlmetrics[openlineage]'; "
            "a file needs nothing"
        ) from None
    key = os.environ.get(API_KEY)
    auth = {"auth": {"type": "api_key", "apiKey": key}} if key else {}
    return HttpTransport(HttpConfig.from_dict({"url": url, "retry": {"total": 2}, **auth}))


def recipient_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say to whom a run is told: `output`, `out` and `openlineage`."""
    return decorate(command, *_OPTIONS)


RECIPIENTS = ("output", "out", "openlineage")
"""The names of these options."""

_OPTIONS = (
    option(
        "-o",
        "--output",
        type=click.Choice(("text", "json")),
        default="text",
        help="Format of the summary; json also reports a failed run.",
        heading=OUTPUT,
    ),
    option("--out", metavar="FILE", help="File for the summary as JSON.", heading=OUTPUT),
    overwrite_option,
    option(
        "--openlineage",
        metavar="FILE|URL",
        help="File or URL for OpenLineage events.",
        heading=OUTPUT,
    ),
)


@dataclass
class Alert:
    """Whom a failure is told, and what is known of it.

    Attributes:
        webhook: Where `--webhook` sends it; None without.
        location: Whose profile may name another.
        spec: The spec, or its file until it is read.
        summary: What a run has done.
        verdicts: What a check found.
    """

    webhook: Webhook | None
    location: Location
    spec: str
    summary: Summary | None = None
    verdicts: Sequence[Verdict] = ()

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Tell of a failure of the block, however it ends; a check that fails exits with 1."""
        try:
            yield
        except SqlmetricsError as error:
            if error.exit_code != NO_DATA:  # it may be there later, and the scheduler asks again
                self._post(error.exit_code, str(error))
            raise
        except KeyboardInterrupt:
            from sqlmetrics.jobs.run import STOPPED

            self._post(130, STOPPED)
            raise
        except SystemExit as end:
            if end.code == 1:
                self._post(1, "")
            raise

    def _post(self, exit_code: int, message: str) -> None:
        webhook = self.webhook or self._of_profile()
        if webhook is None:
            return
        from sqlmetrics.jobs.notices.webhook import failed_message

        failed = [verdict for verdict in self.verdicts if verdict.status == "FAILED"]
        event = failed_message(
            self.summary.spec.title if self.summary else self.spec,
            exit_code,
            message,
            [verdict.to_dict() for verdict in failed],
            self.summary.to_dict() if self.summary else None,
        )
        if reason := webhook.post(event):
            say(
                f"note: the webhook {webhook} did not get the message: {reason}",
                "webhook",
                "warning",
            )
        else:
            say(f"told {webhook}", "webhook")

    def _of_profile(self) -> Webhook | None:
        """That of the target of profiles.yml; None where it has none."""
        from sqlmetrics.engines.url import WEBHOOK
        from sqlmetrics.jobs.notices.webhook import Webhook

        try:
            text = self.location.url.options.get(WEBHOOK)
        except SpecError:  # which the command says itself
            return None
        try:
            return Webhook.of(str(text), "webhook of profiles.yml") if text else None
        except SpecError as error:
            say(f"note: no webhook is told: {error}", "webhook", "warning")
            return None


def alerting(command: Callable[..., None]) -> Callable[..., None]:
    """`--webhook`; the command is handed an `alert`, and fills in what it knows."""

    @wraps(command)
    def called(*, webhook: str | None, **options: Any) -> None:
        location = options.get("location")
        if location is None:
            location = Location(**{name: options[name] for name in PLACES}, spec=options["spec"])
        hook = None
        if webhook is not None:
            from sqlmetrics.jobs.notices.webhook import Webhook

            hook = Webhook.of(webhook)
        alert = Alert(hook, location, Path(options["spec"]).name)
        with alert.hearing():
            command(alert=alert, **options)

    return option(
        "--webhook",
        metavar="URL",
        envvar=VARIABLE,
        help="Webhook that is told of a failed run or check: Slack, Teams or any JSON receiver.",
        heading=OUTPUT,
    )(called)
