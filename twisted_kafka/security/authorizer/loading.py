"""Makes the authorizer that ``authorizer.class.name`` names."""

from typing import Any, Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.python_class import instance_of
from twisted_kafka.metadata.store import IMetadataStore, StoreError
from twisted_kafka.security.authorizer.acl_authorizer import AclAuthorizer
from twisted_kafka.security.authorizer.audit_log import AuditLog
from twisted_kafka.security.authorizer.interfaces import IAuthorizer
from twisted_kafka.timing.clock import IClock

KEY: Final = "authorizer.class.name"

ACL_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
"""Apache Kafka's classes, for which the AclAuthorizer here stands."""


def make_authorizer(config: KafkaConfig, store: IMetadataStore, clock: IClock, audit: AuditLog) -> Any:
    """Return the configured authorizer, None without one. Raises ConfigError, StoreError: a broker that is to authorize never runs
    without.
    """
    name = config.string(KEY).strip()
    if not name:
        return None
    if name in ACL_AUTHORIZERS:
        authorizer: Any = AclAuthorizer(store, clock, audit)
    else:
        authorizer = instance_of(name, KEY, sorted(IAuthorizer.names()))
    try:
        authorizer.configure(dict(config.originals))
    except (ConfigError, StoreError):
        raise
    except Exception as error:
        raise ConfigError(f"Invalid value {name!r} for {KEY}: it cannot be configured ({error})") from error
    return authorizer
