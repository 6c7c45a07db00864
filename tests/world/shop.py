"""Programs of a shop, with aiokafka as anybody would use it."""

import asyncio
import contextlib

import aiokafka

TOPIC = "orders"
STOP_S = 10.0


class Shop:
    """What the programs know outside of Kafka."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.booked: list[int] = []

    async def order(self, servers: str, count: int, pause_s: float = 0.1) -> None:
        """Produce numbers, one after the other."""
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
        await producer.start()
        try:
            for number in range(count):
                await producer.send_and_wait(TOPIC, b"%d" % number)
                self.acknowledged.append(number)
                await asyncio.sleep(pause_s)
        finally:
            await producer.stop()

    async def book(self, servers: str, count: int) -> None:
        """Consume so many numbers, as a group."""
        consumer = aiokafka.AIOKafkaConsumer(TOPIC, bootstrap_servers=servers, group_id="books", auto_offset_reset="earliest")
        await consumer.start()
        try:
            async for record in consumer:
                self.booked.append(int(record.value))
                if len(self.booked) >= count:
                    return
        finally:
            # Without a coordinator, aiokafka's stop tries to commit without end.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(consumer.stop(), STOP_S)
