"""A client of the control API, as another language would have one."""

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit


class Answer(NamedTuple):
    status: int
    body: Any


class ControlClient:
    """Sends a request over a connection of its own."""

    def __init__(self, url: str, token: str) -> None:
        self._address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"}

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self._address.hostname, self._address.port, timeout=60)
        try:
            connection.request(method, path, body, self._headers if headers is None else headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        assert text.endswith(b"\n")
        assert text.count(b"\n") == 1, "an answer is one line"
        return Answer(answer.status, json.loads(text))

    def get(self, path: str, **query: Any) -> Any:
        answer = self.send("GET", f"{path}?{urlencode(query)}" if query else path)
        assert answer.status == 200, answer
        return answer.body

    def post(self, path: str, **body: Any) -> Any:
        answer = self.send("POST", path, json.dumps(body).encode())
        assert answer.status == 200, answer
        return answer.body

    def delete(self, path: str) -> Any:
        answer = self.send("DELETE", path)
        assert answer.status == 200, answer
        return answer.body

    def refused(self, method: str, path: str, body: Any = None) -> Answer:
        """Return an answer that is no success, with its error alone."""
        answer = self.send(method, path, None if body is None else json.dumps(body).encode())
        assert answer.status >= 400, answer
        assert "\n" not in answer.body["error"]
        return Answer(answer.status, answer.body["error"])
