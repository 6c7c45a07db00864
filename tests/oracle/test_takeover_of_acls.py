"""ACLs that either broker made are the other's when it takes over the metadata."""

from pathlib import Path
from typing import Any

import pytest

from tests.oracle.metadata_trees import Tree, put_into_store, put_into_zookeeper, tree_of_store, tree_of_zookeeper
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.authorization_matrix import in_order
from twisted_kafka.tools.compare.scenarios.administration.acls import GROUP, PREFIXED, USER, create, creation, deleted, described
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

VERSION = 3
SETTINGS = {
    "broker.id": 1,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def acls_of(port: int, *, made: str, taken: str | None = None) -> Any:
    """Make some ACLs, delete others, and return all."""
    talk = Talk(port, made)
    create(
        talk,
        VERSION,
        creation(f"{made}.größe"),
        creation(f"{made}.größe", permission_type=2, principal="User:CN=b:c,O=d", host="::1", operation=10),
        creation(f"{made}.", resource_pattern_type=PREFIXED, operation=2),
        creation("*", resource_type=GROUP, principal=f"User:{made}"),
        creation("User:bob", resource_type=USER, principal=f"User:{made}", operation=13),
    )
    if taken is not None:
        deleted(talk, VERSION, {"resource_name_filter": f"{taken}.größe"}, {"principal_filter": f"User:{taken}", "operation": 13})
    talk.answers.clear()
    described(talk, VERSION)
    talk.close()
    ((_, answer),) = talk.answers
    return in_order(answer)


def all_of(port: int) -> Any:
    talk = Talk(port, "all")
    described(talk, VERSION)
    talk.close()
    ((_, answer),) = talk.answers
    return in_order(answer)


def of_acls(tree: Tree) -> Tree:
    return {path: data for path, data in tree.items() if path.startswith("/kafka-acl") and "-changes/" not in path}


def ours(folder: Path) -> ServedBroker:
    return ServedBroker(folder / "data", *(f"{key}={value}" for key, value in SETTINGS.items()))


def store_of(broker: ServedBroker) -> Path:
    (found,) = broker.log_dir.rglob("*.sqlite")
    return found


def test_acls_go_there_and_back(tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    first, second = ours(tmp_path / "first"), ours(tmp_path / "second")
    kafka = ApacheKafka(tmp_path / "kafka", **SETTINGS)  # type: ignore[arg-type]
    for broker in (first, second):
        broker.data.parent.mkdir()
        broker.start()
    try:
        made = acls_of(first.port, made="one")
        first.stop()
        kafka.start_zookeeper()
        put_into_zookeeper(kafka.zookeeper, of_acls(tree_of_store(store_of(first))))
        kafka.start_broker()
        assert all_of(kafka.port) == made
        changed = acls_of(kafka.port, made="two", taken="one")
        assert changed != made
        second.stop()
        put_into_store(store_of(second), of_acls(tree_of_zookeeper(kafka.zookeeper)))
        second.start()
        assert all_of(second.port) == changed
    finally:
        kafka.kill()
        first.kill()
        second.kill()
