"""``twisted-kafka compare``: sends the same requests to two brokers and prints every answer that differs."""

import argparse
import json
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.tools.compare.answers import ABSENT
from twisted_kafka.tools.compare.comparison import TIMEOUT_S, Address, Comparison, by_versions, compare
from twisted_kafka.tools.compare.preparation import settings_text
from twisted_kafka.tools.compare.scenarios import all_scenarios
from twisted_kafka.tools.compare.talk import Scenario, StoppedError

VALUE_CHARACTERS: Final = 300
"""Most characters of a value that the text shows; the JSON has all."""
_JSON: Final = "json"


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.description = (
        "Send the same requests, good and bad, of all APIs and versions to two Kafka brokers, and print every answer that differs, "
        "with what Apache Kafka 3.9.2 answers. Both brokers must be started for this, without topics, with a listener in plain "
        "text and with the settings that --settings prints. The exit status is 1 if answers differ."
    )
    parser.add_argument("first", metavar="A", nargs="?", help="HOST:PORT of a broker")
    parser.add_argument("second", metavar="B", nargs="?", help="HOST:PORT of another broker")
    parser.add_argument(
        "--api", action="append", default=[], metavar="NAME", help="compare this API only, such as Fetch; may be repeated"
    )
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="longest wait for an answer [default: %(default)s]"
    )
    parser.add_argument(
        "--allow-topics", action="store_true", help="compare brokers that have topics, which the comparison may change"
    )
    parser.add_argument("-o", "--output", choices=("text", _JSON), default="text", help="[default: %(default)s]")
    parser.add_argument("--settings", action="store_true", help="print the settings that both brokers need, and exit")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    if options.settings:
        sys.stdout.write(settings_text())
        return 0
    if options.first is None or options.second is None:
        raise ValueError("name two brokers: twisted-kafka compare HOST:PORT HOST:PORT")
    known = {each.api for each in all_scenarios()}
    for api in options.api:
        if api not in known:
            near = get_close_matches(api.lower(), [each.lower() for each in known], 1)
            similar = [each for each in known if each.lower() in near]
            advice = f"did you mean {similar[0]!r}?" if similar else f"choose from {', '.join(sorted(known))}"
            raise ValueError(f"there are no requests for {api!r}: {advice}")
    if not options.timeout > 0:
        raise ValueError(f"--timeout must be more than 0, not {options.timeout:g}")
    first, second = (Address(*parse_address(text.strip())) for text in (options.first, options.second))
    try:
        found = compare(
            first,
            second,
            apis=options.api,
            timeout_s=options.timeout,
            allows_topics=options.allow_topics,
            on_scenario=_show_progress if sys.stderr.isatty() else lambda *_: None,
        )
    except ConnectionRefusedError:
        raise ValueError(f"{first.text} or {second.text} does not listen: start both brokers, and check the ports") from None
    except OSError as error:
        raise ValueError(
            f"{first.text} or {second.text} cannot be reached: {error.strerror or error}; check the addresses"
        ) from None
    except StoppedError as error:
        raise ValueError(f"{error}; start both brokers with a listener in plain text") from None
    if options.output == _JSON:
        sys.stdout.write(json.dumps(found.as_values(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in report(found))
    return 1 if found.differences else 0


def _show_progress(scenario: Scenario, number: int, count: int) -> None:
    sys.stderr.write(f"\r{number + 1}/{count} {scenario.api:40.40}" + ("\n" if number + 1 == count else ""))
    sys.stderr.flush()


def report(found: Comparison) -> Iterator[str]:
    """Yield the lines of the text: advertised versions, then each difference with the versions in which it is."""
    yield f"A is {found.first.text}, B is {found.second.text}"
    for what in found.not_warm:
        yield f"not ready: {what}"
    if found.versions:
        yield ""
        yield "Advertised versions that differ"
        for api, (one, two) in found.versions.items():
            yield f"  {api}: A {_range(one)}, B {_range(two)}"
    api = ""
    for each, versions in by_versions(found.differences):
        if each.api != api:
            api = each.api
            yield ""
            yield api
        request = each.request if len(versions) == 1 else each.request.rpartition(" v")[0]
        yield f"  v{_spans(versions)} {each.scenario}, answer {each.number}: {request} {each.place}".rstrip()
        yield f"    A {_shown(each.first)}"
        yield f"    B {_shown(each.second)}"
        if each.kafka != ABSENT:
            yield f"    Apache Kafka 3.9.2 {_shown(each.kafka)}"
    yield ""
    apis = len({each.api for each in found.differences})
    where = f"{len(found.differences):,} differences, in {apis} APIs" if found.differences else "no difference"
    yield f"{found.answers:,} answers of {len(found.apis)} APIs compared: {where}"


def _range(versions: tuple[int, int] | None) -> str:
    return "does not serve it" if versions is None else f"{versions[0]}-{versions[1]}"


def _spans(versions: list[int]) -> str:
    """Return versions as text: 0-3, 5."""
    spans: list[list[int]] = []
    for version in versions:
        if spans and version == spans[-1][1] + 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}... ({len(text):,} characters)"
