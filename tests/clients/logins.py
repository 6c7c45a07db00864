"""Whether clients can log in."""

import subprocess

from tests.support.clients.clients import READ_TIMEOUT_S
from tests.support.eventually import WAIT_S

REFUSED_S = 2.0
"""How long a client that is to be refused may try; only some clients tell at once that they were refused."""


def succeeds(command: list[str], password: str, expected: bytes) -> bool:
    done = subprocess.run([*command, password], capture_output=True, timeout=READ_TIMEOUT_S, check=False)
    assert (done.returncode == 0) == (expected in done.stdout), done
    return done.returncode == 0


def can_list_topics(client: str, address: str, settings: dict[str, object], wait_s: float = WAIT_S) -> bool:
    if client == "confluent-kafka":
        return _confluent_can(address, settings, wait_s)
    if client == "kafka-python":
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        try:
            KafkaAdminClient(bootstrap_servers=address, bootstrap_timeout_ms=int(wait_s * 1000), **settings).close()
        except KafkaError:
            return False
        return True
    return _aiokafka_can(address, settings)


def is_refused(client: str, address: str, settings: dict[str, object]) -> bool:
    return not can_list_topics(client, address, settings, REFUSED_S)


def _confluent_can(address: str, settings: dict[str, object], wait_s: float) -> bool:
    """Whether topics are listed before librdkafka tells that it is refused: it does so in a callback, and tries again."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[KafkaError] = []
    admin = AdminClient({"bootstrap.servers": address, **settings, "log_level": 0, "error_cb": errors.append})  # type: ignore[dict-item]
    for _ in range(int(wait_s)):
        try:
            admin.list_topics(timeout=1)
        except KafkaException:
            admin.poll(0)
            if any(error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL) for error in errors):
                return False
        else:
            return True
    return False


def _aiokafka_can(address: str, settings: dict[str, object]) -> bool:
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import KafkaError

    async def try_it() -> bool:
        admin = AIOKafkaAdminClient(bootstrap_servers=address, **settings)
        try:
            await admin.start()
        except KafkaError:
            return False
        finally:
            await admin.close()
        return True

    return asyncio.run(try_it())
