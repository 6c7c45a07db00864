"""The ACLs of nodes in ZooKeeper (Kafka: ``ZkData.defaultAcls``, ``zookeeper.set.acl``)."""

from typing import Final

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Nodes with credentials and passwords: nobody but their creator may read them."""

_OPEN_TO_CONSUMERS: Final = "/consumers"
"""Consumers of old clients write below this node themselves."""


def acls_of(path: str, *, secure: bool) -> list[object]:
    """Return the ACLs of a new node. Secure: only its creator may change it, and all clients may read it unless it is sensitive."""
    if not secure or path == _OPEN_TO_CONSUMERS:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(SENSITIVE):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
