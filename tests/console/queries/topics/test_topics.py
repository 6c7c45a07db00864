from collections.abc import Callable

import pytest

from tests.support.console import make_topic, write
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.overview import overview
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.topics.topics import topics

pytestmark = pytest.mark.medium


def test_pages_of_topics(session: Session, name: Callable[[str], str]) -> None:
    names = [make_topic(session, name(f"a{number}"), number) for number in (1, 2, 3)]
    write(session, names[1], [Written(None, b"x" * 1_000, partition=1)] * 5)
    prefix = name("A")
    page = topics(session, Asked(prefix, page_size=2))
    assert [each.name for each in page.items] == names[:2]
    assert (page.total, page.pages) == (3, 2)
    row = page.items[1]
    assert (row.records, row.shape.partitions, row.shape.replication_factor, row.shape.offline) == (5, 2, 1, 0)
    assert row.size_bytes > 5_000
    assert [each.name for each in topics(session, Asked(prefix, page=2, page_size=2)).items] == names[2:]
    assert [each.name for each in topics(session, Asked(prefix, "-partitions")).items] == names[::-1]
    assert topics(session, Asked(prefix, "-size_bytes")).items[0].name == names[1]
    assert topics(session, Asked(prefix + "none")).items == ()
    with pytest.raises(ValueError, match="choose one of name, partitions"):
        topics(session, Asked(sort="colour"))
    with pytest.raises(ValueError, match="at most 500 rows"):
        Asked(page_size=501)


def test_the_overview(session: Session, name: Callable[[str], str]) -> None:
    before = overview(session)
    make_topic(session, name("more"), 4)
    after = overview(session)
    assert (after.topics - before.topics, after.partitions - before.partitions) == (1, 4)
    assert (after.offline, after.under_replicated) == (0, 0)
    (broker,) = after.brokers
    assert broker.is_controller
    assert broker.id == after.controller_id
