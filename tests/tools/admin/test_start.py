"""A command starts fast: it imports neither Twisted nor a broker."""

import subprocess
import sys

import pytest

_SHOW = """
import sys
from twisted_kafka.tools.main import main

try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sys.modules)
"""
ALLOWED = {"twisted_kafka", "client", "console", "config", "protocol", "system", "timing", "tools"}
"""The packages of a command without --command-config."""


_SMALL = {"twisted_kafka.config.errors", "twisted_kafka.config.properties"}


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments", [["topics", "list"], ["groups", "describe", "g"], ["produce", "t", "v"], ["consume", "t"], ["--help"]]
)
def test_what_a_command_imports(arguments: list[str]) -> None:
    server = [] if arguments == ["--help"] else ["-b", "127.0.0.1:1"]
    run = subprocess.run([sys.executable, "-P", "-c", _SHOW, *arguments, *server], capture_output=True, text=True, check=True)
    modules = run.stdout.splitlines()[-1].split()
    assert not [each for each in modules if each.split(".")[0] in ("twisted", "OpenSSL", "cryptography", "ssl", "numpy")]
    ours = {each.split(".")[1] for each in modules if each.startswith("twisted_kafka.")}
    assert ours <= ALLOWED
    assert not [each for each in modules if each.startswith("twisted_kafka.config.") and each not in _SMALL]
