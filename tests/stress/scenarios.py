"""All scenarios by name."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.stress import caches, coordination, counting, logs, requests, served, waiting
from tests.stress.crew import Crew

SCENARIOS: Final[Mapping[str, Callable[[Crew], None]]] = {
    scenario.__name__: scenario
    for scenario in (
        requests.request_queue,
        requests.memory_pool,
        waiting.purgatory,
        waiting.timers,
        waiting.scheduler,
        waiting.futures,
        counting.instruments,
        counting.registry,
        counting.request_metrics,
        counting.sensors,
        counting.quotas,
        caches.metadata,
        caches.fetch_sessions,
        caches.queues,
        caches.bounded_caches,
        logs.indexes,
        logs.log,
        logs.truncated_log,
        coordination.coordinators,
        coordination.producer_ids,
        coordination.share_partitions,
        coordination.fetch_rights,
        served.served,
    )
}
