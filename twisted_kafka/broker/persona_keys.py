"""The keys of brokers, topics and groups by version of Kafka, and the defaults that have changed.

They come from the answers of 0.11.0.3, 2.8.2, 3.9.2 and 4.1.0 to DescribeConfigs; tests/oracle/test_personas.py compares them.
"""

from collections.abc import Mapping
from typing import Final

from twisted_kafka.config.broker_config import Edition
from twisted_kafka.config.keys import EXTENSION_KEYS, KAFKA_4_KEYS, KAFKA_4_TOPIC_KEYS
from twisted_kafka.config.keys.groups import GROUP_KEYS

_SINCE_2_8: Final = """
alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds client.quota.callback.class
connection.failed.authentication.delay.ms connections.max.reauth.ms control.plane.listener.name controller.quota.window.num
controller.quota.window.size.seconds delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
delegation.token.master.key delegation.token.max.lifetime.ms delegation.token.secret.key fetch.max.bytes group.max.size
kafka.metrics.polling.interval.secs kafka.metrics.reporters log.cleaner.max.compaction.lag.ms
log.message.downconversion.enable max.compaction.lag.ms max.connection.creation.rate max.connections
max.incremental.fetch.session.cache.slots message.downconversion.enable num.replica.alter.log.dirs.threads
password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret queued.max.request.bytes
replica.selector.class sasl.client.callback.handler.class sasl.jaas.config sasl.login.callback.handler.class
sasl.login.class sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.server.callback.handler.class sasl.server.max.receive.size security.providers
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms ssl.engine.factory.class
ssl.keystore.certificate.chain ssl.keystore.key ssl.principal.mapping.rules ssl.truststore.certificates
zookeeper.clientCnxnSocket zookeeper.max.in.flight.requests zookeeper.ssl.cipher.suites zookeeper.ssl.client.enable
zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols zookeeper.ssl.endpoint.identification.algorithm
zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
"""

_SINCE_3_9: Final = """
alter.config.policy.kraft.compatibility.enable auto.include.jmx.reporter broker.heartbeat.interval.ms
broker.session.timeout.ms compression.gzip.level compression.lz4.level compression.zstd.level controller.listener.names
controller.quorum.append.linger.ms controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
controller.quorum.retry.backoff.ms controller.quorum.voters early.start.listeners eligible.leader.replicas.enable
group.consumer.assignors group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.min.heartbeat.interval.ms
group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms group.coordinator.append.linger.ms
group.coordinator.rebalance.protocols group.coordinator.threads group.share.delivery.count.limit
group.share.heartbeat.interval.ms group.share.max.groups group.share.max.heartbeat.interval.ms
group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.size
group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
initial.broker.registration.timeout.ms local.retention.bytes local.retention.ms log.dir.failure.timeout.ms
log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
max.request.partition.size.limit message.timestamp.after.max.ms message.timestamp.before.max.ms metadata.log.dir
metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms node.id
process.roles producer.id.expiration.ms remote.fetch.max.wait.ms remote.log.copy.disable remote.log.delete.on.disable
remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
remote.log.reader.threads remote.log.storage.manager.class.name remote.log.storage.manager.class.path
remote.log.storage.manager.impl.prefix remote.log.storage.system.enable remote.storage.enable sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url socket.listen.backlog.size ssl.allow.dn.changes
ssl.allow.san.changes telemetry.max.bytes transaction.partition.verification.enable zookeeper.metadata.migration.enable
"""

_GONE_IN_4_1: Final = """
alter.config.policy.kraft.compatibility.enable auto.include.jmx.reporter broker.id.generation.enable
control.plane.listener.name controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms delegation.token.master.key
eligible.leader.replicas.enable group.share.max.groups inter.broker.protocol.version leader.imbalance.per.broker.percentage
log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
message.downconversion.enable message.format.version message.timestamp.difference.max.ms offsets.commit.required.acks
password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret reserved.broker.max.id
zookeeper.clientCnxnSocket zookeeper.connect zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
zookeeper.metadata.migration.enable zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.ssl.cipher.suites
zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password
zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location
zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
"""


