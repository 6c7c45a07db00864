"""Which quota applies to a client. (Kafka: ClientQuotaCallback, KIP-257, and ClientQuotaManager's DefaultQuotaCallback.)

Of the quotas that match a client, the first in this order applies:

    1  the user and the client id               /config/users/alice/clients/app
    2  the user, any client id                  /config/users/alice/clients/<default>
    3  the user                                 /config/users/alice
    4  any user, the client id                  /config/users/<default>/clients/app
    5  any user, any client id                  /config/users/<default>/clients/<default>
    6  any user                                 /config/users/<default>
    7  the client id                            /config/clients/app
    8  any client id                            /config/clients/<default>

Clients with the same metric tags share a quota. A user's quota (3 and 6) is shared by all its clients, a client id's (7 and 8) by
all users; the others are for each pair of user and client id.
"""

# ruff: noqa: N805 - the methods of a zope interface have no self

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from zope.interface import Interface, implementer

from twisted_kafka.metadata.cache import MetadataSnapshot
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.quota.entities import CLIENT_ID, USER, entity_name, node_name


class ClientQuotaType(Enum):
    """What a quota limits; the values are the types of the metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


class AnyName(Enum):
    """Stands for the default entity, which has no name of its own."""

    DEFAULT = "<default>"


DEFAULT: Final = AnyName.DEFAULT


class QuotaEntity(NamedTuple):
    """The client of a quota: a user, a client id, or both, each a name or DEFAULT. (Kafka: ClientQuotaEntity.)"""

    user: str | AnyName | None = None
    client_id: str | AnyName | None = None


class IClientQuotaCallback(Interface):
    """Decides which quota applies to which client: the class that ``client.quota.callback.class`` names.

    The methods are called on several threads at a time. Clients with the same tags share one quota. (Kafka: ClientQuotaCallback.)
    """

    def configure(configs: Mapping[str, str]) -> None:
        """Called first, with the broker's settings as text."""

    def quota_metric_tags(quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str) -> Mapping[str, str]:
        """Return the tags of the client's metrics; an empty value means that the tag does not matter."""

    def quota_limit(quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Return the limit of the clients with these tags; None if they have no limit."""

    def update_quota(quota_type: ClientQuotaType, entity: QuotaEntity, limit: float) -> None:
        """Called for every quota that is set, at the start and later."""

    def remove_quota(quota_type: ClientQuotaType, entity: QuotaEntity) -> None:
        """Called when a quota is removed."""

    def quota_reset_required(quota_type: ClientQuotaType) -> bool:
        """Return True once after limits have changed without ``update_quota``: the broker then reads all limits again."""

    def update_cluster_metadata(cluster: MetadataSnapshot) -> bool:
        """Called after the metadata cache has changed, with its snapshot. Return whether limits may have changed."""

    def close() -> None:
        """Release resources, as the broker stops."""


_Key = tuple[str | AnyName | None, str | AnyName | None]


@implementer(IClientQuotaCallback)
class DefaultQuotaCallback:
    """Applies the quotas as they are set, by the order of precedence. One object serves one type of quota."""

    def __init__(self) -> None:
        self._limits: dict[_Key, float] = {}
        """Changed in single steps, as other threads read it. A new dictionary for each of a million quotas would take hours."""
        self._has_clients = self._has_users = self._has_pairs = False

    def configure(self, configs: Mapping[str, str]) -> None: ...

    def quota_metric_tags(self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str) -> dict[str, str]:
        """Return the user and the client id, as far as the quota that applies names them."""
        user = principal.name
        has_user, has_client = self._levels(user, client_id)
        return {USER: node_name(user) if has_user else "", CLIENT_ID: client_id if has_client else ""}

    def _levels(self, user: str, client_id: str) -> tuple[bool, bool]:
        """Return whether user and client id are among the tags.

        With quotas of one level only, all clients have its tags, whether a quota applies to them or not, as in Kafka.
        """
        enabled = (self._has_users, self._has_clients, self._has_pairs)
        if not any(enabled) or enabled == (False, True, False):
            return False, True
        if enabled == (True, False, False):
            return True, False
        if enabled == (False, False, True):
            return True, True
        limits = self._limits
        if (user, client_id) in limits or (user, DEFAULT) in limits:
            return True, True
        if (user, None) in limits:
            return True, False
        if (DEFAULT, client_id) in limits or (DEFAULT, DEFAULT) in limits:
            return True, True
        if (DEFAULT, None) in limits:
            return True, False
        return False, True

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Return the limit of the first quota in the order of precedence."""
        user, client_id = entity_name(metric_tags.get(USER, "")), metric_tags.get(CLIENT_ID, "")
        keys: tuple[_Key, ...] = ()
        if user and client_id:
            keys = ((user, client_id), (user, DEFAULT), (DEFAULT, client_id), (DEFAULT, DEFAULT))
        elif user:
            keys = ((user, None), (DEFAULT, None))
        elif client_id:
            keys = ((None, client_id), (None, DEFAULT))
        limits = (self._limits.get(key) for key in keys)  # another thread may remove one between two lookups
        return next((limit for limit in limits if limit is not None), None)

    def update_quota(self, quota_type: ClientQuotaType, entity: QuotaEntity, limit: float) -> None:
        """Set a quota."""
        self._note_level(entity)
        self._limits[entity] = limit

    def remove_quota(self, quota_type: ClientQuotaType, entity: QuotaEntity) -> None:
        """Remove a quota."""
        self._note_level(entity)
        self._limits.pop(entity, None)

    def would_change(self, entity: QuotaEntity, limit: float | None) -> bool:
        """Return whether anything changes if this is the quota of an entity, None for no quota."""
        return self._limits.get(entity) != limit or not self._has_level(entity)

    def _has_level(self, entity: QuotaEntity) -> bool:
        if entity.user is None:
            return self._has_clients
        return self._has_users if entity.client_id is None else self._has_pairs

    def _note_level(self, entity: QuotaEntity) -> None:
        if entity.user is None:
            self._has_clients = True
        elif entity.client_id is None:
            self._has_users = True
        else:
            self._has_pairs = True

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """Return False: limits change by ``update_quota`` and ``remove_quota`` only."""
        return False

    def update_cluster_metadata(self, cluster: MetadataSnapshot) -> bool:
        """Return False: the cluster does not matter."""
        return False

    def close(self) -> None: ...
