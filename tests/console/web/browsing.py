"""A browser without a screen, for pages of a broker that runs: it keeps cookies and sends forms with their tokens."""

import re
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from tests.support.budget import patient
from tests.support.fake import Fake

TIMEOUT_S = patient(60)


class Shown(NamedTuple):
    status: int
    body: str
    location: str
    policy: str

    @property
    def text(self) -> str:
        """What a reader sees, in one line."""
        return " ".join(re.sub(r"<[^>]+>", " ", self.body).split())

    @property
    def links(self) -> list[str]:
        return [each.replace("&amp;", "&") for each in re.findall(r'href="([^"]+)"', self.body)]


class Browser(Fake):
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.netloc
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self.cookies: dict[str, str] = {}

    def get(self, path: str) -> Shown:
        return self._send("GET", path, None)

    def post(self, path: str, **form: str) -> Shown:
        """Send a form that the page ``path`` would have."""
        return self._send("POST", path, urlencode({"token": self.token(), **form}))

    def token(self) -> str:
        """The token of this browser's forms, from any page that has one."""
        pages = map(self.get, ("/login", "/change?action=create-topic", "/report"))
        return next((found[1] for page in pages if (found := re.search(r'name="token" value="(\w+)"', page.body))), "")

    def first_event(self, path: str, field: str = "data") -> str:
        """The data of the first event of a stream, or another field."""
        connection = HTTPConnection(self.host, timeout=TIMEOUT_S)
        connection.request("GET", path, headers={"cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())})
        answer = connection.getresponse()
        line = next(line for line in iter(answer.readline, b"") if line.startswith(field.encode() + b": "))
        connection.close()
        return line.decode().strip()

    def _send(self, method: str, path: str, body: str | None) -> Shown:
        headers = {"origin": f"http://{self.host}", "content-type": "application/x-www-form-urlencoded"} if body is not None else {}
        if self.cookies:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        for line in answer.headers.get_all("set-cookie", []):
            for name, morsel in SimpleCookie(line).items():
                self.cookies[name] = morsel.value
        return Shown(answer.status, text, answer.headers.get("location", ""), answer.headers.get("content-security-policy", ""))
