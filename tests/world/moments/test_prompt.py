"""The prompt reads commands from a pipe, and shows brokers, logs, events and stacks."""

import sys
from pathlib import Path

import pytest

from tests.world.shop import Shop
from twisted_kafka.world import World
from twisted_kafka.world.moments.copies import GO_ON
from twisted_kafka.world.moments.prompt import talk

pytestmark = pytest.mark.medium


def test_commands_show_the_world_and_end_the_visit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [
        "status()",
        "log()",
        "log('orders-0', 1)",
        "stacks('kafka-1')",
        "await world.run(2)",
        "world.now_s",
        "1 / 0",
        "commands()",
        "at(-1)",
        "events(1)",
        "go_on()",
        "for each in world.brokers:\n    each.kill()\n",
        "status()",
    ]
    (tmp_path / "commands").write_text("".join(f"{each}\n" for each in commands))
    shop = Shop()
    with World(3) as world, (tmp_path / "commands").open() as stdin:
        program = world.process(shop.order, world.bootstrap_servers, 3)
        world.drive(world.finished(program))
        now_s = world.now_s
        monkeypatch.setattr(sys, "stdin", stdin)
        assert [talk(world, "a reason"), talk(world, ""), talk(world, "")] == [0.0, GO_ON, None]
        assert world.now_s == now_s + 2
    shown = capsys.readouterr().out
    for text in (
        f"The world of seed 3 at {now_s:.6f} s: a reason\nkafka-1      runs\norder-1      down\n",
        "kafka-1: orders-0\n",
        "kafka-1:\n  2: None b'2'  (leader epoch 0, producer 0 epoch 0)\n",
        "kafka-1: controller-event-thread\n  File ",
        f"{now_s + 2}\n",
        "ZeroDivisionError: division by zero",
        'log("orders-0", 20)',
        "order-1      has ended\n",
        "kafka-1      down\n",
    ):
        assert text in shown, shown
