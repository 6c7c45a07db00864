"""What is said of an error when nothing particular is: in Kafka's terms, so that searches for them succeed."""

import subprocess
from pathlib import Path

import pytest

from tests.support.budget import patient
from tests.support.clients.clients import java_class_path
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.tools.compare.answers import ErrorText

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

JAVA_TIMEOUT_S = patient(60)


def test_general_messages_have_kafkas_terms() -> None:
    class_path = java_class_path()
    if class_path is None:
        pytest.skip("Java or Maven is not installed")
    program = Path(__file__).parent / "java" / "Errors.java"
    done = subprocess.run(
        ["java", "-cp", class_path, str(program)], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=True
    )
    lacking = []
    for line in done.stdout.splitlines():
        code, text = line.split("\t", 1)
        if int(code):
            ours = KafkaError.by_code[int(code)].general_message
            if missing := ErrorText(text, True).terms() - ErrorText(ours, True).terms():
                lacking.append(f"{code}: {text!r}, here {ours!r} without {sorted(missing)}")
    assert not lacking, "\n" + "\n".join(lacking)
