"""Whether clients can log in."""

import subprocess

from tests.support.budget import patient


def succeeds(command: list[str], password: str, expected: bytes) -> bool:
    done = subprocess.run([*command, password], capture_output=True, timeout=patient(60), check=False)
    assert (done.returncode == 0) == (expected in done.stdout), done
    return done.returncode == 0


def can_list_topics(client: str, address: str, settings: dict[str, object]) -> bool:
    if client == "confluent-kafka":
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        quiet = {"log_level": 0, "error_cb": lambda _: None}
        try:
            AdminClient({"bootstrap.servers": address, **settings, **quiet}).list_topics(timeout=2)  # type: ignore[dict-item]
        except KafkaException:
            return False
        return True
    if client == "kafka-python":
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        try:
            KafkaAdminClient(bootstrap_servers=address, bootstrap_timeout_ms=1500, **settings).close()
        except KafkaError:
            return False
        return True
    return _aiokafka_can(address, settings)


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
