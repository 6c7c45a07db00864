"""The keys that have an effect in this broker.

Any other key is accepted and shown by DescribeConfigs, and is listed in a warning at start if it is set. Add a key to this list,
and to no other list, when it is implemented.
"""

_BROKER = """
    listeners advertised.listeners listener.security.protocol.map inter.broker.listener.name control.plane.listener.name
    max.connections max.connections.per.ip max.connections.per.ip.overrides max.connection.creation.rate
    num.network.threads num.io.threads background.threads queued.max.requests
    queued.max.request.bytes connection.failed.authentication.delay.ms
    socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes socket.request.max.bytes
    connections.max.idle.ms fetch.max.bytes max.incremental.fetch.session.cache.slots max.request.partition.size.limit

    log.dir log.dirs metadata.log.dir num.partitions auto.create.topics.enable delete.topic.enable message.max.bytes
    compression.type compression.gzip.level compression.lz4.level compression.zstd.level
    log.segment.bytes log.segment.delete.delay.ms log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours
    log.preallocate log.index.size.max.bytes log.index.interval.bytes
    log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms
    log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.message.timestamp.type log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms
    log.message.timestamp.difference.max.ms log.message.downconversion.enable
    log.retention.ms log.retention.minutes log.retention.hours log.retention.bytes log.retention.check.interval.ms
    log.cleaner.enable log.cleaner.threads log.cleaner.io.max.bytes.per.second log.cleaner.dedupe.buffer.size
    log.cleaner.io.buffer.size log.cleaner.io.buffer.load.factor log.cleaner.backoff.ms log.cleaner.min.cleanable.ratio
    log.cleaner.delete.retention.ms log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms
    log.cleanup.policy log.initial.task.delay.ms num.recovery.threads.per.data.dir unclean.leader.election.enable
    producer.id.expiration.ms producer.id.expiration.check.interval.ms

    default.replication.factor min.insync.replicas replica.high.watermark.checkpoint.interval.ms
    replica.fetch.max.bytes replica.fetch.backoff.ms replica.fetch.wait.max.ms replica.fetch.min.bytes
    replica.fetch.response.max.bytes replica.selector.class replica.lag.time.max.ms replica.socket.timeout.ms
    replica.socket.receive.buffer.bytes num.replica.fetchers
    num.replica.alter.log.dirs.threads
    replication.quota.window.num replication.quota.window.size.seconds
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds

    quota.window.num quota.window.size.seconds controller.quota.window.num controller.quota.window.size.seconds
    client.quota.callback.class

    create.topic.policy.class.name alter.config.policy.class.name telemetry.max.bytes

    group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size
    group.coordinator.rebalance.protocols group.consumer.session.timeout.ms group.consumer.min.session.timeout.ms
    group.consumer.max.session.timeout.ms group.consumer.heartbeat.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.size group.consumer.assignors group.consumer.migration.policy
    group.consumer.assignment.interval.ms group.consumer.min.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.share.session.timeout.ms group.share.min.session.timeout.ms group.share.max.session.timeout.ms
    group.share.heartbeat.interval.ms group.share.min.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
    group.share.assignment.interval.ms group.share.min.assignment.interval.ms group.share.max.assignment.interval.ms
    group.share.max.size group.share.assignors group.share.initialize.retry.interval.ms
    group.share.record.lock.duration.ms group.share.min.record.lock.duration.ms group.share.max.record.lock.duration.ms
    group.share.delivery.count.limit group.share.min.delivery.count.limit group.share.max.delivery.count.limit
    group.share.partition.max.record.locks group.share.min.partition.max.record.locks group.share.max.partition.max.record.locks
    group.coordinator.append.linger.ms share.coordinator.append.linger.ms
    group.streams.session.timeout.ms group.streams.min.session.timeout.ms group.streams.max.session.timeout.ms
    group.streams.heartbeat.interval.ms group.streams.min.heartbeat.interval.ms group.streams.max.heartbeat.interval.ms
    group.streams.assignment.interval.ms group.streams.min.assignment.interval.ms group.streams.max.assignment.interval.ms
    group.streams.max.size group.streams.assignors group.streams.initial.rebalance.delay.ms
    group.streams.topology.description.plugin.class
    group.streams.num.standby.replicas group.streams.max.standby.replicas group.streams.acceptable.recovery.lag
    group.streams.task.offset.interval.ms group.streams.min.task.offset.interval.ms group.streams.rack.aware.assignment.tags
    offset.metadata.max.bytes offsets.load.buffer.size offsets.topic.replication.factor offsets.topic.num.partitions
    offsets.topic.segment.bytes offsets.topic.compression.codec offsets.retention.minutes
    offsets.retention.check.interval.ms offsets.commit.timeout.ms offsets.commit.required.acks

    transaction.max.timeout.ms transaction.state.log.replication.factor transaction.state.log.min.isr
    transaction.state.log.num.partitions transaction.state.log.segment.bytes transaction.state.log.load.buffer.size
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.remove.expired.transaction.cleanup.interval.ms transaction.partition.verification.enable
    transactional.id.expiration.ms request.timeout.ms

    cordoned.log.dirs max.decompressed.message.bytes

    errors.deadletterqueue.topic.name.prefix errors.deadletterqueue.auto.create.topics.enable
    group.share.max.share.sessions share.coordinator.load.buffer.size share.coordinator.write.timeout.ms
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.replication.factor
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
    share.coordinator.state.topic.segment.bytes share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.prune.interval.ms share.coordinator.cold.partition.snapshot.interval.ms

    delegation.token.secret.key delegation.token.master.key delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
    delegation.token.expiry.check.interval.ms

    password.encoder.secret password.encoder.old.secret password.encoder.cipher.algorithm
    password.encoder.keyfactory.algorithm password.encoder.key.length password.encoder.iterations

    auto.leader.rebalance.enable leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage
    controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms controller.socket.timeout.ms
    inter.broker.protocol.version security.inter.broker.protocol
    socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms

    broker.id broker.id.generation.enable reserved.broker.max.id broker.rack node.id

    authorizer.class.name

    zookeeper.connect zookeeper.session.timeout.ms zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
    zookeeper.set.acl zookeeper.auth.digest zookeeper.sasl.jaas.config zookeeper.clientCnxnSocket
    zookeeper.metadata.migration.enable
    zookeeper.ssl.client.enable zookeeper.ssl.cipher.suites zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
    zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol
    zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type
    zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type

    ssl.protocol ssl.enabled.protocols ssl.cipher.suites ssl.client.auth ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type ssl.principal.mapping.rules ssl.allow.dn.changes ssl.allow.san.changes
    ssl.handshake.timeout.ms ssl.handshake.max.pending connection.failed.authentication.delay.ms

    principal.builder.class sasl.enabled.mechanisms sasl.jaas.config sasl.server.callback.handler.class sasl.server.max.receive.size
    sasl.mechanism.inter.broker.protocol sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.kerberos.service.name sasl.kerberos.principal.to.local.rules sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.window.factor sasl.kerberos.ticket.renew.jitter
    connections.max.reauth.ms sasl.server.authentication.timeout.ms sasl.server.authentication.max.pending

    access.log.enable access.log.dir access.log.queue.size access.log.write.interval.ms access.log.roll.bytes
    access.log.roll.ms access.log.max.topics access.log.max.partitions access.log.archive.format access.log.retention.hours
    access.log.retention.bytes access.log.sample.rate access.log.sample.slow.ms access.log.fields.exclude access.log.fields.hash
    access.log.hash.key access.log.topic.enable access.log.topic.num.partitions access.log.queue.bytes metrics.listener
    console.listener console.write.enable console.session.timeout.ms console.hosts
    dynamic.class.names coordinator.load.skip.damaged.batches
"""

_TOPIC = """
    cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    errors.deadletterqueue.group.enable delete.retention.ms max.compaction.lag.ms min.cleanable.dirty.ratio min.compaction.lag.ms
    file.delete.delay.ms flush.messages flush.ms index.interval.bytes max.message.bytes message.downconversion.enable
    max.decompressed.message.bytes
    message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
    leader.replication.throttled.replicas follower.replication.throttled.replicas
    message.timestamp.type min.insync.replicas preallocate segment.bytes segment.index.bytes segment.jitter.ms segment.ms
    retention.bytes retention.ms unclean.leader.election.enable
"""

HONOURED: frozenset[str] = frozenset(_BROKER.split())
"""Broker keys with an effect."""

PLUGIN_HONOURED: frozenset[str] = frozenset(("super.users", "allow.everyone.if.no.acl.found"))
"""Settings of Kafka's plug-in classes with an effect. The broker does not declare them."""

TOPIC_HONOURED: frozenset[str] = frozenset(_TOPIC.split())
"""Topic keys with an effect."""
