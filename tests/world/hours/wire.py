"""Requests for which aiokafka has no method: group members of the consumer protocol, reassignments, elections."""

import asyncio
from typing import Any, Final

from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_S: Final = 10.0


class Wire:
    """A connection to one broker of a world."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._number = 0

    async def ask(self, key: ApiKey, request: Message, version: int) -> Any:
        """Return the response. Raises OSError, which includes TimeoutError; the next request has a new connection then."""
        try:
            return await asyncio.wait_for(self._ask(key, request, version), TIMEOUT_S)
        except (OSError, EOFError) as error:
            self.close()
            raise OSError(f"{key.title}: {error}") from error

    async def _ask(self, key: ApiKey, request: Message, version: int) -> Any:
        if self._streams is None:
            host, _, port = self._server.partition(":")
            self._streams = await asyncio.open_connection(host, int(port))
        reader, writer = self._streams
        self._number += 1
        frame = encode_request_header(key, version, self._number, "wire") + request.encode(version)
        writer.write(len(frame).to_bytes(4, "big") + frame)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        _, at = parse_response_header(key, version, answer)
        return response_class(key).decode(answer, version, at)

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Cluster:
    """Connections to all brokers."""

    def __init__(self, servers: str) -> None:
        self._wires = {number: Wire(server) for number, server in enumerate(servers.split(","), 1)}

    async def ask_each(self, key: ApiKey, request: Message, version: int, code_of: Any) -> Any:
        """Ask one broker after the other until one answers without an error; raises OSError."""
        for wire in self._wires.values():
            try:
                response = await wire.ask(key, request, version)
            except OSError:
                continue
            if code_of(response) == 0:
                return response
        raise OSError(f"{key.title}: no broker can do it")

    async def coordinator(self, group: str) -> Wire:
        """Return the connection to a group's coordinator; raises OSError."""
        request = FindCoordinatorRequest(coordinator_keys=[group])
        response = await self.ask_each(ApiKey.FIND_COORDINATOR, request, 4, lambda each: each.coordinators[0].error_code)
        return self._wires[response.coordinators[0].node_id]

    async def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition of a topic, -1 for none; raises OSError."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await self.ask_each(ApiKey.METADATA, request, 9, lambda each: each.topics[0].error_code)
        return {each.partition_index: each.leader_id for each in response.topics[0].partitions}

    def wire(self, broker: int) -> Wire:
        """Return the connection to a broker."""
        return self._wires[broker]

    def close(self) -> None:
        """Close all connections."""
        for wire in self._wires.values():
            wire.close()
