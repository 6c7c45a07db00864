import pytest

from twisted_kafka.config.endpoints import parse_console_address
from twisted_kafka.console.queries.consoles import KEY, url_of


@pytest.mark.parametrize(
    ("listener", "host", "is_same_machine", "found"),
    [
        ("10.0.0.2:8080", "b.example", False, "http://10.0.0.2:8080"),
        ("https://0.0.0.0:8443", "b.example", False, "https://b.example:8443"),
        ("https://[::]:8443", "2001:db8::2", False, "https://[2001:db8::2]:8443"),
        ("127.0.0.1:8081", "localhost", True, "http://127.0.0.1:8081"),
        ("127.0.0.1:8081", "b.example", False, "at 127.0.0.1:8081 on b.example"),
        ("0.0.0.0:0", "b.example", False, "its port is in its log"),
        ("0.0.0.0:80", 'b"><script>', False, "its address is unusual"),
    ],
)
def test_where_a_browser_finds_the_console_of_another_broker(listener: str, host: str, is_same_machine: bool, found: str) -> None:
    url, why = url_of(parse_console_address(KEY, listener), host, is_same_machine=is_same_machine)
    assert (url or why) == found
    assert bool(url) is not bool(why)
