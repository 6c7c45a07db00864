"""Programs of other languages that do transactions as they are told: lines in, lines out, so that one test asks all of them.

A line is a command and its arguments with tabs between:

- ``open NAME ID TIMEOUT_MS``: a producer with this transactional id, initialized; ``NAME`` is the program's own
- ``join NAME ID TIMEOUT_MS GROUP TOPIC PROTOCOL``: the same, and a consumer in a group that reads the topic
- ``begin NAME``, ``flush NAME``, ``commit NAME``, ``abort NAME``
- ``send NAME TOPIC PARTITION VALUE``
- ``transform NAME TOPIC END``: one transaction that copies what one poll returns to the same partitions of the topic, with the
  group's offsets and a "t" before each value; ``END`` is ``commit``, ``abort`` or ``hold``, which leaves it open. Returns how many
  records.
- ``fence ID``: have an administrator fence the id's producer
- ``read TOPIC ISOLATION``: all values, in order of partitions and offsets

The answer is ``ok`` and the result, or ``failed`` and names of the errors.
"""

import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.clients.clients import PROGRAMS, java_library, java_machine
from tests.support.clients.go_programs import go_program
from tests.support.processes import start_tied

ANSWER_S = 120
"""More than any client tries on its own."""
JAVA_VERSIONS = ("3.9.2", "4.4.0")
FRANZ_GO = "franz-go"
KINDS = (*(f"kafka-clients {version}" for version in JAVA_VERSIONS), FRANZ_GO)
EPOCHS = frozenset({f"kafka-clients {JAVA_VERSIONS[-1]}", FRANZ_GO})
"""Those that speak ``transaction.version`` 2 when it is finalized."""


class FailedError(Exception):
    """The program failed to do something; its text has the names of the errors."""


class Transactors:
    """One such program."""

    def __init__(self, command: list[str]) -> None:
        # What the client logs is in the test's output.
        self._process = start_tied(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the program at once, whatever it does."""
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send the program a signal."""
        self._process.send_signal(number)

    def do(self, *words: object) -> str:
        """Have something done; return the result, raise FailedError or, if there is no answer, AssertionError."""
        self.tell(*words)
        return self.answer()

    def tell(self, *words: object) -> None:
        """Have something done, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, words)).encode() + b"\n")

    def answer(self, wait_s: float = ANSWER_S) -> str:
        """Return the result of what was told first and not answered yet."""
        deadline = time.monotonic() + wait_s
        while b"\n" not in self._read:
            self._receive(deadline)
        line, _, self._read = self._read.partition(b"\n")
        state, _, result = line.decode().partition("\t")
        if state == "failed":
            raise FailedError(result)
        assert state == "ok", line
        return result

    def _receive(self, deadline: float) -> None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(max(0.0, deadline - time.monotonic())), "no answer in time"
        received = os.read(self._process.stdout.fileno(), 65536)
        assert received, "the program has ended"
        self._read += received


def command_of(kind: str, built: Path) -> list[str]:
    """Return the command of one of KINDS, to which an address is added; skip the test if it cannot be had.

    ``built`` is the folder for compiled programs.
    """
    return [go_program(built, "transactions")] if kind == FRANZ_GO else _java(kind.rpartition(" ")[2], built)


def _java(version: str, built: Path) -> list[str]:
    class_path = java_library("kafka-clients", version)
    if class_path is None:
        pytest.skip("needs Java and Maven")
    return [*java_machine(class_path), str(PROGRAMS / "java" / "Transactions.java")]
