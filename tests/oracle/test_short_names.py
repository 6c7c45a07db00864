"""Short names of Kerberos principals, as Kafka's own class makes them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.budget import patient
from tests.support.clients.clients import java_class_path, java_machine
from tests.support.security.kerberos_rules import BAD, LATE, NAMES, REALM, SHORT

pytestmark = [pytest.mark.oracle, pytest.mark.long]


def test_kafka_makes_the_same_short_names() -> None:
    class_path = java_class_path()
    if class_path is None:
        pytest.skip("needs Java and Maven")
    program = Path(__file__).parent / "java" / "ShortNames.java"
    command = [*java_machine(class_path), str(program), REALM, str(len(NAMES)), *NAMES, *SHORT, *BAD, *LATE]
    done = subprocess.run(command, capture_output=True, timeout=patient(120), check=False, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    lines = done.stdout.decode().splitlines()
    theirs = [tuple(None if each == "-" else each[1:] for each in line.split("\t")) for line in lines[: len(SHORT)]]
    assert dict(zip(SHORT, theirs, strict=True)) == SHORT
    assert lines[len(SHORT) : len(SHORT) + len(BAD)] == ["refused"] * len(BAD)
    # Kafka finds these out when somebody logs in.
    assert [line.split("\t")[0] for line in lines[-len(LATE) :]] == ["-"] * len(LATE)
