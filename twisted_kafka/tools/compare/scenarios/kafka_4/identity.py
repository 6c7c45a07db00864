"""ApiVersions v5: clients that name the cluster and the broker that they expect (KIP-1242)."""

from functools import partial

from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.tools.compare.talk import SCENARIOS_OF_KAFKA_4, Talk, scenario

newer = partial(scenario, registry=SCENARIOS_OF_KAFKA_4)


@newer(ApiVersionsRequest, since=5)
def expected_brokers(talk: Talk, version: int) -> None:
    """Note the errors only: the APIs and features are each broker's own."""
    own = talk.ask(MetadataRequest(topics=[]), 12, note=False)
    for cluster_id in (None, own.cluster_id, own.cluster_id.swapcase(), "", "another"):
        for node_id in (-1, own.brokers[0].node_id, 77, -2):
            for software in ("compare", ""):
                request = ApiVersionsRequest(
                    client_software_name=software, client_software_version="1", cluster_id=cluster_id, node_id=node_id
                )
                answer = talk.ask(request, version, note=False)
                found = {"error_code": answer.error_code, "lists": bool(answer.api_keys)}
                talk.answers.append((f"ApiVersionsRequest v{version}", found))
