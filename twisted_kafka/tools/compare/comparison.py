"""Compares two brokers: scenario by scenario, version by version, answer by answer."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.tools.compare.answers import ABSENT, WHOLE, Place, as_json, differences, value_at
from twisted_kafka.tools.compare.preparation import Versions, present_topics, told_versions, warm
from twisted_kafka.tools.compare.scenarios import all_scenarios
from twisted_kafka.tools.compare.stored import StoredAnswers
from twisted_kafka.tools.compare.talk import Scenario, StoppedError, Talk

TIMEOUT_S: Final = 20
"""How long a broker may take for an answer; some scenarios wait for a rebalance or a session."""


class NotEmptyError(ValueError):
    """A broker has topics: its answers would differ for that reason, and the scenarios would change it."""


class Address(NamedTuple):
    """Where a broker listens in plain text, without a login."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """Host and port as clients write them."""
        return f"{self.host}:{self.port}"


class Conversation(NamedTuple):
    """What a broker said in one scenario."""

    answers: list[tuple[str, Any]]
    """The request with its version, and the answer as a plain value."""
    stopped: str | None = None
    """Why the broker did not go on to the end."""


class Difference(NamedTuple):
    """Two answers to the same request that differ; or, without a request, why one of two scenarios did not go on."""

    api: str
    version: int
    scenario: str
    number: int
    """The number of the answer in the scenario, from 0 on."""
    request: str
    """What was asked, such as ``Fetch v11``; a scenario about one API also asks others."""
    place: str
    """The place in the answer, such as ``.topics[0].error_code``."""
    first: Any
    second: Any
    kafka: Any
    """What Apache Kafka 3.9.2 answered there; ``ABSENT`` if it is not stored."""

    @property
    def where(self) -> str:
        """The place in a line of text."""
        return f"{self.scenario} v{self.version}: {self.number} {self.request} {self.place}"


@dataclass(slots=True)
class Comparison:
    """The result: all differences, and how much was compared."""

    first: Address
    second: Address
    versions: dict[str, tuple[tuple[int, int] | None, tuple[int, int] | None]] = field(default_factory=dict)
    """APIs of which the brokers advertise different versions; None if one does not serve the API."""
    not_warm: list[str] = field(default_factory=list)
    """Coordinators that do not answer: their scenarios will show it."""
    differences: list[Difference] = field(default_factory=list)
    apis: dict[str, int] = field(default_factory=dict)
    """The number of answers that were compared, by API."""

    @property
    def answers(self) -> int:
        """The number of answers that were compared."""
        return sum(self.apis.values())

    def as_values(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "first": self.first.text,
            "second": self.second.text,
            "versions": {api: {"first": one, "second": two} for api, (one, two) in self.versions.items()},
            "not_ready": self.not_warm,
            "compared": self.apis,
            "differences": [each._asdict() for each in self.differences],
        }


def compare(
    first: Address,
    second: Address,
    *,
    apis: Iterable[str] = (),
    timeout_s: float = TIMEOUT_S,
    allows_topics: bool = False,
    on_scenario: Callable[[Scenario, int, int], object] = lambda *_: None,
) -> Comparison:
    """Compare two brokers that were started for this and have no topics, with the settings of ``preparation.SETTINGS``.

    ``apis``: names such as ``Fetch``; without any, all. ``on_scenario`` is called with each scenario, its number, and the number of
    scenarios. Raises NotEmptyError unless ``allows_topics``; OSError or StoppedError if a broker cannot be reached.
    """
    told = [told_versions(each.port, host=each.host) for each in (first, second)]
    if not allows_topics:
        for each in (first, second):
            ensure_empty(each)
    found = Comparison(first, second, _different_versions(*told))
    for each in (first, second):
        found.not_warm += [f"{each.text}: {what}" for what in warm(each.port, host=each.host)]
    wanted = set(apis)
    chosen = [each for each in all_scenarios() if not wanted or each.api in wanted]
    stored = StoredAnswers.load()
    for number, scenario in enumerate(chosen):
        on_scenario(scenario, number, len(chosen))
        for version in common_versions(scenario, *told):
            one, two = (converse(scenario, version, each, timeout_s) for each in (first, second))
            found.apis[scenario.api] = found.apis.get(scenario.api, 0) + min(len(one.answers), len(two.answers))
            found.differences += compared(scenario, version, one, two, stored)
    return found


def ensure_empty(address: Address) -> None:
    """Raise NotEmptyError if the broker has topics."""
    topics = present_topics(address.port, host=address.host)
    if topics:
        shown = ", ".join(topics[:3]) + (", ..." if len(topics) > 3 else "")
        raise NotEmptyError(
            f"{address.text} has topics ({shown}): the comparison creates topics, users and ACLs, and "
            "changes settings. Start a broker with an empty data directory for it"
        )


def common_versions(scenario: Scenario, *told: Versions) -> range:
    """Return the versions of a scenario that all brokers serve and this program knows."""
    key = scenario.request.KEY
    if not all(key in versions for versions in told):
        return range(0)
    bounds = [scenario.versions, scenario.request.VERSIONS, *(versions[key] for versions in told)]
    return range(max(low for low, _ in bounds), min(high for _, high in bounds) + 1)


def converse(scenario: Scenario, version: int, address: Address, timeout_s: float) -> Conversation:
    """Run a scenario with one broker, to its end or until the broker does not go on."""
    talk = Talk(address.port, f"{scenario.name}.{version}", host=address.host, timeout_s=timeout_s)
    stopped = None
    try:
        scenario.run(talk, version)
    except (StoppedError, OSError) as error:
        stopped = str(error) or type(error).__name__
    except Exception as error:  # noqa: BLE001 a scenario uses earlier answers, which may lack what Kafka's have
        stopped = f"an answer lacks what the next request needs ({type(error).__name__}: {error})"
    finally:
        talk.close()
    return Conversation(talk.answers, stopped)


def compared(
    scenario: Scenario, version: int, one: Conversation, two: Conversation, stored: StoredAnswers | None = None
) -> Iterator[Difference]:
    """Yield the differences between two conversations, each with what Apache Kafka answered, if that is stored."""
    kafka = stored.of(scenario.name, version) if stored is not None else []
    for number, ((request, first), (_, second)) in enumerate(zip(one.answers, two.answers, strict=False)):
        kafkas = kafka[number] if number < len(kafka) else None
        for place, mine, other in differences(first, second):
            value = value_at(kafkas[1], place) if kafkas is not None and kafkas[0] == request else ABSENT
            yield _difference(scenario, version, number, request, place, mine, other, value)
    if one.stopped != two.stopped or len(one.answers) != len(two.answers):
        number = min(len(one.answers), len(two.answers))
        ends = [each.stopped or f"answered {len(each.answers)} requests" for each in (one, two)]
        if ends[0] != ends[1]:
            yield _difference(scenario, version, number, "the next request", WHOLE, ends[0], ends[1], ABSENT)


def _difference(
    scenario: Scenario, version: int, number: int, request: str, place: Place, first: Any, second: Any, kafka: Any
) -> Difference:
    api = scenario.api
    return Difference(api, version, scenario.name, number, request, str(place), as_json(first), as_json(second), kafka)


def _different_versions(first: Versions, second: Versions) -> dict[str, tuple[tuple[int, int] | None, tuple[int, int] | None]]:
    keys = sorted(first.keys() | second.keys())
    return {_title(key): (first.get(key), second.get(key)) for key in keys if first.get(key) != second.get(key)}


def _title(key: int) -> str:
    try:
        return ApiKey(key).title
    except ValueError:  # of a newer Kafka, or the broker's own
        return f"API {key}"


def by_versions(found: Iterable[Difference]) -> list[tuple[Difference, list[int]]]:
    """Return each difference once, with all versions that have it."""
    together: dict[tuple[Any, ...], tuple[Difference, list[int]]] = {}
    for each in found:
        request = each.request.rpartition(" v")[0]
        same = (each.api, each.scenario, each.number, request, each.place, repr((each.first, each.second, each.kafka)))
        together.setdefault(same, (each, []))[1].append(each.version)
    return list(together.values())