_SINCE_4_4: Final = """
cordoned.log.dirs max.decompressed.message.bytes group.coordinator.cached.buffer.max.bytes
share.coordinator.cached.buffer.max.bytes
group.consumer.assignment.interval.ms group.consumer.assignor.offload.enable group.consumer.max.assignment.interval.ms
group.consumer.min.assignment.interval.ms group.share.assignment.interval.ms group.share.assignor.offload.enable
group.share.max.assignment.interval.ms group.share.max.delivery.count.limit group.share.max.partition.max.record.locks
group.share.min.assignment.interval.ms group.share.min.delivery.count.limit group.share.min.partition.max.record.locks
group.streams.acceptable.recovery.lag group.streams.assignment.interval.ms group.streams.assignor.offload.enable
group.streams.assignors group.streams.max.assignment.interval.ms group.streams.max.warmup.replicas
group.streams.min.assignment.interval.ms group.streams.min.task.offset.interval.ms group.streams.num.warmup.replicas
group.streams.rack.aware.assignment.tags group.streams.task.offset.interval.ms
group.streams.topology.description.plugin.class
consumer.assignment.interval.ms consumer.assignor.offload.enable errors.deadletterqueue.copy.record.enable
errors.deadletterqueue.topic.name errors.deadletterqueue.topic.name.prefix errors.deadletterqueue.auto.create.topics.enable
errors.deadletterqueue.group.enable share.assignment.interval.ms share.assignor.offload.enable share.delivery.count.limit
share.partition.max.record.locks share.renew.acknowledge.enable streams.acceptable.recovery.lag
streams.assignment.interval.ms streams.assignor.name streams.assignor.offload.enable streams.num.warmup.replicas
streams.rack.aware.assignment.tags streams.task.offset.interval.ms
"""

_SINCE_4_2: Final = "group.streams.initial.rebalance.delay.ms"

_SINCE_4: Final = " ".join(
    KAFKA_4_KEYS | KAFKA_4_TOPIC_KEYS | GROUP_KEYS.keys() - {"consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"}
)


def _hidden(*words: str) -> frozenset[str]:
    return EXTENSION_KEYS.union(*(each.split() for each in words))


_CLASSIC: Final = {"group.coordinator.rebalance.protocols": "classic"}

_DEFAULTS_OF_3_9: Final = {"group.share.partition.max.record.locks": "200"}

_DEFAULTS_OF_4: Final = {
    "group.coordinator.threads": "4",
    "log.message.timestamp.after.max.ms": "3600000",  # KIP-1030, as the rest
    "num.recovery.threads.per.data.dir": "2",
}

_DEFAULTS_OF_4_1: Final = {"group.coordinator.append.linger.ms": "5", "share.coordinator.append.linger.ms": "5"}
_DEFAULTS_OF_4_2: Final = {"sasl.oauthbearer.expected.audience": ""}

_DEFAULTS_OF_4_4: Final = {"group.consumer.assignment.interval.ms": "1000"}

_NO_FEATURES: Final[Mapping[str, int]] = {}
_FEATURES_OF_4_1: Final = {"group.version": 1, "transaction.version": 2}
_FEATURES_OF_4_2: Final = _FEATURES_OF_4_1 | {"share.version": 1, "streams.version": 1}
_FEATURES_OF_4_4: Final = _FEATURES_OF_4_2 | {"share.version": 2}

EDITIONS: Final = {
    "0.11": Edition(
        {
            **_CLASSIC,
            "delete.topic.enable": "false",
            "group.max.session.timeout.ms": "300000",
            "inter.broker.protocol.version": "0.11.0-IV2",
            "log.message.format.version": "0.11.0-IV2",
            "message.max.bytes": "1000012",
            "offsets.retention.minutes": "1440",  # 7 days since 2.0 (KIP-186)
            "replica.lag.time.max.ms": "10000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "60000",
            "zookeeper.session.timeout.ms": "6000",
        },
        _hidden(_SINCE_2_8, _SINCE_3_9, _SINCE_4),
        _NO_FEATURES,
    ),
    "2.8": Edition(
        {**_CLASSIC, "inter.broker.protocol.version": "2.8-IV1", "log.message.format.version": "2.8-IV1"},
        _hidden(_SINCE_3_9, _SINCE_4),
        _NO_FEATURES,
    ),
    "3.9": Edition(_CLASSIC | _DEFAULTS_OF_3_9, _hidden(_SINCE_4), _NO_FEATURES),
    "4.1": Edition(_DEFAULTS_OF_4 | _DEFAULTS_OF_4_1, _hidden(_GONE_IN_4_1, _SINCE_4_2, _SINCE_4_4), _FEATURES_OF_4_1),
    "4.2": Edition(_DEFAULTS_OF_4 | _DEFAULTS_OF_4_2, _hidden(_GONE_IN_4_1, _SINCE_4_4), _FEATURES_OF_4_2),
    "4.4": Edition(_DEFAULTS_OF_4 | _DEFAULTS_OF_4_2 | _DEFAULTS_OF_4_4, _hidden(_GONE_IN_4_1), _FEATURES_OF_4_4),
}
"""By the persona's name."""
