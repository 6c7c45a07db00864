"""Whether a change was made whose answer was lost with a connection.

It was sent again, and refused: perhaps because it had been made the first time. All changes of a transaction have one id, which
is greater than any that was known before. Another client may have made a change meanwhile as well, so the data are compared: if it
wrote the same, it does not matter who did. What must have one author has the author's id in it, or is owned by a session.
"""

from collections.abc import Sequence

from twisted_kafka.metadata.store import ANY_VERSION, Check, Create, Delete, Operation, Result, Set, Stat

Found = Sequence[tuple[bytes, Stat] | None]


def was_made(operations: Sequence[Operation], found: Found, after_zxid: int, session_id: int) -> list[Result] | None:
    """Return the results of the operations if they have been made in a transaction after ``after_zxid``, else None.

    ``found`` are the nodes as they are now, in the order of the operations. Changes do not count as made if somebody has changed
    a node since, or if there are several of one node.
    """
    changed = [each.path for each in operations if not isinstance(each, Check)]
    if len(set(changed)) != len(changed):
        return None
    zxids = set()
    results: list[Result] = []
    for operation, node in zip(operations, found, strict=True):
        match operation:
            case Check():
                results.append(None)
            case Delete():
                if node is not None:
                    return None
                results.append(None)
            case Create() | Set():
                zxid = None if node is None else _zxid_of(operation, node, session_id)
                if node is None or zxid is None or zxid <= after_zxid:
                    return None
                zxids.add(zxid)
                results.append(operation.path if isinstance(operation, Create) else node[1])
    return results if len(zxids) <= 1 else None


def _zxid_of(operation: Create | Set, node: tuple[bytes, Stat], session_id: int) -> int | None:
    """Return the transaction that made the change; None if the node does not show that change."""
    data, stat = node
    if data != operation.data:
        return None
    if isinstance(operation, Set):
        return stat.mzxid if operation.expected_version in (ANY_VERSION, stat.version - 1) else None
    owner = session_id if operation.ephemeral else 0
    return stat.czxid if stat.ephemeral_owner == owner and not stat.version and not operation.sequence else None
