"""How this program was installed, for messages that say how to install an optional package.

No message names a distribution that an index may not have. A clone installs its extras itself; without a clone, the packages of an
extra are named.
"""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# What reads metadata and URLs is imported when a message needs it: it would take a tenth of a start.

NAME: Final = "twisted_kafka"
REPORT: Final = "twisted-kafka-spark"
_FOLDERS: Final = {REPORT: "spark", "pytest-twisted-kafka": "pytest_plugin"}
"""Where a clone has the project's other distributions."""
_NAMED_BY: Final = {"spark": REPORT, "jdk": REPORT, "testing": "pytest-twisted-kafka"}
"""The extras that name one of them."""
_MARK_OF_A_CLONE: Final = "pyproject.toml"
_EXTRA: Final = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
_OWN_EXTRAS: Final = re.compile(r"twisted[_-]kafka\[([\w,-]+)\]")


class Installation:
    """An installation of the broker: the directory that contains the package, and its metadata if it has any."""

    def __init__(self, directory: Path, metadata: "Distribution | None") -> None:
        self._directory = directory
        self._metadata = metadata

    def clone(self) -> Path | None:
        """Return the clone that the broker runs in, or was installed from if that still exists."""
        if _is_clone(self._directory):
            return self._directory
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        url = urlsplit(self._direct_url().get("url", ""))
        path = Path(url2pathname(url.path))
        return path if url.scheme == "file" and _is_clone(path) else None

    def command_for(self, extra: str) -> str:
        """Return the command that installs what an extra needs."""
        clone = self.clone()
        if clone is None:
            return shlex.join(["pip", "install", *self._requirements(extra)])
        sources = [f"{clone}[{extra}]"]
        if extra in _NAMED_BY:
            sources.append(str(clone / _FOLDERS[_NAMED_BY[extra]]))
        editable = ["--editable"] if clone == self._directory else []
        return shlex.join(["pip", "install", *(word for source in sources for word in (*editable, source))])

    def command_for_report(self) -> str:
        """Return the command that installs the distribution with the report."""
        clone = self.clone()
        return shlex.join(["pip", "install", str((clone or Path("CLONE")) / _FOLDERS[REPORT])])

    def _direct_url(self) -> dict[str, str]:
        """Return what pip noted about the source of the installation (PEP 610); empty for a package of an index."""
        import json

        text = None if self._metadata is None else self._metadata.read_text("direct_url.json")
        return {} if text is None else dict(json.loads(text))

    def _requirements(self, extra: str) -> list[str]:
        requirements = () if self._metadata is None else self._metadata.requires or ()
        found: list[str] = []
        for requirement in requirements:
            package, _, marker = requirement.partition(";")
            if extra not in _EXTRA.findall(marker) or package.strip() in _FOLDERS:
                continue
            own = _OWN_EXTRAS.match(package)
            more = [package.strip()] if own is None else [each for name in own[1].split(",") for each in self._requirements(name)]
            found += [each for each in more if each not in found]
        return found


def _is_clone(path: Path) -> bool:
    return (path / _MARK_OF_A_CLONE).is_file() and (path / NAME).is_dir()


def present_installation() -> Installation:
    """Return the installation of the running program."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        metadata = distribution(NAME)
    except PackageNotFoundError:
        metadata = None
    return Installation(Path(__file__).resolve().parents[2], metadata)


def install_command(extra: str) -> str:
    """Return the command that installs what an extra needs, in the way this program was installed."""
    return present_installation().command_for(extra)


def installed_version() -> str:
    """Return the version of this program, ``twisted_kafka.__version__``."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(NAME)
    except PackageNotFoundError:  # a source tree on the path that nobody installed
        return "0+unknown"
