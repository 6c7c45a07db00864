"""The scenarios by subject. A function asks about one version of one API; importing its module registers it."""

from importlib import import_module
from typing import Final

from twisted_kafka.tools.compare.talk import SCENARIOS, SCENARIOS_OF_KAFKA_4, Scenario

_MODULES: Final = {
    "administration": ("acls", "admin", "broker_keys", "configs", "quotas", "sasl", "two_mistakes"),
    "kafka_4": (
        "administration",
        "compressed",
        "identity",
        "offsets",
        "share_fetches",
        "share_groups",
        "share_offsets",
        "share_states",
        "streams_groups",
        "strange_share_requests",
        "strange_streams_requests",
        "topic_ids",
    ),
    "cluster": ("cluster", "control"),
    "coordinators": ("consumer_groups", "coordinator", "errors", "groups", "members", "transactions"),
    "records": ("data", "formats", "log_dirs", "two_mistakes_data"),
}


def all_scenarios() -> list[Scenario]:
    """Return all scenarios."""
    return [*scenarios_of_kafka_3(), *scenarios_of_kafka_4()]


def scenarios_of_kafka_3() -> list[Scenario]:
    """Return the scenarios of versions that Apache Kafka 3.9 has."""
    _import_all()
    return SCENARIOS


def scenarios_of_kafka_4() -> list[Scenario]:
    """Return the scenarios of newer versions."""
    _import_all()
    return SCENARIOS_OF_KAFKA_4


def _import_all() -> None:
    for folder, modules in _MODULES.items():
        for module in modules:
            import_module(f"{__name__}.{folder}.{module}")
