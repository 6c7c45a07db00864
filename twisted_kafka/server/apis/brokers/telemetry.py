"""GetTelemetrySubscriptions v0, PushTelemetry v0 (KIP-714)."""

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from twisted_kafka.server.dispatch import api
from twisted_kafka.telemetry.client_metrics_manager import ACCEPTED, ClientMetricsManager


class TelemetryApis:
    """Client metrics: clients fetch their subscription and push metrics."""

    def __init__(self, client_metrics: ClientMetricsManager) -> None:
        self._client_metrics = client_metrics

    @api(GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, versions=(0, 0))
    def get_subscriptions(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        """Return the client's subscription."""
        instance_id, subscription = self._client_metrics.subscribe(request.client_instance_id, _client(context))
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=subscription.subscription_id,
            accepted_compression_types=[int(codec) for codec in ACCEPTED],
            push_interval_ms=subscription.interval_ms,
            telemetry_max_bytes=self._client_metrics.max_bytes,
            delta_temporality=True,
            requested_metrics=list(subscription.metrics),
        )

    @api(PushTelemetryRequest, PushTelemetryResponse, versions=(0, 0))
    def push(self, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
        """Accept a client's metrics."""
        self._client_metrics.push(
            request.client_instance_id,
            request.subscription_id,
            request.compression_type,
            request.metrics,
            _client(context),
            is_last=request.terminating,
        )
        return PushTelemetryResponse()


def _client(context: RequestContext) -> dict[str, str]:
    # A connection id is local:port-remote:port-index.
    remote = context.connection_id.rpartition("-")[0]
    return {
        "client_id": context.client_id or "",
        "client_software_name": context.software_name,
        "client_software_version": context.software_version,
        "client_source_address": context.client_address,
        "client_source_port": remote.rpartition(":")[2],
    }
