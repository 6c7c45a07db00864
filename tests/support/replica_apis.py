"""The families over the replica manager, called as a client does: requests and responses go through their wire form."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.support.replication_harness import Harness
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.fetch import FetchRequest
from twisted_kafka.protocol.messages.list_offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from twisted_kafka.protocol.messages.produce import ProduceRequest
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.server.apis.data.fetch import FetchApis
from twisted_kafka.server.apis.data.offsets import OffsetApis
from twisted_kafka.server.apis.data.produce import ProduceApis
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import ApiRegistry, Later, Outcome
from twisted_kafka.server.fetch_session import FetchSessionCache
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.verification import TransactionVerification
from twisted_kafka.waiting.futures import when_done


class Apis(Harness):
    def __init__(self, directory: Path, *, authorization: IAuthorization = ALLOW_ALL, **properties: Any) -> None:
        super().__init__(directory, **properties)
        self.ask_coordinator: Callable[..., ErrorCode] = lambda *_: ErrorCode.INVALID_PRODUCER_ID_MAPPING
        """The coordinator of all transactional ids; by default it knows none."""
        self.add_partitions: Callable[..., ErrorCode | Future[ErrorCode]] = lambda *_: ErrorCode.INVALID_PRODUCER_ID_MAPPING
        """What it does to add partitions."""
        self.quotas = QuotaManagers(self.config, self.clock, self.metrics, Timer(self.clock))
        self.sessions = FetchSessionCache(10, self.clock, self.metrics)
        self.registry = ApiRegistry(
            [
                ProduceApis(
                    self.replicas,
                    TransactionVerification(
                        self.replicas,
                        lambda name, who, partitions: {each: self.ask_coordinator(each, name, who) for each in partitions},
                        lambda name, who, partitions, version: when_done(
                            self.add_partitions(name, who, partitions, version), lambda error: dict.fromkeys(partitions, error)
                        ),
                        self.metrics,
                    ),
                    authorization,
                ),
                FetchApis(self.replicas, self.sessions, self.config, self.clock, self.quotas, authorization),
                OffsetApis(self.replicas, authorization),
            ]
        )
        self.context: Any = None
        self.is_direct = True
        """Whether the way past the messages is tried first, as the broker does."""
        self.is_together = False
        """Whether, before that, the way is tried that several requests go together."""
        self.frame = bytearray()
        """The last request's."""
        self.message: Any = None
        """What the broker keeps of the last request until it is answered."""

    def start(
        self,
        request: FetchRequest | ListOffsetsRequest | ProduceRequest | OffsetForLeaderEpochRequest | DeleteRecordsRequest,
        version: int,
        *,
        client: str = "client",
    ) -> Any:
        """Call the handler; return what it returns. As the next request may, overwrite a frame of which it keeps nothing."""
        result = self._handle(request, version, client)
        if self.context.is_frame_free:
            self.frame[:] = b"\xee" * len(self.frame)
        return result

    def _handle(self, request: Any, version: int, client: str) -> Any:
        api = self.registry.apis[type(request).KEY]
        connection = ConnectionInfo("id", "PLAINTEXT", "PLAINTEXT", "127.0.0.1")
        self.context = RequestContext(api.key, version, 1, client, connection)
        frame = self.frame = bytearray(request.encode(version))
        result: Any
        if self.is_together and api.together is not None and (read := api.together.read(self.context, frame, 0)) is not None:
            key, item = read
            (one,) = api.together.handle(key, [item])
            result = api.together.answer(self.context, item, one)
            if not isinstance(result, Later):
                return result
            self.message = result.request
            return result.answer
        if self.is_direct and api.direct is not None:
            result = api.direct(self.context, frame, 0)
            if isinstance(result, Later):
                self.message = result.request
                return result.answer
            if result is not None:
                return result
        self.message = type(request).decode(frame, version)
        return api.handler(self.context, self.message)

    def call(
        self,
        request: FetchRequest | ListOffsetsRequest | ProduceRequest | OffsetForLeaderEpochRequest | DeleteRecordsRequest,
        version: int,
        **how: Any,
    ) -> Any:
        """Call the handler; return its outcome or its response, waited for until its time is over."""
        result = self.start(request, version, **how)
        if isinstance(result, Future):
            self.advance_ms(1_000_000)
            result = result.result(0)
        if isinstance(result, Outcome):
            return result
        return self.decoded(type(request), result, version)

    def decoded(
        self,
        request_class: type[FetchRequest]
        | type[OffsetForLeaderEpochRequest]
        | type[DeleteRecordsRequest]
        | type[ListOffsetsRequest]
        | type[ProduceRequest],
        result: Any,
        version: int,
    ) -> Any:
        """Return the response that a client reads."""
        response = self.registry.apis[request_class.KEY].response_class
        return response.decode(join(result.encode_parts(version)), version)
