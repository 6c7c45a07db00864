"""Groups as resources whose configs clients change (resource type GROUP; Kafka: ``GroupConfig``)."""

from collections.abc import Iterable, Mapping

from zope.interface import implementer

from twisted_kafka.admin.configs import IConfigResource, ensure_list
from twisted_kafka.coordinator.group.group_configs import ENTITY_TYPE, GroupConfigs, node_name
from twisted_kafka.protocol.errors import InvalidRequestError


def group_entity_path(group_id: str) -> str:
    """Return where a group's config is kept; raises InvalidRequestError."""
    if not group_id:
        raise InvalidRequestError("A group has a name: groups have no common config of their own")
    return f"{ENTITY_TYPE}/{node_name(group_id)}"


@implementer(IConfigResource)
class GroupResource:
    """Groups, whether there are any members or not."""

    def __init__(self, configs: GroupConfigs) -> None:
        self._configs = configs

    def entity_path(self, name: str) -> str:
        """Return where the group's config is kept; raises InvalidRequestError."""
        return group_entity_path(name)

    def list_default(self, key: str) -> str:
        """Refuse: no group config is a list."""
        ensure_list(False, key)
        return ""

    def validate(self, name: str, config: Mapping[str, str], changed: Iterable[str]) -> None:
        """Raise InvalidConfigurationError when no group can have this config."""
        self._configs.validate(config)
