"""The table of APIs in docs/compatibility.md, from the handlers that a broker registers; as a program, write it."""

from pathlib import Path

import twisted_kafka
from twisted_kafka.protocol.api import ApiKey

DOCUMENT = Path(__file__).parents[2] / "docs" / "compatibility.md"

_BEGIN = "<!-- apis -->\n"
_END = "<!-- end of apis -->\n"


def api_table() -> str:
    with twisted_kafka.Broker({"metrics.listener": "127.0.0.1:0"}) as broker:
        supported = broker.supported_apis
    lines = ["| API | key | versions |", "|---|---|---|"]
    lines += [f"| {ApiKey(key).title} | {key} | {low} to {high} |" for key, (low, high) in supported.items()]
    return "\n".join(lines) + "\n"


def written_table() -> str:
    return DOCUMENT.read_text().partition(_BEGIN)[2].partition(_END)[0]


def write() -> None:
    before, begin, rest = DOCUMENT.read_text().partition(_BEGIN)
    DOCUMENT.write_text(before + begin + api_table() + _END + rest.partition(_END)[2])


if __name__ == "__main__":
    write()
