"""The sensors of a connection's client, looked up once and kept on the connection."""

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.quota.client_quota_manager import ClientQuotaManager
from twisted_kafka.quota.sensors import RateSensor


class ClientSensors:
    """A client's sensors, one for each quota. A sensor is None until its first use: unused quotas have no metrics.

    They hold for requests with this client id while ``generation`` is that of the managers.
    """

    __slots__ = ("client_id", "exempt", "fetch", "generation", "produce", "time")

    def __init__(self, client_id: str | None, generation: object, exempt: RateSensor) -> None:
        self.client_id = client_id
        self.generation = generation
        self.produce: RateSensor | None = None
        self.fetch: RateSensor | None = None
        self.time: RateSensor | None = None
        self.exempt = exempt

    def look_up_produce(self, manager: ClientQuotaManager[RateSensor], context: RequestContext) -> RateSensor:
        """Look up the bytes produced."""
        self.produce = sensor = manager.sensor_of(context)
        return sensor

    def look_up_fetch(self, manager: ClientQuotaManager[RateSensor], context: RequestContext) -> RateSensor:
        """Look up the bytes fetched."""
        self.fetch = sensor = manager.sensor_of(context)
        return sensor

    def look_up_time(self, manager: ClientQuotaManager[RateSensor], context: RequestContext) -> RateSensor:
        """Look up the time on threads."""
        self.time = sensor = manager.sensor_of(context)
        return sensor
