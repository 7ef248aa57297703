"""A comment on a pull request of GitHub or a merge request of GitLab, updated in place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from sqlmetrics.errors import keep_secret, masked
from sqlmetrics.jobs.notices.server import reason, send

LONGEST = 60_000
"""As many characters has a comment at the most; GitHub takes 65,536."""

PER_PAGE = 100


@dataclass(frozen=True)
class Thread:
    """Where the comments of a request are.

    Attributes:
        title: What people call it.
        url: Of its comments.
        comment_url: Of one of them, without its id.
        headers: What says who asks.
        method: How a comment is changed.
    """

    title: str
    url: str
    comment_url: str
    headers: Mapping[str, str]
    method: str

    def write(self, text: str, marker: str) -> str:
        """Write a comment, or change the one that begins with the marker.

        Returns:
            Why that was not possible; empty if it was.
        """
        body = {"body": _bounded(text)}
        try:
            comments = (c for c in self._comments() if str(c.get("body", "")).startswith(marker))
            if comment := next(comments, None):
                self._send(self.method, f"{self.comment_url}/{comment['id']}", body)
            else:
                self._send("POST", self.url, body)
        except Exception as error:  # whatever a server or a proxy does, the gate has its own end
            is_denied = isinstance(error, HTTPError) and error.code in (401, 403)
            hint = "; the token may only read, as in a request from a fork" * is_denied
            return masked(f"{self.title}: {reason(error)}{hint}")
        return ""

    def _comments(self) -> Iterator[dict[str, Any]]:
        for page in count(1):
            comments = self._send("GET", f"{self.url}?per_page={PER_PAGE}&page={page}")
            yield from comments
            if len(comments) < PER_PAGE:
                return

    def _send(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return json.loads(send(method, url, data, self.headers) or b"null")


def thread(environment: Mapping[str, str]) -> Thread | str:
    """The comments of the request that a job runs for; why there are none."""
    for platform in (_github, _gitlab):
        if answer := platform(environment):
            return answer
    return "this is not a job of GitHub or GitLab"


def _github(environment: Mapping[str, str]) -> Thread | str | None:
    get = environment.get
    if not get("GITHUB_REPOSITORY"):
        return None
    number = _request_number(get("GITHUB_EVENT_PATH") or "")
    token = get("GITHUB_TOKEN") or get("GH_TOKEN")
    if not number:
        return "the job was not started by a pull request"
    if not token:
        return "the variable GITHUB_TOKEN is not set"
    keep_secret(token)
    api = get("GITHUB_API_URL") or "https://api.github.com"
    issues = f"{api}/repos/{get('GITHUB_REPOSITORY')}/issues"
    return Thread(
        title="GitHub",
        url=f"{issues}/{number}/comments",
        comment_url=f"{issues}/comments",
        headers={"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"},
        method="PATCH",
    )


def _request_number(event: str) -> int | None:
    """The number of the pull request in the file of the event that started a job."""
    try:
        content = json.loads(Path(event).read_text(encoding="utf-8"))
        return int(content["pull_request"]["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _gitlab(environment: Mapping[str, str]) -> Thread | str | None:
    get = environment.get
    if not get("CI_PROJECT_ID"):
        return None
    token = get("GITLAB_TOKEN")
    if not get("CI_MERGE_REQUEST_IID"):
        return "the job was not started by a merge request"
    if not token:
        return "the variable GITLAB_TOKEN is not set: a token of the project with the scope api"
    keep_secret(token)
    request = f"merge_requests/{get('CI_MERGE_REQUEST_IID')}/notes"
    notes = f"{get('CI_API_V4_URL')}/projects/{get('CI_PROJECT_ID')}/{request}"
    headers = {"PRIVATE-TOKEN": token}
    return Thread("GitLab", url=notes, comment_url=notes, headers=headers, method="PUT")


def _bounded(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n\n(cut: the job's summary or --out has it whole)\n"
