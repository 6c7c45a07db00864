"""The examples of docs/testing.md before its gallery do what they say."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

import pytest

pytest_plugins = ["pytester"]
for client in ("aiokafka", "confluent_kafka", "pytest_asyncio"):
    pytest.importorskip(client)
pytestmark = pytest.mark.slow

_PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
_IMPORTS = """
import contextlib
import unittest

import pytest

from examples_shop import run_the_async_worker, run_the_shop, run_the_shop_without_kafka, run_the_worker, start_the_shop
from twisted_kafka.testing import Broker, Record

AUTHORIZED = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "allow.everyone.if.no.acl.found": "true"}
"""
_WORKER = "with run_the_worker(broker.bootstrap_servers):"
_SURROUNDINGS = {
    "broker.create_topic(": """
        broker.create_topic("other", partitions=1)
        broker.create_topic("orders", partitions=3); broker.delete_topic("orders")
        with contextlib.ExitStack() as stack:
            start = broker.wait_for_group
            def started(*given):
                stack.enter_context(run_the_worker(broker.bootstrap_servers))
                start(*given)
            broker.wait_for_group = started
            {}
        """,
    "broker.alter_topic(": """
        broker.create_topic("orders", partitions=2)
        broker.commit("billing", {{("orders", 0): 1, ("orders", 1): 1}})
        {}
        """,
    "Broker(\n    {": "{}",
    "snapshot = broker.snapshot()": "{}",
    "produced = broker.requests": """
        run_the_shop(broker.bootstrap_servers, count=3)
        for _ in range(2):
            with run_the_worker(broker.bootstrap_servers):
                broker.wait_for_lag("billing")
            run_the_shop(broker.bootstrap_servers, "others")
            broker.produce("orders", "late")
        with run_the_worker(broker.bootstrap_servers):
            broker.wait_for_lag("billing")
        {}
        """,
    'with broker.faults.inject(api="Produce", topic': "{}",
    "def refuse_large_batches": """
        broker.create_topic("orders")
        with run_the_worker(broker.bootstrap_servers):
            broker.wait_for_group("billing")
            {}
        """,
    'with broker.record("shop.jsonl")': """
        with Broker() as other_broker:
            {}
        """,
    "with broker.clock.held()": "{}",
}
"""How each fragment begins, and the surroundings in which it works."""
_WHILE_FROZEN = re.compile(r"(with broker\.frozen\(\):.*\n +)\.\.\.")
_ACTION = "run_the_shop(broker.bootstrap_servers, count=2)"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", _PAGE.split("## Gallery")[0], re.DOTALL)


def made_of(block: str) -> Iterator[str]:
    if re.match(r"(async )?def test_|class Tests", block):
        yield block
        return
    if block.startswith("from "):
        yield f"def test_of_a_program():\n{indent(block.replace('...', _ACTION), ' ' * 4)}"
        return
    (surroundings,) = (around for begin, around in _SURROUNDINGS.items() if block.startswith(begin))
    name = re.sub(r"\W+", "_", block.splitlines()[0])[:40]
    block = re.sub(r"^( +)\.\.\.", rf"\1{_ACTION}", _WHILE_FROZEN.sub(r"\1pass", block), flags=re.MULTILINE)
    around = dedent(surroundings).strip("\n")
    place = re.search(r"^( *)\{\}", around, re.MULTILINE)
    body = around.replace("{{", "\0").replace("}}", "\1").replace("{}", indent(block, place[1]).strip() if place else block)
    body = body.replace("\0", "{").replace("\1", "}")
    yield f"def test_{name}():\n    with Broker(AUTHORIZED) as broker:\n{indent(body, ' ' * 8)}\n"


def test_the_examples_pass(pytester: pytest.Pytester) -> None:
    shop = (Path(__file__).parent / "examples_shop.py").read_text()
    examples = [test for block in blocks() for test in made_of(block)]
    pytester.makepyfile(examples_shop=shop, test_page="\n\n".join((_IMPORTS, *examples)))
    options = ("-p", "no:cacheprovider", "-p", "no:twisted_kafka", "-p", "twisted_kafka.testing.plugin", "-W", "ignore")
    result = pytester.runpytest_subprocess(*options, "-p", "pytest_asyncio", "-o", "asyncio_mode=auto")
    assert result.parseoutcomes() == {
        "passed": sum(len(re.findall(r"^(?:async )?def test_", each, re.MULTILINE)) for each in examples)
    }
