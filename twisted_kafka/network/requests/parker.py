"""A thread of a plane, with its role, its present work and the lock on which it sleeps. (docs/adr/0027.)

Network threads and request handlers are roles. A thread that is stuck in a request hands its network thread's role to a sleeping
handler's thread and takes over that handler's role, so both numbers stay the same.
"""

from typing import Protocol

from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread


class IRole(Protocol):
    """The role of a thread: it runs a processor's loop, or handles requests."""

    @property
    def name(self) -> str:
        """The name of the thread that has this role."""

    def run(self, parker: "Parker") -> None:
        """Return when the role has ended, or when ``parker.next_role`` is set: another thread has this role then."""


class IRequestHandler(IRole, Protocol):
    """The role that handles requests."""

    @property
    def has_ended(self) -> bool:
        """Whether it takes no more requests."""

    def step(self, parker: "Parker", timeout_s: float) -> int:
        """Handle the next request, or several together, as the thread of ``parker``; wait up to ``timeout_s`` for it.

        Return how many there were.
        """


class Parker:
    """The place where one thread sleeps, and its state for other threads.

    ``busy_since_ns`` is when the thread took its current request, 0 if it has none. The stall watch sets ``seen_since_ns`` and
    ``stalled_since_ns`` to that value when it finds the thread in a request for the first and for the second time.
    """

    __slots__ = (
        "_lock",
        "busy_since_ns",
        "next_role",
        "parked_ns",
        "parked_since_ns",
        "role",
        "seen_since_ns",
        "stalled_since_ns",
        "thread",
    )

    def __init__(self) -> None:
        self._lock = machine.Lock()
        self._lock.acquire()
        self.parked_ns = 0
        self.parked_since_ns = 0
        self.busy_since_ns = 0
        self.seen_since_ns = 0
        self.stalled_since_ns = 0
        self.thread: machine.Thread | None = None
        self.role: IRole | None = None
        self.next_role: IRole | None = None
        """The role that the thread takes after the current one."""

    def park(self, timeout_s: float) -> bool:
        """Sleep until woken; return False after ``timeout_s`` seconds."""
        return self._lock.acquire(timeout=timeout_s)

    def wake(self) -> None:
        """Wake the thread. Called once each time the parker is removed from the idle ones."""
        self._lock.release()

    @property
    def is_stalled(self) -> bool:
        """Whether the thread has been in its request for at least the time between two checks."""
        since = self.busy_since_ns
        return since != 0 and self.stalled_since_ns == since

    @property
    def is_at_work(self) -> bool:
        """Whether the thread is in a request and not stalled: it takes the next one soon."""
        since = self.busy_since_ns
        return since != 0 and self.stalled_since_ns != since

    def check_stall(self) -> None:
        """Mark the thread as stalled if it was in the same request at the last check. Called by the stall watch.

        Clocks would not do: a thread that loses its CPU for a moment while it holds the interpreter lock lets nobody else look, and
        has finished by the next time.
        """
        since = self.busy_since_ns
        if since and since == self.seen_since_ns:
            self.stalled_since_ns = since
        self.seen_since_ns = since

    def end_idle(self, now_ns: int) -> None:
        """Count the time since the thread became idle. Called by the thread that removed the parker from the idle ones."""
        since = self.parked_since_ns
        if since:
            self.parked_since_ns = 0
            self.parked_ns += now_ns - since

    def start(self, role: IRole) -> None:
        """Start a thread with ``role``. Raises RuntimeError if the system refuses another thread."""
        self.thread = make_thread(lambda: self._run(role), role.name)
        self.thread.start()

    def _run(self, role: IRole | None) -> None:
        while role is not None:
            self.role, self.next_role = role, None
            role.run(self)
            role = self.next_role


def exchange_roles(leader: Parker, follower: Parker) -> None:
    """Exchange the roles and names of two threads. Each takes the new role when it next checks ``next_role``."""
    leader.next_role, follower.next_role = follower.role, leader.role
    if leader.thread is not None and follower.thread is not None:
        leader.thread.name, follower.thread.name = follower.thread.name, leader.thread.name
