"""Tell findings while a log is followed: as text or JSON lines on standard output, to a webhook, and to a topic."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted_kafka_spark.report.words import evidence

Values = dict[str, Any]
WEBHOOK_TIMEOUT_S = 10
_TRIES = 3


@dataclass(slots=True)
class Teller:
    """Tells findings; `is_closed` after the reader of standard output has gone.

    `as_json`: a JSON object in each line instead of text. `webhook`: a URL that gets each finding as JSON by POST; a webhook
    that cannot be reached is reported on standard error and does not stop the stream. `send`: sends findings to a topic.
    """

    as_json: bool = False
    webhook: str = ""
    send: Callable[[Sequence[Values]], None] | None = None
    is_closed: bool = field(default=False, init=False)

    def __call__(self, found: Sequence[Values]) -> None:
        """Tell these findings."""
        for each in found:
            self._print(json.dumps(each, default=str) if self.as_json else _text(each))
            if self.webhook:
                self._post(each)
        if self.send is not None:
            self.send(found)

    def _print(self, text: str) -> None:
        try:
            print(text, flush=True)
        except BrokenPipeError:
            self.is_closed = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _post(self, values: Values) -> None:
        body = json.dumps(values, default=str).encode()
        request = urllib.request.Request(self.webhook, body, {"Content-Type": "application/json"}, method="POST")
        error = ""
        for _ in range(_TRIES):
            try:
                with urllib.request.urlopen(request, timeout=WEBHOOK_TIMEOUT_S):
                    return
            except urllib.error.HTTPError as refused:
                error = f"status {refused.code}"
                refused.close()
                if refused.code < 500:
                    break
            except (OSError, ValueError) as failed:
                error = str(failed)
        print(f"twisted_kafka_spark: failed to send {values['name']} to the webhook: {error}", file=sys.stderr)


def check_webhook(url: str) -> None:
    """Raise ValueError unless a text is the URL of a web server."""
    if url and not url.startswith(("http://", "https://")):
        raise ValueError(f"--webhook must be a URL that begins with http:// or https://, not {url!r}")


def _text(found: Values) -> str:
    lines = [f"* {found['name']} ({found['severity']}, {found['state']}): {found['title']}", f"  {evidence(found['evidence'])}"]
    lines += [f"  owner: {found['owner']}"] if found.get("owner") else []
    lines += [f"  {found['advice']}"] if found["state"] != "over" else []
    lines += [f"  filter: {found['where']}"] if found["where"] else []
    return "\n".join(lines)
