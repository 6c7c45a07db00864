"""Which versions of APIs are compared."""

from tests.support.oracle.talk import Talk
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest

KRAFT_ONLY = {68, 69, 75}
"""APIs that Apache Kafka 3.9 serves in KRaft mode only."""


def told_versions(port: int) -> dict[int, tuple[int, int]]:
    talk = Talk(port, "versions")
    answer = talk.ask(ApiVersionsRequest(client_software_name="oracle", client_software_version="1"), 3)
    talk.close()
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
