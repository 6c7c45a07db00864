"""Members of simulated groups that send heartbeats, and what happens to them and to the coordinator."""

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import Bench
from twisted_kafka.protocol.errors import ErrorCode, KafkaError

FAILURES = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)


class HeartbeatingMember:
    """A member as clients are: one request at a time, and a full one after a loss."""

    def __init__(self, number: int, chance: random.Random, is_static: bool) -> None:
        self.number = number
        self.chance = chance
        self.instance_id = f"i{number}" if is_static else None
        self.lives = 0
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.member_id = f"m{self.number}.{self.lives}"
        self.asked: Any = None
        self.reset()

    def reset(self) -> None:
        """Join anew, with nothing."""
        self.epoch, self.is_full = 0, True

    def step(self, bench: Bench, loses: bool) -> None:
        """Send a heartbeat, or look whether the last one was answered; ``loses``: the request or its answer gets lost."""
        if self.asked is None:
            if loses and self.chance.random() < 0.5:
                self.is_full = True
                return
            self.asked = self.send(bench)
        if isinstance(self.asked, Future) and not self.asked.done():
            return
        answer, self.asked = self.asked, None
        if loses:
            self.is_full = True
            return
        try:
            self.got(answer.result() if isinstance(answer, Future) else answer)
        except KafkaError as error:
            self.got(error.code)

    def send(self, bench: Bench) -> Any:
        """Send a heartbeat; return the answer, a future of it, or an error code."""
        raise NotImplementedError

    def got(self, answer: Any) -> None:
        """Take an answer or an error code."""
        raise NotImplementedError

    def away(self, bench: Bench) -> None:
        """Leave for a while, as a static member that is restarted does."""
        raise NotImplementedError


def disturb(
    chance: random.Random,
    bench: Bench,
    members: list[Any],
    spare: list[Any],
    change_topics: Callable[[float], None],
    restarted: Callable[[], None] = lambda: None,
) -> None:
    """Let one thing happen, or none: joins, a death, an append that fails or waits, a restart.

    ``change_topics`` gets the number drawn, which is 0.37 or more. ``restarted`` is called after a restart of the coordinator.
    """
    what = chance.random()
    if what < 0.1 and spare:
        members.extend(spare.pop() for _ in range(min(len(spare), chance.choice((1, 3)))))
    elif what < 0.14 and len(members) > 2:
        dead = members.pop(chance.randrange(len(members)))
        dead.restart()
        spare.append(dead)
    elif what < 0.17:
        statics = [member for member in members if member.instance_id]
        if statics:
            chance.choice(statics).away(bench)
    elif what < 0.2:
        bench.log.fail_next.append(chance.choice(FAILURES))
    elif what < 0.23:
        bench.log.holds = True
    elif what < 0.35 and bench.log.holds:
        bench.log.release(chance.choice((ErrorCode.NONE, *FAILURES)))
    elif what < 0.37:
        bench.log.release()
        bench.restart()
        restarted()
    else:
        change_topics(what)
