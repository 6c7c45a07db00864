"""What happened in a world, on one time line."""

from collections import deque
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from twisted_kafka.world.machine.scheduler import FIRST_NS, Scheduler

MAX_EVENTS: Final = 200_000
"""Most events that are kept; older ones only count in the digest."""


class Event(NamedTuple):
    """One line."""

    at_ns: int
    who: str
    what: str

    def text(self) -> str:
        """Return the line: seconds since the world began, the process, what happened."""
        return f"{(self.at_ns - FIRST_NS) / 1e9:14.6f}  {self.who:<12} {self.what}"


class Trace:
    """The last events, and a digest of all of them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._hash = blake2b(digest_size=16)
        self._hidden: list[tuple[str, str]] = []
        self.count = 0
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)

    def hide(self, text: str, alias: str) -> None:
        """Write ``alias`` for a text that differs from run to run, such as a temporary directory."""
        self._hidden.append((text, alias))

    def note(self, who: str, what: str) -> None:
        """Add an event of the present."""
        for text, alias in self._hidden:
            what = what.replace(text, alias)
        event = Event(self._scheduler.now_ns, who, what)
        self.events.append(event)
        self.count += 1
        self._hash.update(f"{event.at_ns} {who} {what}\n".encode())

    @property
    def digest(self) -> str:
        """The same for two runs that are the same, every change of threads and every byte on the network included."""
        whole = self._hash.copy()
        whole.update(f"{self._scheduler.fingerprint} {self._scheduler.switches} {self._scheduler.now_ns}".encode())
        return whole.hexdigest()

    def text(self) -> str:
        """Return the lines."""
        return "".join(f"{event.text()}\n" for event in self.events)

    def write(self, path: Path) -> None:
        """Write the lines to a file; raises OSError."""
        path.write_text(self.text(), encoding="utf-8")
