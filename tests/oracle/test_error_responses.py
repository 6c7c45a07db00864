"""The response that says an error, of every request and version: ours against the one that Apache Kafka's own classes make."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.error_cases import ACLS, cases
from tests.support.budget import patient
from tests.support.clients.clients import java_class_path
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.errors import ClusterAuthorizationError
from twisted_kafka.server.error_responses import error_response
from twisted_kafka.tools.compare.answers import differences, plain

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

JAVA_TIMEOUT_S = patient(60)
NEWER_THAN_KAFKA = "failed:UnsupportedVersionException"
ACLS |= {f"{name}_filter": value for name, value in ACLS.items()} | {"pattern_type_filter": 3}


def kafkas_answers(asked: list[tuple[ApiKey, int, bytes]]) -> list[str]:
    class_path = java_class_path()
    if class_path is None:
        pytest.skip("Java or Maven is not installed")
    program = Path(__file__).parent / "java" / "ErrorResponses.java"
    lines = "".join(f"{int(key)} {version} x{body.hex()}\n" for key, version, body in asked)
    done = subprocess.run(
        ["java", "-cp", class_path, str(program)], input=lines, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=True
    )
    return done.stdout.split()


def test_error_responses_are_kafkas() -> None:
    asked = cases()
    wrong = []
    for (key, version, body), answer in zip(asked, kafkas_answers(asked), strict=True):
        where = f"{key.title} v{version}"
        request = request_class(key).decode(body, version)
        error = ClusterAuthorizationError()
        ours: Any = error_response(request, response_class(key), version, int(error.code), str(error))
        if answer == NEWER_THAN_KAFKA:
            continue
        if answer.startswith("failed") or (answer == "none") != (ours is None):
            wrong.append(f"{where}: Kafka {answer}, here {ours}")
            continue
        if ours is None:
            continue
        expected = response_class(key).decode(bytes.fromhex(answer[1:]), version)
        said = response_class(key).decode(ours.encode(version), version)
        wrong += [f"{where} {path}: Kafka {one!r}, here {two!r}" for path, one, two in differences(plain(expected), plain(said))]
    assert not wrong, "\n" + "\n".join(wrong)
