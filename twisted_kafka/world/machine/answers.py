"""What Python's own functions of time, chance, names and process ids answer on the threads of a world."""

import ipaddress
import os
import random
import socket
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from random import Random
from types import MethodType
from typing import Any, Final

from twisted_kafka.world.machine.clock import EPOCH_NS, WorldClock
from twisted_kafka.world.machine.network import Network
from twisted_kafka.world.machine.scheduler import FIRST_NS, Scheduler

Replacement = tuple[Any, str, Any]
"""A module or class, a name in it, and the value that the name has in a world."""

_WALL_CLOCKS: Final = frozenset(getattr(time, name, None) for name in ("CLOCK_REALTIME", "CLOCK_TAI"))
_CPU_CLOCKS: Final = frozenset(
    getattr(time, name, None) for name in ("CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID", "CLOCK_PROF")
)
_FIRST_NODE: Final = 0x0200_0000_0000
"""Before a host's address, the number of its network card, which ``uuid.uuid1`` contains: a locally administered one."""


def inside(scheduler: Scheduler, function: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls ``function`` on threads of the world, and ``real`` on others."""
    is_inside = scheduler.is_inside

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if is_inside() else real(*args, **kwargs)

    return chosen


def answers(scheduler: Scheduler, network: Network, program: Random) -> Iterator[Replacement]:
    """Return all replacements. ``program`` gives the random numbers of programs."""
    functions: list[tuple[Any, dict[str, Callable[..., Any]]]] = [
        (time, _times(scheduler)),
        (socket, _names(scheduler, network)),
        (os, {"urandom": program.randbytes, "getrandom": lambda size, flags=0: program.randbytes(size)}),
        (os, {"times": lambda: os.times_result((0, 0, 0, 0, scheduler.now_ns / 1e9))}),
        (random, {"_urandom": program.randbytes}),
        (uuid, {"getnode": lambda: _FIRST_NODE | int(ipaddress.IPv4Address(scheduler.current.owner.host.address))}),
    ]
    for owner, replacements in functions:
        for name, function in replacements.items():
            if hasattr(owner, name):
                yield owner, name, inside(scheduler, function, getattr(owner, name))
    yield from _seeds(scheduler, program)
    yield os, "getpid", _process_ids(scheduler)
    yield uuid, "_generate_time_safe", None  # a library of the system, with its clock
    for name in [name for name in vars(uuid) if name.startswith("_last_")]:
        yield uuid, name, 0 if "counter" in name else None
    yield tempfile, "_name_sequence", None


def _times(scheduler: Scheduler) -> dict[str, Callable[..., Any]]:
    real = {name: getattr(time, name) for name in ("localtime", "gmtime", "ctime", "asctime", "strftime")}

    def wall_ns() -> int:
        clock: WorldClock | None = getattr(scheduler.current.owner, "clock", None)
        return clock.wall_ns() if clock is not None else scheduler.now_ns - FIRST_NS + EPOCH_NS

    def of_now(name: str) -> Callable[..., Any]:
        return lambda seconds=None: real[name](wall_ns() / 1e9 if seconds is None else seconds)

    def clock_ns(clock: int) -> int:
        return wall_ns() if clock in _WALL_CLOCKS else 0 if clock in _CPU_CLOCKS else scheduler.now_ns

    def sleep(duration_s: float) -> None:
        scheduler.wait(max(0, -int(-duration_s * 1e9 // 1)))

    local_time = of_now("localtime")
    clocks_ns: dict[str, Callable[..., int]] = {
        "time": wall_ns,
        "monotonic": lambda: scheduler.now_ns,
        "perf_counter": lambda: scheduler.now_ns,
        "process_time": lambda: 0,  # computing takes no time
        "thread_time": lambda: 0,
        "clock_gettime": clock_ns,
    }
    return {
        **{name: _in_seconds(function) for name, function in clocks_ns.items()},
        **{f"{name}_ns": function for name, function in clocks_ns.items()},
        **{name: of_now(name) for name in ("localtime", "gmtime", "ctime")},
        "asctime": lambda moment=None: real["asctime"](local_time() if moment is None else moment),
        "strftime": lambda form, moment=None: real["strftime"](form, local_time() if moment is None else moment),
        "sleep": sleep,
    }


def _in_seconds(function_ns: Callable[..., int]) -> Callable[..., float]:
    return lambda *args: function_ns(*args) / 1e9


def _names(scheduler: Scheduler, network: Network) -> dict[str, Callable[..., Any]]:
    def by_address(host: str) -> tuple[str, list[str], list[str]]:
        address = network.resolve(host)
        known = network.hosts.get(address)
        return known.name if known is not None else "localhost", [], [address]

    def name_info(address: tuple[Any, ...], flags: int) -> tuple[str, str]:
        host = address[0] if flags & socket.NI_NUMERICHOST else by_address(address[0])[0]
        return host, str(address[1])

    return {
        "getaddrinfo": network.getaddrinfo,
        "gethostname": lambda: scheduler.current.owner.host.name,
        "gethostbyname": network.resolve,
        "gethostbyname_ex": lambda host: (host, [], [network.resolve(host)]),
        "gethostbyaddr": by_address,
        "getnameinfo": name_info,
    }


def _seeds(scheduler: Scheduler, program: Random) -> Iterator[Replacement]:
    """Let generators without a seed take one from the world, not from the system."""
    real = Random.seed

    def seed(self: Random, a: Any = None, version: int = 2) -> None:
        real(self, program.getrandbits(64) if a is None and scheduler.is_inside() else a, version)

    yield Random, "seed", seed
    yield random, "seed", MethodType(seed, random._inst)


def _process_ids(scheduler: Scheduler) -> Callable[[], int]:
    real = os.getpid

    def process_id() -> int:
        actor = scheduler.actor_here()
        own: int | None = getattr(actor.owner, "process_id", None) if actor is not None else None
        return real() if own is None else own

    return process_id
