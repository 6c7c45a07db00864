"""The processes of a world: brokers, and programs that are coroutines."""

import asyncio
import itertools
import shutil
import warnings
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.broker.broker import Broker
from twisted_kafka.broker.errors import StartError
from twisted_kafka.broker.registration.metadata_store import METADATA_FILE
from twisted_kafka.server.interception import IRequestInterceptor
from twisted_kafka.world.machine.clock import WorldClock
from twisted_kafka.world.machine.disk import Disk
from twisted_kafka.world.machine.loop import WorldLoop
from twisted_kafka.world.machine.network import Host, Network
from twisted_kafka.world.machine.primitives import Event, Pool, Thread
from twisted_kafka.world.machine.scheduler import KilledError, Owner, Scheduler
from twisted_kafka.world.machine.silence import silence
from twisted_kafka.world.trace import Trace

PORT: Final = 9092
FIRST_PROCESS_ID: Final = 1000
RESTART_S: Final = 5.0
"""How long after a failed start a broker is started again, in virtual time."""


class Surroundings:
    """What the processes of a world share."""

    def __init__(self, scheduler: Scheduler, network: Network, trace: Trace, directory: Path, seed: int) -> None:
        self.seed = seed
        self.scheduler = scheduler
        self.network = network
        self.trace = trace
        self.directory = directory
        self.process_ids = itertools.count(FIRST_PROCESS_ID)


class Life(Owner):
    """One process of the system from its start to its end: a restart is another one."""

    def __init__(self, name: str, host: Host, clock: WorldClock) -> None:
        super().__init__(name)
        self.host = host
        self.clock = clock
        self.disk: Disk | None = None
        self.files: Path | None = None
        """Where it may write files; None for anywhere."""
        self.process_id: int | None = None
        """What ``os.getpid`` returns; None for the real one."""


class Process:
    """A program that can be started, killed, paused, and started again."""

    def __init__(self, surroundings: Surroundings, host: Host) -> None:
        self.host = host
        self.name = host.name
        self.clock = WorldClock(surroundings.scheduler)
        self._surroundings = surroundings
        self._life: Life | None = None

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{'' if self.is_running else ', down'}>"

    @property
    def is_running(self) -> bool:
        """Whether a thread of it exists."""
        return self._life is not None and not self._life.is_dead and bool(self._life.actors)

    @property
    def state(self) -> str:
        """Whether it runs, in words."""
        return "down" if not self.is_running else "paused" if self.is_paused else "runs"

    @property
    def is_paused(self) -> bool:
        """Whether ``pause`` holds it."""
        return self._life is not None and self._life.is_paused

    def start(self) -> None:
        """Start it. Raises RuntimeError if it runs."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already")
        surroundings = self._surroundings
        surroundings.trace.note(self.name, "starts")
        surroundings.network.power_on(self.host)
        self._life = life = self._make_life()
        scheduler = surroundings.scheduler
        main = Thread(scheduler, target=self._main, name=f"{self.name} main")
        scheduler.spawn_for(life, main.start)

    def _make_life(self) -> Life:
        return Life(self.name, self.host, self.clock)

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does: its connections are closed by the system, its files stay as they are."""
        self._end(silently=False)

    def _end(self, *, silently: bool) -> None:
        life = self._life
        if life is None or life.is_dead:
            return
        if not life.actors:
            life.is_dead = True
            return
        surroundings = self._surroundings
        surroundings.trace.note(self.name, "loses power" if silently else "is killed")
        surroundings.network.process_gone(life, silently=silently)
        with silence():
            surroundings.scheduler.kill(life)
        self._buried(lost_power=silently)

    def _buried(self, *, lost_power: bool) -> None:
        """Clean up after the threads have ended."""

    def pause(self) -> None:
        """Hold it, as SIGSTOP does. Its connections stay open."""
        if self._life is not None:
            self._surroundings.trace.note(self.name, "is paused")
            self._surroundings.scheduler.pause_process(self._life)

    def resume(self) -> None:
        """Let it go on."""
        if self._life is not None:
            self._surroundings.trace.note(self.name, "goes on")
            self._surroundings.scheduler.resume_process(self._life)

    def _main(self) -> None:
        raise NotImplementedError


