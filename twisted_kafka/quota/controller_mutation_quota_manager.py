"""How many partitions clients may create and delete. (KIP-599; Kafka: ControllerMutationQuotaManager.)"""

import math
from collections.abc import Iterator
from typing import Any

from typing_extensions import override

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ThrottlingQuotaExceededError
from twisted_kafka.quota.client_quota_callback import ClientQuotaType
from twisted_kafka.quota.client_quota_manager import ClientQuotaManager
from twisted_kafka.quota.sensors import QuotaWindows, Tags, TokenSensor
from twisted_kafka.timing.clock import IClock


class ControllerMutationQuota:
    """The quota of one request. This one has no limit. (Kafka: UnboundedControllerMutationQuota.)"""

    __slots__ = ()

    def record(self, mutations: int) -> None:
        """Record mutations before they are made; raises ThrottlingQuotaExceededError if they are refused."""

    def throttle_ms(self) -> int:
        """Return how long the client has to wait from now on."""
        return 0


UNBOUNDED = ControllerMutationQuota()


class _Limited(ControllerMutationQuota):
    __slots__ = ("_manager", "_recorded_ms", "_sensor", "_throttle_ms")

    def __init__(self, manager: "ControllerMutationQuotaManager", sensor: TokenSensor) -> None:
        self._manager = manager
        self._sensor = sensor
        self._throttle_ms = self._recorded_ms = 0

    @override
    def throttle_ms(self) -> int:
        """Return how long the client still has to wait: part of the delay may have passed while topics were created."""
        return max(0, self._throttle_ms - (self._manager.now_ms() - self._recorded_ms)) if self._throttle_ms else 0

    def _note(self, throttle_ms: int, now_ms: int) -> None:
        self._throttle_ms, self._recorded_ms = throttle_ms, now_ms


class StrictControllerMutationQuota(_Limited):
    """Refuses mutations while the number of tokens is negative."""

    __slots__ = ()

    @override
    def record(self, mutations: int) -> None:
        """Take tokens; raises ThrottlingQuotaExceededError while their number is negative."""
        now_ms = self._manager.now_ms()
        throttle_ms = self._sensor.take_if_any(mutations, now_ms)
        if throttle_ms:
            self._note(throttle_ms, now_ms)
            raise ThrottlingQuotaExceededError("The throttling quota has been exceeded.")


class PermissiveControllerMutationQuota(_Limited):
    """Refuses nothing, but delays the client: for versions of requests without THROTTLING_QUOTA_EXCEEDED."""

    __slots__ = ()

    @override
    def record(self, mutations: int) -> None:
        """Take tokens; their number may become negative."""
        now_ms = self._manager.now_ms()
        throttle_ms = self._sensor.take(mutations, now_ms)
        if throttle_ms:
            self._note(throttle_ms, now_ms)


class ControllerMutationQuotaManager(ClientQuotaManager[TokenSensor]):
    """The token buckets of clients."""

    RATE_NAME = "mutation-rate"

    def __init__(self, windows: QuotaWindows, clock: IClock, metrics: MetricsRegistry, callback: Any = None) -> None:
        super().__init__(ClientQuotaType.CONTROLLER_MUTATION, windows, clock, metrics, callback)
        metrics.collector(self.quota_type.value, "tokens", self._tokens)

    @override
    def _make(self, tags: Tags, limit: float) -> TokenSensor:
        return TokenSensor(tags, self._windows, limit, self.now_ms())

    def _tokens(self) -> Iterator[tuple[dict[str, object], object]]:
        for tags, tokens in self._measures(TokenSensor.tokens):
            if tokens != math.inf:
                yield tags, tokens

    def quota_for(self, context: RequestContext, strict_since: int) -> ControllerMutationQuota:
        """Return the quota of a request: a strict one if its version is at least ``strict_since``."""
        if not self.is_enabled:
            return UNBOUNDED
        kind = StrictControllerMutationQuota if context.api_version >= strict_since else PermissiveControllerMutationQuota
        return kind(self, self.sensor_of(context))

    def permissive_quota_for(self, context: RequestContext) -> ControllerMutationQuota:
        """Return the quota of a request that creates topics automatically."""
        return PermissiveControllerMutationQuota(self, self.sensor_of(context)) if self.is_enabled else UNBOUNDED
