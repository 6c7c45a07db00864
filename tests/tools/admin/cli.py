"""Runs ``twisted-kafka`` in this process, against one cluster."""

import io
import json
from typing import Any, NamedTuple

import pytest

from twisted_kafka.tools.main import main


class Result(NamedTuple):
    """What a command has printed, and its exit status."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


class Cli:
    """Calls the command."""

    def __init__(self, server: str, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch, prefix: str) -> None:
        self.server = server
        self.prefix = prefix
        """Begins the names of one test's topics, groups and users."""
        self._capture = capture
        self._patch = patch

    def run(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run a command."""
        self._patch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        self._capture.readouterr()
        given = ["--timeout", "20"] if "--timeout" not in arguments else []
        status = main([*arguments, "--bootstrap-server", self.server, *given])
        out, err = self._capture.readouterr()
        return Result(status, out, err.decode())

    def ok(self, *arguments: str, stdin: bytes = b"") -> Result:
        """Run a command that succeeds."""
        result = self.run(*arguments, stdin=stdin)
        assert (result.status, result.err) == (0, ""), (arguments, result)
        return result

    def json(self, *arguments: str, stdin: bytes = b"") -> list[Any]:
        """Run a command that succeeds; return the JSON objects that it prints."""
        return self.ok(*arguments, "--output", "json", stdin=stdin).json

    def fails(self, *arguments: str, status: int = 1, stdin: bytes = b"") -> str:
        """Run a command that fails with one line; return the line."""
        result = self.run(*arguments, stdin=stdin)
        assert result.status == status, result
        (line,) = result.err.splitlines()
        assert line.startswith("twisted-kafka: ")
        return line.removeprefix("twisted-kafka: ")

    def topic(self, *options: str, name: str = "orders") -> str:
        """Create a topic; return its name."""
        name = f"{self.prefix}-{name}"
        self.ok("topics", "create", name, *options)
        return name
