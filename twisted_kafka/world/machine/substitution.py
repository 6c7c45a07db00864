"""Replaces the machine by a simulated one: the names of ``system.machine``, and what users' programs take from Python itself.

What a thread of the world cannot have raises ``EscapeError``; threads outside the world, and everything after ``leave``, get the
real thing.
"""

import _posixsubprocess
import _thread
import importlib
import os
import pkgutil
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial, wraps
from random import Random
from typing import Any, Final

import twisted_kafka
from twisted_kafka.system import machine
from twisted_kafka.world.machine import primitives
from twisted_kafka.world.machine.aiokafka_order import replace_in_aiokafka
from twisted_kafka.world.machine.answers import answers
from twisted_kafka.world.machine.bound_names import replace_bound_names
from twisted_kafka.world.machine.dates import REAL_DATE, REAL_DATETIME, WorldDate, WorldDatetime
from twisted_kafka.world.machine.disk import hooks
from twisted_kafka.world.machine.files import guards
from twisted_kafka.world.machine.loop import EscapeError
from twisted_kafka.world.machine.network import Network
from twisted_kafka.world.machine.reactor import WorldReactor
from twisted_kafka.world.machine.scheduler import Scheduler

_MISSING: Final = object()
_NO_THREADS: Final = "a world has no threads of the system: run a coroutine with world.process(...), or asyncio.to_thread"
_NO_PROGRAMS: Final = "a world has no programs of the system"
_NO_WAITING: Final = "a world has no sockets that block: use asyncio"
_NO_SOCKETS: Final = "a world has no sockets of the system: use asyncio"
_STARTS: Final = ("fork", "forkpty", "system", "posix_spawn", "posix_spawnp", "execv", "execve")
_EVERYBODY, _PROGRAMS = False, True
_REFUSED: Final[Sequence[tuple[Any, Sequence[str], str, bool]]] = (
    (threading.Thread, ["start"], _NO_THREADS, _EVERYBODY),
    (_thread, ["start_new_thread", "start_joinable_thread"], _NO_THREADS, _EVERYBODY),
    (socket.socket, ["connect", "connect_ex"], _NO_WAITING, _EVERYBODY),
    (socket.socket, ["bind", "sendto"], _NO_SOCKETS, _EVERYBODY),
    (subprocess.Popen, ["__init__"], _NO_PROGRAMS, _EVERYBODY),
    (os, _STARTS, _NO_PROGRAMS, _PROGRAMS),
    (_posixsubprocess, ["fork_exec"], _NO_PROGRAMS, _PROGRAMS),
)
"""What threads of a world may not call: classes or modules, names in them, and the reason.

The last two are refused to programs only: a test may fork to look at a moment.
"""
_BOUND: Final = (time, os, socket, random)
"""Modules whose functions others bind."""
_DATES: Final = {id(REAL_DATETIME): REAL_DATETIME, id(REAL_DATE): REAL_DATE}
_NEVER_IN_A_WORLD: Final = ("console", "recording", "spark", "tap", "testing", "tools", "service")


@cache
def _import_all() -> None:
    """Import what a broker imports when it needs it.

    A module that is first imported within a world would keep locks of that world, and take random numbers of it that the next world
    of the process has for something else.
    """
    for found in pkgutil.walk_packages(twisted_kafka.__path__, f"{twisted_kafka.__name__}.", onerror=lambda name: None):
        if found.name.split(".")[1] not in _NEVER_IN_A_WORLD:
            with suppress(ImportError):  # it needs an extra that is not installed
                importlib.import_module(found.name)


class Substitution:
    """From ``enter`` to ``leave``, which undoes it. There is one at a time in a process."""

    _entered: "Substitution | None" = None

    def __init__(self, scheduler: Scheduler, network: Network, seed: int) -> None:
        self._scheduler = scheduler
        self._network = network
        self._replaced: list[tuple[Any, str, Any]] = []
        self._chance = Random(f"chance {seed}")
        self._bytes = Random(f"bytes {seed}")
        self._program = Random(f"programs {seed}")
        self._random_state: Any = None
        self._end_alarm: Callable[[], object] = int

    def enter(self) -> None:
        """Replace everything. Raises RuntimeError if another world exists."""
        if Substitution._entered is not None:
            raise RuntimeError("a process has one world at a time: close the other one first")
        _import_all()
        Substitution._entered = self
        self._replace_machine()
        self._replace_answers()
        replace_in_aiokafka(self._replace)
        self._replace_bound_names()
        for owner, name, function in hooks(self._scheduler):
            self._replace(owner, name, function)
        for owner, name, function in guards(self._scheduler):
            self._replace(owner, name, function)
        self._guard()
        self._end_alarm = self._scheduler.set_alarm()

    def _replace_bound_names(self) -> None:
        """Replace dates, and functions of time and chance in modules that have bound their names."""
        functions = [(owner, name, before) for owner, name, before in self._replaced if owner in _BOUND and callable(before)]
        wanted = {id(before): before for _, _, before in functions} | _DATES
        replacements = {id(before): getattr(owner, name) for owner, name, before in functions}
        replacements |= {id(REAL_DATETIME): WorldDatetime, id(REAL_DATE): WorldDate}
        replace_bound_names(replacements, wanted, self._replace)

    def leave(self) -> None:
        """Undo ``enter``."""
        self._end_alarm()
        while self._replaced:
            owner, name, value = self._replaced.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        if self._random_state is not None:
            random.setstate(self._random_state)
        Substitution._entered = None

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._replaced.append((owner, name, owner.__dict__.get(name, _MISSING)))
        setattr(owner, name, value)

    def _replace_machine(self) -> None:
        scheduler, network = self._scheduler, self._network
        replacements: dict[str, Any] = {
            "is_simulated": True,
            "chance": self._chance,
            "random_bytes": self._bytes.randbytes,
            "getaddrinfo": network.getaddrinfo,
            "gethostname": lambda: scheduler.current.owner.host.name,
            "make_socket": network.make_socket,
            "make_reactor": partial(WorldReactor, network),
            "result_of": partial(primitives.result_of, scheduler),
            "ThreadPoolExecutor": partial(primitives.Pool, scheduler),
            "current_thread": lambda: scheduler.current.thread,
            "get_ident": lambda: scheduler.current.number,
        }
        for name in ("Lock", "RLock", "Condition", "Event", "BoundedSemaphore", "Thread"):
            replacements[name] = partial(getattr(primitives, name), scheduler)
        for name, value in replacements.items():
            self._replace(machine, name, value)

    def _replace_answers(self) -> None:
        self._random_state = random.getstate()
        for owner, name, value in answers(self._scheduler, self._network, self._program):
            self._replace(owner, name, value)
        random.seed(self._program.getrandbits(64))

    def _guard(self) -> None:
        for owner, names, why, only_to_programs in _REFUSED:
            for name in names:
                if hasattr(owner, name):
                    self._replace(owner, name, self._refused(why, getattr(owner, name), only_to_programs=only_to_programs))

    def _refused(self, why: str, real: Callable[..., Any], *, only_to_programs: bool) -> Callable[..., Any]:
        scheduler = self._scheduler

        @wraps(real)
        def refuse(*args: Any, **kwargs: Any) -> Any:
            actor = scheduler.actor_here()
            if actor is not None and (not only_to_programs or getattr(actor.owner, "files", None) is not None):
                raise EscapeError(why)
            return real(*args, **kwargs)

        return refuse
