"""asyncio's event loop on a world's network and time.

It is asyncio's own selector loop with a selector, connections, lookups and executors of the world. Tasks and futures have their
numbers as hashes, so that sets of them have the same order in each run.
"""

import asyncio
import selectors
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.world.machine.network import READ, WRITE, Network, Poller, Socket
from twisted_kafka.world.machine.primitives import Pool
from twisted_kafka.world.machine.scheduler import FIRST_NS, Scheduler

_EXECUTOR_THREADS: Final = 8


class EscapeError(RuntimeError):
    """A program of the world asked for something that the world does not simulate; the message names it."""


class Selector(selectors.BaseSelector):
    """``selectors.DefaultSelector``, for simulated sockets."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.poller = Poller(scheduler)
        self._keys: dict[int, selectors.SelectorKey] = {}

    @override
    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if fd in self._keys:
            raise KeyError(f"{fileobj!r} is already registered")
        key = self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        self._watch(key)
        return key

    def _watch(self, key: selectors.SelectorKey) -> None:
        watched = self._socket_of(key.fd)
        wanted = (READ if key.events & selectors.EVENT_READ else 0) | (WRITE if key.events & selectors.EVENT_WRITE else 0)
        self.poller.watch(watched, wanted)

    def _socket_of(self, fd: int) -> Socket:
        raise NotImplementedError

    @override
    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys.pop(fd)
        self.poller.forget(fd)
        return key

    @override
    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fd] = self._keys[fd]._replace(events=events, data=data)
        self._watch(key)
        return key

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        timeout_ns = None if timeout is None else max(0, -int(-timeout * 1e9 // 1))
        found = []
        for fd, events in self.poller.poll(timeout_ns):
            key = self._keys.get(fd)
            if key is not None:
                happened = (selectors.EVENT_READ if events & READ else 0) | (selectors.EVENT_WRITE if events & WRITE else 0)
                found.append((key, happened & key.events))
        return found

    @override
    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys[fileobj if isinstance(fileobj, int) else fileobj.fileno()]

    @override
    def get_map(self) -> Any:
        return self._keys


class _NetworkSelector(Selector):
    def __init__(self, network: Network) -> None:
        super().__init__(network.scheduler)
        self._network = network

    @override
    def _socket_of(self, fd: int) -> Socket:
        return self._network.socket_of(fd)


class _Task(asyncio.Task[Any]):
    number = 0

    @override
    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    number = 0

    @override
    def __hash__(self) -> int:
        return self.number


def put_away() -> Callable[[], object]:
    """Take the state of asyncio out of the thread of the system, which all threads of a world share; return what restores it."""
    loop = asyncio._get_running_loop()
    if loop is None:
        return int
    task = asyncio.current_task(loop)
    hooks = sys.get_asyncgen_hooks()
    if task is not None:
        asyncio._leave_task(loop, task)
    asyncio._set_running_loop(None)
    sys.set_asyncgen_hooks(None, None)

    def bring_back() -> None:
        sys.set_asyncgen_hooks(*hooks)
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio._enter_task(loop, task)

    return bring_back


class WorldLoop(asyncio.SelectorEventLoop):
    """The loop of one program."""

    def __init__(self, network: Network, make_pool: Callable[[], Pool]) -> None:
        self._network = network
        self._make_pool = make_pool
        self._pool: Pool | None = None
        self._numbers = 0
        super().__init__(_NetworkSelector(network))
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_debug(False)

    @override
    def run_forever(self) -> None:
        actor = self._network.scheduler.current
        actor.put_away = put_away
        try:
            super().run_forever()
        finally:
            actor.put_away = None

    @override
    def time(self) -> float:
        return (self._network.scheduler.now_ns - FIRST_NS) / 1e9

    # Waking: asyncio's own loop uses a pair of sockets.

    def _make_self_pipe(self) -> None: ...

    def _close_self_pipe(self) -> None: ...

    def _write_to_self(self) -> None:
        selector: Any = self._selector  # type: ignore[attr-defined]
        if selector is not None:
            selector.poller.wake()

    # Tasks and futures

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _make_task(self, loop: "WorldLoop", coro: Coroutine[Any, Any, Any], **options: Any) -> _Task:
        task = _Task(coro, loop=loop, **options)
        task.number = self._next_number()
        return task

    @override
    def create_future(self) -> "asyncio.Future[Any]":
        future = _Future(loop=self)
        future.number = self._next_number()
        return future

    # The network

    @override
    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return self._network.getaddrinfo(host, port, **options)

    @override
    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, *, sock: Any = None, **options: Any
    ) -> Any:
        if options.get("ssl"):
            raise EscapeError("a world has no TLS, whose keys depend on the machine: use a PLAINTEXT listener")
        if sock is None:
            address = self._network.getaddrinfo(host, port)[0][4]
            sock = self._network.make_socket()
            try:
                await self.sock_connect(sock, address)
            except BaseException:
                sock.close()
                raise
        return await super().create_connection(protocol_factory, sock=sock)

    @override
    async def create_server(self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any) -> Any:
        listening = self._network.make_socket()
        listening.bind((self._network.resolve(host) if host else "0.0.0.0", port or 0))
        return await super().create_server(protocol_factory, sock=listening, **options)  # type: ignore[call-overload]

    # What would leave the world

    @override
    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        if executor is not None:
            raise EscapeError("a world runs functions on its own threads only: call run_in_executor(None, ...)")
        if self._pool is None:
            self._pool = self._make_pool()
        return asyncio.wrap_future(self._pool.submit(func, *args), loop=self)

    @override
    async def create_datagram_endpoint(self, *args: Any, **options: Any) -> Any:
        raise EscapeError("a world has no UDP")

    @override
    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        raise EscapeError("a world has no programs: run a coroutine with world.process(...)")

    @override
    async def subprocess_shell(self, *args: Any, **options: Any) -> Any:
        raise EscapeError("a world has no programs: run a coroutine with world.process(...)")

    @override
    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        """Accept it: no signal comes in a world."""

    @override
    def remove_signal_handler(self, sig: int) -> bool:
        return False
