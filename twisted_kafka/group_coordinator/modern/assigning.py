"""Runs an assignor, which may be a user's, and checks its result."""

from collections.abc import Callable, Mapping

from twisted.logger import Logger

from twisted_kafka.group_coordinator.assignors.interface import AssignmentError, ConsumerGroupAssignor, GroupSpec
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import Partitions
from twisted_kafka.protocol.errors import UnknownServerError

_log = Logger()


def is_old_enough(assigned_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Return whether a target assignment computed at ``assigned_ms`` is old enough for another one (KIP-1263).

    It is if the clock is before ``assigned_ms``: it was wrong then, or is now.
    """
    return not 0 <= now_ms - assigned_ms < interval_ms


def assign(
    group_id: str,
    epoch: int,
    assignor: ConsumerGroupAssignor,
    spec: GroupSpec,
    check: Callable[[GroupSpec, Mapping[str, Partitions]], None],
) -> Mapping[str, Partitions]:
    """Return each member's partitions; ``check`` raises AssignmentError for an invalid assignment.

    Raises UnknownServerError if the assignor fails.
    """
    try:
        assignment = assignor.assign(spec)
        check(spec, assignment)
    except AssignmentError as error:
        _log.error("Group {group}: assignor {name} failed: {error}", group=group_id, name=assignor.name, error=error)
        raise UnknownServerError(f"Failed to compute a new target assignment for epoch {epoch}: {error}") from error
    except Exception as error:
        _log.failure("Group {group}: assignor {name} failed", group=group_id, name=assignor.name)
        raise UnknownServerError(f"Failed to compute a new target assignment for epoch {epoch}: {error}") from error
    return assignment
