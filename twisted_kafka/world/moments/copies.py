"""Copies of a world along its way, each a forked process that waits until somebody wants to go on from there.

All threads of a world share one thread of the system, so a fork copies them. The copies share the memory that none of them changes.
Files are copied before the fork. One process uses the world's directory at a time: the one that runs, or a visitor.

    the run      -> copy at 0.2 s     waits for a line with a moment
                                      -> visitor: takes the saved files, goes on to the moment, and talks to the user there
                 -> copy at 0.9 s     waits
"""

import json
import os
import random
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, TextIO

from twisted_kafka.system.forks import whole_copies
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.world.moments.files import SavedFiles
from twisted_kafka.world.world import World

MOST_COPIES: Final = 32
FIRST_APART_NS: Final = 250_000_000
"""Processor time between two copies. When there are too many, the one with the nearest neighbours ends, and the time grows."""
_LOOK_S: Final = 0.1
"""How often the processor time is looked at, in virtual time."""

GO_ON: Final = -1.0
"""Instead of a moment: let the test go on here."""

Talk = Callable[[World, str], float | None]
"""Talks to the user in a world at a moment; the text is the reason for the end of the test, or empty.

Returns the next moment in virtual seconds, GO_ON, or None if the user wants nothing more.
"""


class _Copy(NamedTuple):
    at_s: float
    spent_ns: int
    """The processor time of the run until then."""
    pid: int
    orders: TextIO
    """A pipe to it, for lines with moments."""
    answers: TextIO
    """A pipe from its visitors, for lines with their wishes."""

    def end(self) -> None:
        """Let it end, and wait for that."""
        with suppress(BrokenPipeError):
            self.orders.close()
        self.answers.close()
        os.waitpid(self.pid, 0)


class Moments:
    """One run's copies: ``along`` its way, then ``visit``, then ``close``."""

    def __init__(self, talk: Talk, *, most: int = MOST_COPIES, apart_ns: int = FIRST_APART_NS) -> None:
        self._talk = talk
        self._most = most
        self._apart_ns = apart_ns
        self._copied_ns = 0
        self._spent_ns = 0
        """The processor time of the run between copies, until the last one."""
        self._copies: list[_Copy] = []
        self._count = 0
        self._world: World
        self._directory: Path
        self._is_visitor = False
        self._answer: TextIO

    @contextmanager
    def along(self, world: World) -> Iterator[None]:
        """Copy an open world now and then. In the end, a visitor talks to the user about the error, and ends its process."""
        self._begin(world)
        error: BaseException | None = None
        try:
            yield
        except BaseException as failure:
            error = failure
            raise
        finally:
            if self._is_visitor:
                self._talk_about(error)

    def _begin(self, world: World) -> None:
        self._world = world
        self._directory = world.directory.with_name(f"{world.directory.name}.moments")
        self._copy()
        self._look_later()

    def _talk_about(self, error: BaseException | None) -> NoReturn:
        reason = "the test has passed" if error is None else "".join(traceback.format_exception(error))
        while (wish := self._talk(self._world, reason)) == GO_ON:
            pass
        self._leave(wish)

    def visit(self, at_s: float) -> None:
        """Go to a moment, and to others until the user wants nothing more. Raises RuntimeError without copies, or if one fails."""
        wish: float | None = at_s
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the visitor
        try:
            while wish is not None:
                wish = self._visit(wish)
        finally:
            signal.signal(signal.SIGINT, before)

    def _visit(self, at_s: float) -> float | None:
        if not self._copies:
            raise RuntimeError("the world has not opened")
        copy = next((each for each in reversed(self._copies) if each.at_s <= at_s), self._copies[0])
        answer = []
        try:
            with suppress(BrokenPipeError):
                print(at_s, file=copy.orders, flush=True)
                answer = json.loads(copy.answers.readline() or "[]")
        finally:
            shutil.rmtree(self._world.directory, ignore_errors=True)
        if not answer:
            raise RuntimeError(f"the copy of the world at {copy.at_s:.6f} s has failed")
        wish: float | None = answer[0]
        return wish

    def close(self) -> None:
        """End all copies."""
        while self._copies:
            self._copies.pop().end()

    # In the run

    def _look_later(self) -> None:
        self._world.at(self._world.now_s + _LOOK_S, self._look)

    def _look(self) -> None:
        if not self._is_visitor:
            spent_ns = SystemClock.cpu_ns() - self._copied_ns
            if spent_ns >= self._apart_ns:
                self._spent_ns += spent_ns
                self._copy()
            self._look_later()

    def _copy(self) -> None:
        """Make a copy of the present. Returns in the run, and in each visitor that goes on from here."""
        self._count += 1
        saved = SavedFiles(self._world.directory, self._directory / str(self._count))
        orders, answers = os.pipe(), os.pipe()
        pid = _fork()
        if pid == 0:
            for each in self._copies:
                each.orders.close()
                each.answers.close()
            os.close(orders[1])
            os.close(answers[0])
            self._become_visitor(saved, os.fdopen(orders[0]), os.fdopen(answers[1], "w"))
            return
        os.close(orders[0])
        os.close(answers[1])
        self._copies.append(_Copy(self._world.now_s, self._spent_ns, pid, os.fdopen(orders[1], "w"), os.fdopen(answers[0])))
        if len(self._copies) > self._most:
            self._end_one()
        self._copied_ns = SystemClock.cpu_ns()

    def _end_one(self) -> None:
        """End the copy that is missed least: a visitor from the one before it repeats the least work until the one after it."""
        spent = [each.spent_ns for each in self._copies]
        least = min(range(1, len(spent) - 1), key=lambda index: spent[index + 1] - spent[index - 1])
        self._copies.pop(least).end()
        self._apart_ns = max(self._apart_ns, self._spent_ns // self._most)

    # In a copy

    def _become_visitor(self, saved: SavedFiles, orders: TextIO, answers: TextIO) -> None:
        at_s = _wait(orders, answers)
        if at_s is None:
            saved.remove()
            os._exit(0)
        self._is_visitor, self._answer = True, answers
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._world.moved(saved.restore())
        self._world.at(at_s, self._arrive)

    def _arrive(self) -> None:
        wish = self._talk(self._world, "")
        if wish != GO_ON:
            self._leave(wish)

    def _leave(self, wish: float | None) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        print(json.dumps([wish]), file=self._answer, flush=True)
        os._exit(0)


def _fork() -> int:
    """Fork. The random numbers of the copy are the same; Python would give it others."""
    sys.stdout.flush()
    sys.stderr.flush()
    state = random.getstate()
    with whole_copies(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads do not matter: the world has none of them
        pid = os.fork()
    if pid == 0:
        random.setstate(state)
    return pid


def _wait(orders: TextIO, answers: TextIO) -> float | None:
    """Wait in a copy for lines with moments; return each in a copy of its own, and None when nobody can write any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while line := orders.readline():
        pid = _fork()
        if pid == 0:
            orders.close()
            return float(line)
        if os.waitpid(pid, 0)[1] != 0:
            print("[]", file=answers, flush=True)
    return None
