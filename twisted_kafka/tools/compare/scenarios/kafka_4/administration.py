"""DescribeGroups v6, DeleteGroups v3, ListTransactions v2, ListConfigResources v1, UpdateFeatures v2."""

from functools import partial

from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from twisted_kafka.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import DeleteGroupsRequest, DescribeGroupsRequest
from twisted_kafka.protocol.messages.coordinators.transaction_admin import ListTransactionsRequest
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.scenarios.coordinators.groups import commit, joined
from twisted_kafka.tools.compare.talk import SCENARIOS_OF_KAFKA_4, Talk, scenario

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
newer = partial(scenario, registry=SCENARIOS_OF_KAFKA_4)


def groups(talk: Talk) -> list[str]:
    """Make groups of several kinds; return their ids, and the ones of groups that do not exist."""
    topic = talk.create("t")
    talk.known(topic)
    classic, consumer, empty = (talk.topic(name) for name in ("classic", "consumer", "empty"))
    joined(talk, classic)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=consumer,
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    talk.ask(heartbeat, 1, note=False)
    talk.ask(commit(2, empty, topic), 2, note=False)
    return [classic, consumer, empty, talk.topic("missing")]


@newer(DescribeGroupsRequest, since=6)
def describe_missing_groups(talk: Talk, version: int) -> None:
    for name in groups(talk):
        talk.ask(DescribeGroupsRequest(groups=[name]), version)


@newer(DeleteGroupsRequest, since=3)
def delete_groups_of_all_kinds(talk: Talk, version: int) -> None:
    for name in groups(talk):
        talk.ask(DeleteGroupsRequest(groups_names=[name]), version)


@newer(ListTransactionsRequest, since=2)
def list_transactions_by_pattern(talk: Talk, version: int) -> None:
    names = [talk.topic(name) for name in ("one", "Two")]
    for name in names:
        talk.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 5, note=False)
    prefix = talk.topic("")
    for pattern in (
        f"{prefix}.*",
        f"{prefix}o",
        f"{prefix}one",
        f"(?i){prefix}two",
        "nothing",
        "a(",
        "x**",
        "[z-a]",
        r"\p{Lower}+",
    ):
        for states in ([], ["Nothing"], ["Empty"]):
            request = ListTransactionsRequest(transactional_id_pattern=pattern, state_filters=states)
            answer = talk.ask(request, version, note=False)
            answer.transaction_states.sort(key=lambda each: each.transactional_id)
            talk.answers.append((f"ListTransactionsRequest v{version}", plain(answer)))
    for absent in (None, ""):
        found = talk.ask(ListTransactionsRequest(transactional_id_pattern=absent), version, note=False).transaction_states
        own = sorted(each.transactional_id for each in found if each.transactional_id in names)
        talk.answers.append((f"ListTransactionsRequest v{version}", own))


@newer(ListConfigResourcesRequest, since=1)
def list_config_resources(talk: Talk, version: int) -> None:
    own = {TOPIC: talk.create("t"), CLIENT_METRICS: talk.topic("metrics"), GROUP: talk.topic("group")}
    talk.known(own[TOPIC])
    for kind, key, value in ((CLIENT_METRICS, "interval.ms", "1000"), (GROUP, "consumer.session.timeout.ms", "50000")):
        change = IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind,
            resource_name=own[kind],
            configs=[IncrementalAlterConfigsRequestAlterableConfig(name=key, value=value)],
        )
        talk.ask(IncrementalAlterConfigsRequest(resources=[change]), 1, note=False)

    def is_listed() -> bool:
        answer = talk.ask(ListConfigResourcesRequest(resource_types=[GROUP]), version, note=False)
        return own[GROUP] in [each.resource_name for each in answer.config_resources]

    talk.until(is_listed, f"{own[GROUP]} is not listed")  # with KRaft, the broker hears later of it than is answered
    for kinds in ([], [TOPIC], [BROKER], [LOGGER], [CLIENT_METRICS], [GROUP], [GROUP, TOPIC, GROUP], [0], [1], [99], [GROUP, 99]):
        answer = talk.ask(ListConfigResourcesRequest(resource_types=kinds), version, note=False)
        found = sorted(
            (each.resource_type, each.resource_name)
            for each in answer.config_resources
            if each.resource_type in (BROKER, LOGGER) or each.resource_name in own.values()
        )
        talk.answers.append((f"ListConfigResourcesRequest v{version}", {"error_code": answer.error_code, "found": found}))


@newer(UpdateFeaturesRequest, since=2)
def update_features_together(talk: Talk, version: int) -> None:
    """Validate only: the levels of the brokers under comparison stay."""
    for updates in (
        [("transaction.version", 2, 1)],
        [("nothing", 1, 1)],
        [("transaction.version", 9, 1)],
        [("transaction.version", 2, 1), ("nothing", 1, 1)],
        [("transaction.version", 1, 7)],
        [("", 1, 1)],
        [],
    ):
        keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
        talk.ask(UpdateFeaturesRequest(timeout_ms=10_000, validate_only=True, feature_updates=keys), version)
