"""What is sent to a server over HTTP, and why it was not taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sqlmetrics.errors import shortened

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
