"""A process of the cluster, which ends with this one."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from twisted.internet import error
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure
from typing_extensions import override

from twisted_kafka.tools.cluster import tied

_TAIL_BYTES: Final = 4096


class Child:
    """A program whose output goes to a file; it is killed when this process dies."""

    def __init__(self, name: str, command: list[str], output: Path) -> None:
        self.name = name
        self.output = output
        self._command = command
        self._protocol = _Watch()
        self._transport: Any = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self._transport.pid)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or was never started."""
        return self._transport is None or self._protocol.status is not None

    @property
    def status(self) -> str:
        """How it ended, for people."""
        return self._protocol.status or "running"

    def start(self, reactor: Any, environment: Mapping[str, str]) -> None:
        """Start it on the main thread, so that it ends with this process; raises OSError if its output cannot be written."""
        command = [sys.executable, "-S", "-E", tied.__file__, str(os.getpid()), *self._command]
        with self.output.open("ab") as output, open(os.devnull, "rb") as nothing:
            descriptors = {0: nothing.fileno(), 1: output.fileno(), 2: output.fileno()}
            self._transport = reactor.spawnProcess(
                self._protocol, command[0], command, env={**os.environ, **environment}, childFDs=descriptors
            )

    def signal(self, name: str) -> None:
        """Send it ``TERM`` or ``KILL``, unless it has ended."""
        try:
            if self._transport is not None:
                self._transport.signalProcess(name)
        except error.ProcessExitedAlready:
            return

    def ended(self) -> "Deferred[None]":
        """Return a Deferred that fires when it has ended."""
        if self.has_ended:
            return succeed(None)
        done: Deferred[None] = Deferred()
        self._protocol.waiting.append(done)
        return done

    def last_line(self) -> str:
        """Return the last line of its output."""
        try:
            with self.output.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError as why:
            return str(why)
        return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


class _Watch(ProcessProtocol):
    def __init__(self) -> None:
        self.status: str | None = None
        self.waiting: list[Deferred[None]] = []

    @override
    def processEnded(self, reason: Failure) -> None:
        """Fire all waiting Deferreds."""
        ended: Any = reason.value
        self.status = f"signal {ended.signal}" if ended.signal else f"exit status {ended.exitCode}"
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.callback(None)
