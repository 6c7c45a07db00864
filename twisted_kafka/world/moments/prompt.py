"""The prompt at a moment of a world."""

import ast
import code
import inspect
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NoReturn

from typing_extensions import override

from twisted_kafka.log.files import LOG_SUFFIX
from twisted_kafka.protocol.records.batch import RecordBatch, batches
from twisted_kafka.protocol.records.record import Record
from twisted_kafka.world.moments.copies import GO_ON
from twisted_kafka.world.world import World

HELP: Final = """\
world                       as in a test: await world.run(seconds=5), world.brokers[0].kill(), world.kafka.all()
status()                    brokers and programs
log("orders-0", 20)         the last records of a partition in each broker; log() lists the partitions
events(40)                  the last events
stacks("kafka-1")           the threads of a process
at(12.5)                    go to another moment of the run; changes made here are forgotten
go_on()                     let the test go on from here; exit() ends the visit"""


class _LeaveError(SystemExit):
    def __init__(self, wish: float | None) -> None:
        super().__init__()
        self.wish = wish


def talk(world: World, reason: str) -> float | None:
    """Talk with the user of the terminal; ``Talk`` describes the result."""
    console = _Console(world)
    title = f"The world of seed {world.seed} at {world.now_s:.6f} s{f': {reason}' if reason else ''}"
    try:
        console.interact(f"{title}\n{console.commands.status()}\ncommands() lists the commands of this prompt", exitmsg="")
    except _LeaveError as left:
        return left.wish
    return None


class _Console(code.InteractiveConsole):
    """Python's, with ``await`` for the methods of the world. It reads no more of a pipe than it needs: other visitors read on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.commands = _Commands(world)
        names = {
            name: getattr(self.commands, name) for name in ("commands", "status", "log", "events", "stacks", "at", "go_on", "exit")
        }
        super().__init__({"world": world, "quit": self.commands.exit, **names})
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._is_terminal = sys.stdin.isatty()
        if self._is_terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 ``input`` then edits lines

    @override
    def raw_input(self, prompt: str = "") -> str:
        if self._is_terminal:
            return super().raw_input(prompt)
        sys.stdout.write(prompt)
        line = FileIO(sys.stdin.fileno(), closefd=False).readline()
        if not line:
            raise EOFError
        return line.decode().rstrip("\n")

    @override
    def write(self, data: str) -> None:
        sys.stdout.write(data)
        sys.stdout.flush()

    @override
    def runcode(self, code: CodeType) -> None:
        try:
            found = FunctionType(code, self.locals)()
            if inspect.iscoroutine(found):
                self._world.drive(found)
        except SystemExit:
            raise
        except BaseException:  # noqa: BLE001 the user sees it
            self.showtraceback()


class _Text(str):
    """A text that the prompt shows as it is."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return str(self)


class _Commands:
    """The functions of the prompt."""

    def __init__(self, world: World) -> None:
        self._world = world

    def commands(self) -> "_Text":
        return _Text(HELP)

    def status(self) -> "_Text":
        return _Text("\n".join([f"{each.name:<12} {each.state}" for each in (*self._world.brokers, *self._world.programs)]))

    def log(self, partition: str = "", count: int = 20) -> "_Text":
        lines: list[str] = []
        for broker in self._world.brokers:
            if partition:
                lines += [f"{broker.name}:", *[f"  {line}" for line in _lines_of(broker.log_directory / partition)[-count:]]]
            else:
                names = sorted(path.name for path in broker.log_directory.glob("*-*") if path.is_dir())
                lines.append(f"{broker.name}: {' '.join(names)}")
        return _Text("\n".join(lines))

    def events(self, count: int = 40) -> "_Text":
        return _Text("\n".join([event.text() for event in list(self._world.trace.events)[-count:]]))

    def stacks(self, name: str) -> "_Text":
        return _Text(self._world.stacks(name))

    def at(self, moment_s: float) -> NoReturn:
        raise _LeaveError(max(0.0, moment_s))

    def go_on(self) -> NoReturn:
        raise _LeaveError(GO_ON)

    def exit(self) -> NoReturn:
        raise _LeaveError(None)


def _lines_of(directory: Path) -> list[str]:
    paths = sorted(directory.glob(f"*{LOG_SUFFIX}"))
    return [_line_of(batch, record) for path in paths for batch in batches(path.read_bytes()) for record in batch.records()]


def _line_of(batch: RecordBatch, record: Record) -> str:
    producer = f", producer {batch.producer_id} epoch {batch.producer_epoch}" if batch.producer_id >= 0 else ""
    kind = ", a marker" if batch.is_control else ", in a transaction" if batch.is_transactional else ""
    about = f"leader epoch {batch.partition_leader_epoch}{producer}{kind}"
    return f"{record.offset}: {_short(record.key)} {_short(record.value)}  ({about})"


def _short(data: object) -> str:
    text = repr(None if data is None else bytes(data))  # type: ignore[call-overload]
    return text if len(text) <= 60 else f"{text[:60]}..."