class BrokerProcess(Process):
    """A broker with its directory."""

    def __init__(
        self,
        surroundings: Surroundings,
        host: Host,
        number: int,
        properties: Mapping[str, object],
        make_interceptor: "Callable[[BrokerProcess], IRequestInterceptor]",
    ) -> None:
        """``make_interceptor`` makes the one of each life."""
        super().__init__(surroundings, host)
        self.number = number
        self._make_interceptor = make_interceptor
        self.broker: Broker | None = None
        """The running broker; None before it has started."""
        self._properties = properties
        self._generation = 0
        self._has_served = False
        self._stopping: Event | None = None
        self._failed = ""
        """Why the running broker cannot go on."""
        self.disk: Disk | None = None
        """The disk of its present or last life."""

    @property
    def directory(self) -> Path:
        """Where its present or last life has its data."""
        return self._surroundings.directory / f"{self.name}.{self._generation}"

    @property
    def log_directory(self) -> Path:
        """The directory of its partitions."""
        return self.directory / "log"

    @property
    def is_serving(self) -> bool:
        """Whether it has started and serves."""
        return self.is_running and self.broker is not None and self.broker.is_running

    @override
    def start(self) -> None:
        self._stopping = Event(self._surroundings.scheduler)
        self.broker = None
        super().start()

    @override
    def _make_life(self) -> Life:
        surroundings = self._surroundings
        self.directory.mkdir(exist_ok=True)
        if self.disk is not None:
            self.disk.close()
        random = Random(f"disk {self.name} {self._generation} {surroundings.scheduler.now_ns} {surroundings.seed}")
        life = super()._make_life()
        life.disk = self.disk = Disk(surroundings.scheduler, self.directory, random, _is_embedded_store)
        return life

    def lose_power(self) -> None:
        """End it with its machine: nothing answers, and writes without a sync may be lost. ``start`` also starts the machine."""
        self.host.is_up = False
        self._end(silently=True)

    def stop(self) -> None:
        """Let it stop as after SIGTERM; ``is_running`` says when it has."""
        if self._stopping is not None:
            self._surroundings.trace.note(self.name, "is asked to stop")
            self._stopping.set()

    @override
    def _main(self) -> None:
        stopping = self._stopping
        assert stopping is not None
        trace = self._surroundings.trace
        while (broker := self._started(stopping)) is not None:
            self.broker = broker
            trace.note(self.name, "serves")
            stopping.wait()
            broker.stop()
            trace.note(self.name, "has stopped")
            if not self._failed:
                return
            stopping.clear()
            self.broker = None
            if stopping.wait(RESTART_S):
                return

    def _fail(self, why: str) -> None:
        """Stop the running broker, which cannot go on; it is started again as by systemd."""
        assert self._stopping is not None
        if self._life is None or self._life.is_dead:
            return
        self._surroundings.trace.note(self.name, f"cannot go on: {why}")
        self._failed = why
        self._stopping.set()

    def _started(self, stopping: Event) -> Broker | None:
        """Return a broker that runs. One that cannot start is started again, as by systemd; None if it is asked to stop.

        Raises StartError if it has never served: its settings are wrong.
        """
        while True:
            self._failed = ""
            broker = Broker(
                dict(self._properties),
                data_dir=self.directory,
                clock=self.clock,
                on_fatal=self._fail,
                interceptor=self._make_interceptor(self),
            )
            try:
                broker.start()
            except StartError as error:
                self._surroundings.trace.note(self.name, f"does not start: {error}")
                if not self._has_served or stopping.wait(RESTART_S):
                    if not self._has_served:
                        raise
                    return None
            else:
                self._has_served = True
                return broker

    @override
    def _buried(self, *, lost_power: bool) -> None:
        # The dead process has open files in its directory; the next one gets a copy.
        self.broker = None
        dead = self.directory
        self._generation += 1
        assert self.disk is not None
        if lost_power:
            self.disk.lose_power(self.directory)
        else:
            shutil.copytree(dead, self.directory)
        shutil.rmtree(dead)


def _is_embedded_store(name: str) -> bool:
    """Return whether a file is the embedded store's: SQLite syncs each change, with calls that nothing can watch."""
    return name.startswith(METADATA_FILE)


class ProgramError(AssertionError):
    """A program of the world has failed. Its cause is the program's exception."""


class Program(Process):
    """A coroutine function with an event loop of its own."""

    def __init__(
        self, surroundings: Surroundings, host: Host, function: Callable[..., Coroutine[Any, Any, Any]], arguments: tuple[Any, ...]
    ) -> None:
        super().__init__(surroundings, host)
        self._function = function
        self._arguments = arguments
        self._loop: WorldLoop | None = None
        self.error: BaseException | None = None
        """What it has raised in its last life."""
        self.result: Any = None
        """What it has returned."""
        self.may_fail = False
        self.directory = surroundings.directory / self.name
        """The directory for its files, which outlive a kill."""
        self.directory.mkdir()
        self._dead: list[asyncio.Task[Any]] = []

    @override
    def _make_life(self) -> Life:
        life = super()._make_life()
        life.files = self.directory
        life.process_id = next(self._surroundings.process_ids)
        return life

    @override
    def _main(self) -> None:
        surroundings = self._surroundings
        scheduler = surroundings.scheduler
        self.error = self.result = None
        self._loop = loop = WorldLoop(surroundings.network, lambda: Pool(scheduler, 8, f"{self.name}-executor-"))
        try:
            self.result = loop.run_until_complete(self._function(*self._arguments))
            self._cancel_others(loop)
        except KilledError:
            self._dead += asyncio.all_tasks(loop)
            raise
        except Exception as error:
            self.error = error
            surroundings.trace.note(self.name, f"fails: {type(error).__name__}: {error}")
            if not self.may_fail:
                raise ProgramError(f"{self.name} has failed: {type(error).__name__}: {error}") from error
        else:
            surroundings.trace.note(self.name, "has ended")
        finally:
            if not loop.is_running():
                loop.close()
            surroundings.network.process_gone(scheduler.current.owner, silently=False)

    def _cancel_others(self, loop: WorldLoop) -> None:
        """Cancel the tasks that are left, as ``asyncio.run`` does."""
        left = sorted(asyncio.all_tasks(loop), key=hash)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    def bury(self) -> None:
        """End the coroutines of killed lives, so that no garbage collection runs their ``finally`` at another time."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a coroutine that another one's ``finally`` does not await any more
            for task in self._dead:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                try:
                    coroutine.close()
                except BaseException:  # noqa: BLE001 the program is dead
                    continue
            self._dead.clear()
