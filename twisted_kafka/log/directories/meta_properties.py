"""``meta.properties``: the cluster and broker that a log directory belongs to."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from twisted_kafka.config.properties import load_properties
from twisted_kafka.log.files import write_atomically

META_PROPERTIES = "meta.properties"
FailureListener = Callable[[Path, OSError], None]

_VERSION = 0
_READABLE_VERSIONS = ("0", "1")


class MetaPropertiesError(ValueError):
    """Log directories belong to another broker, or to different ones; the text is one line for the operator."""


class MetaProperties(NamedTuple):
    """The content of a ``meta.properties``; missing values are None."""

    cluster_id: str | None
    broker_id: int | None
    directory_id: str | None = None


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """Return the content of the file in ``directory``, or None if it does not exist.

    Raises OSError, and MetaPropertiesError for an invalid version or broker id.
    """
    path = directory / META_PROPERTIES
    try:
        path.read_bytes()
    except FileNotFoundError:
        return None
    values = load_properties(path)
    version = values.get("version", "")
    if version not in _READABLE_VERSIONS:
        raise MetaPropertiesError(f"{path}: version {version!r} is unknown, expected {' or '.join(_READABLE_VERSIONS)}")
    broker_id = values.get("broker.id", values.get("node.id"))
    try:
        number = None if broker_id is None else int(broker_id)
    except ValueError:
        raise MetaPropertiesError(f"{path}: broker.id {broker_id!r} is not a number") from None
    return MetaProperties(values.get("cluster.id"), number, values.get("directory.id"))


def write_meta_properties(directory: Path, properties: MetaProperties) -> None:
    """Write the file in ``directory``; raises OSError."""
    lines = ["#", f"version={_VERSION}"]
    if properties.broker_id is not None:
        lines.append(f"broker.id={properties.broker_id}")
    if properties.cluster_id is not None:
        lines.append(f"cluster.id={properties.cluster_id}")
    if properties.directory_id is not None:
        lines.append(f"directory.id={properties.directory_id}")
    write_atomically(directory / META_PROPERTIES, ("\n".join(lines) + "\n").encode())


def _raise(_directory: Path, error: OSError) -> None:
    raise error


def load_meta_properties(directories: Iterable[Path], on_failure: FailureListener = _raise) -> MetaProperties:
    """Return the combined content of the files of all ``directories``; raises MetaPropertiesError if they are inconsistent.

    ``on_failure`` is called with a directory whose file cannot be read.
    """
    together = MetaProperties(None, None)
    seen: dict[str, Path] = {}
    for directory in directories:
        try:
            found = read_meta_properties(directory)
        except OSError as error:
            on_failure(directory, error)
            continue
        if found is None:
            continue
        for name, ours, theirs in (
            ("cluster.id", together.cluster_id, found.cluster_id),
            ("broker.id", together.broker_id, found.broker_id),
        ):
            if ours is not None and theirs is not None and ours != theirs:
                raise MetaPropertiesError(f"{directory / META_PROPERTIES} has {name}={theirs}, another log directory has {ours}")
        if found.directory_id is not None and seen.setdefault(found.directory_id, directory) is not directory:
            raise MetaPropertiesError(
                f"{seen[found.directory_id]} and {directory} have the same directory.id, {found.directory_id}"
            )
        together = MetaProperties(
            together.cluster_id if found.cluster_id is None else found.cluster_id,
            together.broker_id if found.broker_id is None else found.broker_id,
        )
    return together


def claim_directories(directories: Iterable[Path], cluster_id: str, broker_id: int, on_failure: FailureListener = _raise) -> None:
    """Write cluster and broker id into the directories that have none; a ``directory.id`` is kept.

    ``on_failure`` is called with a directory that cannot be read or written. Raises MetaPropertiesError if a directory belongs to
    another cluster or broker.
    """
    for directory in directories:
        try:
            _claim(directory, cluster_id, broker_id)
        except OSError as error:
            on_failure(directory, error)


def _claim(directory: Path, cluster_id: str, broker_id: int) -> None:
    found = read_meta_properties(directory) or MetaProperties(None, None)
    path = directory / META_PROPERTIES
    if found.cluster_id not in (None, cluster_id):
        raise MetaPropertiesError(f"{path} has cluster.id={found.cluster_id}, but this broker belongs to cluster {cluster_id}")
    if found.broker_id not in (None, broker_id):
        raise MetaPropertiesError(f"{path} has broker.id={found.broker_id}, but this broker has broker.id={broker_id}")
    if found.cluster_id is None or found.broker_id is None:
        write_meta_properties(directory, MetaProperties(cluster_id, broker_id, found.directory_id))
