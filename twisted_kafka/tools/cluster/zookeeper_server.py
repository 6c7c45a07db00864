"""Finds a ZooKeeper on this machine to run: Debian's package, an unpacked one, or one that Maven has downloaded."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")
"""Its manifest names the other jars."""
MAVEN_CACHE = Path(".m2/repository")
"""Below the home directory."""
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JARS = ("*.jar", "lib/*.jar", "libs/*.jar")
"""The jars of an unpacked Apache ZooKeeper, or of an Apache Kafka up to 3.9."""
_BESIDE = ("org/slf4j/slf4j-api", "io/dropwizard/metrics/metrics-core", "org/xerial/snappy/snappy-java")
"""ZooKeeper's other jars in a Maven repository."""
_HEAP = "-Xmx256M"

HOW_TO_GET_ONE = (
    "install Debian's packages zookeeper and default-jre-headless, or unpack Apache ZooKeeper and name its directory with "
    "--zookeeper-home, or name a running server with --zookeeper HOST:PORT"
)


class ZooKeeperNotFoundError(Exception):
    """There is no ZooKeeper to run; the text is one line with advice."""


class ZooKeeperServer(NamedTuple):
    """A ZooKeeper that can be run."""

    origin: str
    """Its source, in words."""
    class_path: str

    def command(self, java: str, properties: Path) -> list[str]:
        """Return the command that runs it in the foreground with this properties file."""
        options = [_HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.admin.enableServer=false"]
        return [java, *options, "-cp", self.class_path, _MAIN, str(properties)]


def find_java() -> str:
    """Return the path of Java; raise ZooKeeperNotFoundError if it is not installed."""
    java = shutil.which("java")
    if java is None:
        raise ZooKeeperNotFoundError(f"ZooKeeper needs Java, which is not installed: {HOW_TO_GET_ONE}")
    return java


def find_zookeeper(home: Path | None, *, debian: Path = DEBIAN_JAR, maven: Path | None = None) -> ZooKeeperServer:
    """Return the ZooKeeper in the directory ``home``, or Debian's, or the newest in Maven's cache.

    Raises ZooKeeperNotFoundError.
    """
    if home is not None:
        jars = sorted({jar for pattern in _JARS for jar in home.glob(pattern)})
        if not any(re.fullmatch(r"zookeeper-\d.*\.jar", jar.name) for jar in jars):
            raise ZooKeeperNotFoundError(f"{home} has no zookeeper-VERSION.jar, nor have lib and libs in it")
        return ZooKeeperServer(str(home), ":".join(map(str, jars)))
    if debian.exists():
        return ZooKeeperServer(f"Debian's package ({debian})", str(debian))
    repository = Path.home() / MAVEN_CACHE if maven is None else maven
    for found in _of_maven(repository):
        return found
    raise ZooKeeperNotFoundError(f"no ZooKeeper was found: {HOW_TO_GET_ONE}")


def _of_maven(repository: Path) -> Iterator[ZooKeeperServer]:
    for jar in _newest_first(repository / "org/apache/zookeeper/zookeeper"):
        version = jar.parent.name
        jute = repository / f"org/apache/zookeeper/zookeeper-jute/{version}/zookeeper-jute-{version}.jar"
        beside = [next(_newest_first(repository / artifact), None) for artifact in _BESIDE]
        if jute.exists() and all(beside):
            yield ZooKeeperServer(f"Maven's cache ({jar})", ":".join(map(str, [jar, jute, *beside])))


def _newest_first(artifact: Path) -> Iterator[Path]:
    """Yield the jars of an artifact's versions."""
    versions = sorted(artifact.glob("*/"), key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)], reverse=True)
    for version in versions:
        jar = version / f"{artifact.name}-{version.name}.jar"
        if jar.exists():
            yield jar
