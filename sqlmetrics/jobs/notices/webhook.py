"""What a webhook is told of a run or a check that failed: generic JSON, or as a chat wants it."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sqlmetrics.errors import (
    MASK,
    SpecError,
    keep_secret,
    masked,
    masked_values,
    shortened,
    unknown,
)

# What is sent to a server over HTTP, and why it was not taken.

TIMEOUT = 10.0
"""So many seconds a server has for each step of its answer."""

LARGEST = 10_000_000
"""So many bytes of an answer are read."""

HEADERS = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "sqlmetrics"}


class _Stays(HTTPRedirectHandler):
    """What is sent goes where it was sent, and nowhere else."""

    def redirect_request(self, *_: Any) -> None:
        """None is followed."""
        return


def send(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    most: int = LARGEST,
) -> bytes:
    """What a server answers to JSON.

    Args:
        method: GET, POST or another.
        url: Where it goes.
        body: What is sent.
        headers: Beside the usual ones.
        most: How many bytes of the answer are read; 0 where that it was taken is enough.

    Raises:
        HTTPError: If it answers with an error; a redirect is one, since headers hold tokens.
        OSError: If it cannot be reached. Whatever else a server or a proxy does is raised as well.
    """
    request = Request(url, body, {**HEADERS, **(headers or {})}, method=method)  # noqa: S310 (http)
    with build_opener(_Stays).open(request, timeout=TIMEOUT) as answer:
        content: bytes = answer.read(most)
    return content


def reason(error: Exception) -> str:
    """Why `send` raised it, in words of a sentence that begins with the server."""
    if isinstance(error, HTTPError):
        error.close()
        return f"it answers {error.code} {error.reason}".strip()
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no answer within {TIMEOUT:.0f} s"
    return shortened(str(cause) or type(cause).__name__, 200)


ATTEMPTS = 2
"""So often it is tried, where the server fails or does not answer."""

NAMED_CHECKS = 10
"""As many failed checks a message in a chat names."""

JSON, SLACK, TEAMS = "json", "slack", "teams"

HOSTS = {
    SLACK: ("hooks.slack.com", "hooks.slack-gov.com"),
    TEAMS: (
        *("webhook.office.com", "logic.azure.com", "powerplatform.com", "powerautomate.com"),
        "webhook.office365.com",
    ),
}
"""Shape -> the hosts whose webhooks take it, and all hosts below them."""

LONGEST_PART = 8
"""A part of a path, or a value of a query, that is as long may be a secret."""


@dataclass(frozen=True)
class Webhook:
    """Where messages are posted; its text has no secrets.

    Attributes:
        url: The address, which is the secret.
        shape: `json`, `slack` or `teams`.
    """

    url: str
    shape: str

    @classmethod
    def of(cls, text: str, option: str = "--webhook") -> Webhook:
        """The webhook that a text names.

        Args:
            text: A URL; `slack+`, `teams+` or `json+` before it names the shape, which the host
                tells otherwise.
            option: Where it was given.

        Raises:
            SpecError: If it is none.
        """
        text = text.strip()
        name, plus, address = text.partition("+")
        has_name = bool(plus) and "://" not in name
        url = address if has_name else text
        parts = _split(url)
        if parts is None:
            raise SpecError(
                f"{option} must be a URL that begins with https:// or http://; put slack+, teams+ "
                "or json+ in front if the host does not say which it is"
            )
        for secret in (url, *_secrets(url)):
            keep_secret(secret)
        if has_name and name.casefold() not in (JSON, SLACK, TEAMS):
            raise SpecError(f"{option}: {unknown('shape', name, (JSON, SLACK, TEAMS))}")
        host = (parts.hostname or "").casefold()
        of_host = (
            shape
            for shape, hosts in HOSTS.items()
            if any(host == domain or host.endswith(f".{domain}") for domain in hosts)
        )
        return cls(url, name.casefold() if has_name else next(of_host, JSON))

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}/{MASK}"

    def post(self, message: Mapping[str, Any]) -> str:
        """Post a message.

        Args:
            message: As `failed_message` has it.

        Returns:
            Why it was not taken; empty if it was. It raises nothing.
        """
        shaped = masked_values(dict(message))
        if self.shape != JSON:
            shaped = (_slack if self.shape == SLACK else _teams)(shaped)
        body = json.dumps(shaped, ensure_ascii=False).encode()
        failure = ""
        for _ in range(ATTEMPTS):
            failure, is_final = self._posted(body)
            if is_final:
                break
        return masked(failure)

    def _posted(self, body: bytes) -> tuple[str, bool]:
        """Why a body was not taken, and whether there is no sense in another attempt."""
        try:
            send("POST", self.url, body, most=0)
        except Exception as error:  # whatever a server or a proxy does, the run has its own end
            return reason(error), isinstance(error, HTTPError) and error.code < 500
        return "", True


def failed_message(
    spec: str,
    exit_code: int,
    message: str,
    checks: Sequence[Mapping[str, Any]] = (),
    summary: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What is told of a run or a check that failed, as plain values.

    Args:
        spec: The spec's name, or its file where it cannot be read.
        exit_code: That of the command.
        message: Why; empty where checks failed.
        checks: The verdicts of checks that failed, as `check -o json` has them.
        summary: What else is known of the run, as its summary has it.
    """
    from sqlmetrics import __version__

    return {
        **(summary or {}),
        "event": "checks_failed" if checks and not message else "run_failed",
        "spec": spec,
        "exit_code": exit_code,
        "message": message or None,
        "checks": list(checks),
        "host": socket.gethostname(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "sqlmetrics": __version__,
    }


def _title(message: Mapping[str, Any]) -> str:
    n_checks = len(message["checks"])
    outcome = "the run failed"
    if message["event"] == "checks_failed":
        outcome = f"{n_checks:,} checks failed" if n_checks > 1 else "a check failed"
    return f"{message['spec']}: {outcome} (exit code {message['exit_code']})"


def _lines(message: Mapping[str, Any]) -> list[str]:
    """What a person reads below the title."""
    lines = [message["message"]] if message["message"] else []
    checks = message["checks"]
    lines += [_check(check) for check in checks[:NAMED_CHECKS]]
    if len(checks) > NAMED_CHECKS:
        lines.append(f"... and {len(checks) - NAMED_CHECKS:,} more")
    days = [str(message[end]) for end in ("start", "end") if message.get(end)]
    where = [message["host"], message.get("database") or "", " until before ".join(days)]
    return [*lines, ", ".join(filter(None, where))]


def _check(check: Mapping[str, Any]) -> str:
    names = ("what", "rule", "system", "segment", "day")
    subject = " ".join(str(check[name]) for name in names if check.get(name))
    failure = check.get("failure") or {}
    return str(failure.get("text") or f"{subject}: {check.get('note') or check.get('value')}")


def _slack(message: Mapping[str, Any]) -> dict[str, Any]:
    """As Slack takes it: one text, in which three characters are written otherwise."""
    lines = [f"*{_title(message)}*", *_lines(message)]
    text = "\n".join(lines)
    for plain, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return {"text": shortened(text, 3_000)}


def _teams(message: Mapping[str, Any]) -> dict[str, Any]:
    """As Teams takes it: a message with an adaptive card."""
    texts = [{"text": _title(message), "weight": "bolder"}]
    texts += [{"text": shortened(line)} for line in _lines(message)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "TextBlock", "wrap": True, **text} for text in texts],
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {
        "type": "message",
        "attachments": [{"contentType": kind, "contentUrl": None, "content": card}],
    }


def _split(url: str) -> Any:
    """The parts of a URL of a server; None if it is none."""
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("https", "http") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_one else None


def _secrets(url: str) -> list[str]:
    """What of a URL nobody may read: its path and query, and long parts of them alone."""
    parts = urlsplit(url)
    behind = url.partition(parts.netloc)[2].lstrip("/")
    pieces = [
        *parts.path.split("/"),
        *(parameter.partition("=")[2] for parameter in parts.query.split("&")),
    ]
    return [
        behind,
        *(piece for piece in pieces if len(piece) >= LONGEST_PART),
        parts.password or "",
    ]
