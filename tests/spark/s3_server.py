"""A server of S3 on this machine, and the jars with which Spark speaks to it."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes import start_tied

REPOSITORY = Path.home() / ".m2" / "repository"
BUCKET = "logs"
START_S = 300.0


def jars() -> str:
    """Return the jars of Hadoop's client for S3, or skip the test where Maven has not got them."""
    (client,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    version = re.sub(r".*api-(.*)\.jar", r"\1", client.name)
    found = [
        *REPOSITORY.glob(f"org/apache/hadoop/hadoop-aws/{version}/hadoop-aws-{version}.jar"),
        *sorted(REPOSITORY.glob("software/amazon/awssdk/bundle/*/bundle-*.jar"))[-1:],
        *sorted(REPOSITORY.glob("software/amazon/s3/analyticsaccelerator/analyticsaccelerator-s3/*/*.jar"))[-1:],
    ]
    if len(found) < 3:
        pytest.skip(f"needs org.apache.hadoop:hadoop-aws:{version} and what it depends on in ~/.m2 (mvn dependency:get)")
    return ",".join(map(str, found))


class S3Server:
    """A server with one bucket."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def settings(self) -> list[str]:
        """Return what Spark needs to know, as options of the command line."""
        values = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "test",
            "secret.key": "test",
            "connection.ssl.enabled": "false",
        }
        return [word for name, value in values.items() for word in ("--conf", f"spark.hadoop.fs.s3a.{name}={value}")]

    def put(self, name: str, content: bytes) -> None:
        self._call("PUT", f"/{BUCKET}/{name}", content)

    def get(self, name: str) -> bytes:
        return self._call("GET", f"/{BUCKET}/{name}")

    def names(self) -> list[str]:
        return re.findall("<Key>(.*?)</Key>", self._call("GET", f"/{BUCKET}?list-type=2&max-keys=1000").decode())

    def report(self, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.get(name))
        return found

    def _call(self, method: str, path: str, content: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/octet-stream"}  # urllib's default is a form, which moto takes apart
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
            return found


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start a server with an empty bucket."""
    pytest.importorskip("moto")
    port = free_port()
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = start_tied(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = S3Server(port)

    def is_up() -> bool:
        try:
            server._call("PUT", f"/{BUCKET}")
        except OSError:
            return False
        return True

    try:
        eventually(is_up, wait_s=START_S)
        yield server
    finally:
        process.kill()
        process.wait()
