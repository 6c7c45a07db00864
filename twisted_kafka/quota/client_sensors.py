"""The sensors of a connection's client, looked up once and kept on the connection."""

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.quota.client_quota_manager import ClientQuotaManager
from twisted_kafka.quota.sensors import Allowance, RateSensor


class ClientSensors:
    """What a client uses of its quotas. What is None was not looked up yet: a client has no metrics of what it does not use.

    It holds for requests with this client id as long as ``generation`` is that of the managers.
    """

    __slots__ = ("_is_kept", "client_id", "exempt", "fetch", "generation", "produce", "time")

    def __init__(self, client_id: str | None, generation: object, exempt: RateSensor, *, is_kept: bool) -> None:
        """``is_kept`` says whether it is for all requests of a connection, and not only one."""
        self.client_id = client_id
        self.generation = generation
        self._is_kept = is_kept
        self.produce: Allowance | None = None
        self.fetch: Allowance | None = None
        self.time: Allowance | None = None
        self.exempt = self._use(exempt)

    def _use(self, sensor: RateSensor) -> Allowance:
        return Allowance(sensor, is_kept=self._is_kept)

    def look_up_produce(self, manager: ClientQuotaManager[RateSensor], context: RequestContext) -> Allowance:
        """Look up the bytes produced."""
        self.produce = use = self._use(manager.sensor_of(context))
        return use

    def look_up_fetch(self, manager: ClientQuotaManager[RateSensor], context: RequestContext) -> Allowance:
        """Look up the bytes fetched."""
        self.fetch = use = self._use(manager.sensor_of(context))
        return use

    def look_up_time(self, manager: ClientQuotaManager[RateSensor], context: RequestContext) -> Allowance:
        """Look up the time on threads."""
        self.time = use = self._use(manager.sensor_of(context))
        return use

    def end(self) -> None:
        """Count what was used: the connection's next requests have others."""
        for each in (self.produce, self.fetch, self.time, self.exempt):
            if each is not None:
                each.end()
