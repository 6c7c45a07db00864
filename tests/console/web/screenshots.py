"""Makes the pictures of docs/console.md: ``python -m tests.console.web.screenshots``. Needs Pillow, Playwright and Chromium."""

import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer

from tests.console.web.chromium import chromium, page_of
from tests.console.web.shop import guarded_shop, log_in, shop
from twisted_kafka.testing import Broker

IMAGES = Path(__file__).parents[3] / "docs" / "images"
COLOURS = 128
MOST_ROUNDS, PAUSE_S = 10_000, 0.1
SETTLE_MS = 6_000
"""Long enough for two live parts."""
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topic?name=payments",
    "messages": "/messages?topic=payments&where=value.customer.id%3D3",
    "message": "/message?topic=payments.dead-letters&partition=0&offset=0",
    "tail": "/tail?topic=clicks",
    "groups": "/groups",
    "group": "/group?name=billing",
    "requests": "/requests",
    "clients": "/clients",
    "transactions": "/hanging",
    "storage": "/storage",
    "cluster": "/cluster",
    "report": "/report",
    "change": "/change?action=delete-topic&topic=orders",
}
GUARDED = {
    "users": "/users",
    "acls": "/acls",
    "quotas": "/quotas",
    "access": "/check?user=alice&operation=Read&kind=Topic&name=payments",
    "entry": "/change?action=add-acl&principal=alice&operation=Read&resource_type=Topic&name=payments",
}
TASKS = {
    "task-key": "/messages?topic=payments&key=customer-3",
    "task-text": "/messages?topic=payments&search=Ada",
    "task-reset": "/change?action=reset-offsets&group=nightly-report&to=latest&step=preview",
    "task-partitions": "/change?action=add-partitions&topic=orders&count=3&step=preview",
    "task-refused": "/requests?errors=1",
    "task-oldest": "/clients?sort=software",
    "task-deleted": "/logged?api=DeleteTopics&about=returns",
    "task-setting": "/topic?name=payments&settings=all",
}
"""Pages of the ten tasks that are no others; in one size."""
SIZES = (("light", 1280, 720), ("dark", 360, 720))


@contextmanager
def traffic(broker: Broker) -> Iterator[None]:
    """A shop that is open: clicks come in, and a consumer reads payments."""
    servers, is_over = broker.bootstrap_servers, threading.Event()

    def run() -> None:
        producer = KafkaProducer(bootstrap_servers=servers, client_id="web-shop")
        consumer = KafkaConsumer(
            "payments", bootstrap_servers=servers, client_id="billing-1", group_id="billing", auto_offset_reset="latest"
        )
        mistaken = KafkaConsumer(
            "payment", bootstrap_servers=servers, client_id="fraud-check", group_id="fraud", allow_auto_create_topics=False
        )
        for number in range(MOST_ROUNDS):
            if is_over.wait(PAUSE_S):
                break
            producer.send("clicks", b"GET /item/%d 200" % (number % 50), key=b"session-%d" % (number % 9))
            producer.send("payments", b'{"id": %d, "customer": {"id": 3, "name": "Ada"}}' % number, partition=number % 3)
            consumer.poll(timeout_ms=100)
            mistaken.poll(timeout_ms=10)
        mistaken.close()
        consumer.close()
        producer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(30)


def save(picture: bytes, path: Path) -> None:
    """Write a picture with few colours, which is small."""
    from PIL import Image

    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(path, optimize=True)


def take(browser: Any, url: str, size: tuple[str, int, int], pages: Mapping[str, str]) -> None:
    scheme, width, height = size
    with page_of(browser, url, scheme, width) as page:
        page.set_viewport_size({"width": width, "height": height})
        if pages is GUARDED:
            log_in(page)
        for name, path in pages.items():
            page.goto(path)
            if name == "task-setting":
                page.locator("summary", has_text="retention.ms").first.click()
                page.locator("details[open]").first.scroll_into_view_if_needed()
            page.wait_for_timeout(SETTLE_MS if name in ("overview", "group", "tail", "requests") else 500)
            save(page.screenshot(), IMAGES / f"console-{name}-{scheme}.png")


def main() -> None:
    with chromium() as browser:
        with shop() as broker, traffic(broker):
            for size in SIZES:
                take(browser, broker.embedded.console_url, size, PAGES)
            take(browser, broker.embedded.console_url, SIZES[0], TASKS)
        with guarded_shop() as broker:
            for size in SIZES:
                take(browser, broker.embedded.console_url, size, GUARDED)


if __name__ == "__main__":
    main()
