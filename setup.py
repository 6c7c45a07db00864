"""The computed part of the packaging: README links and packages.

The static metadata is in pyproject.toml. setuptools-scm takes the version from the git tag; an sdist has it in PKG-INFO, and a
source tree with neither gets ``fallback_version``. Links into the source tree work in a clone and lead nowhere on a package
index, hence ``index_readme``. Absolute links in the README would lead offline clones, and branches, to other versions.
"""

import re
import tomllib
from pathlib import Path
from typing import Any

from setuptools import find_packages, setup

_HERE = Path(__file__).resolve().parent
_PYPROJECT: dict[str, Any] = tomllib.loads((_HERE / "pyproject.toml").read_text(encoding="utf-8"))
_RELATIVE_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<target>[^)]+)\)")


def index_readme(readme: str, source: str | None) -> str:
    """Return the README for a package index, where links relative to the source tree do not work.

    They become links into ``source``, the URL of the repository, or plain text without one: the files are in the source
    distribution only.
    """

    def replace(link: re.Match[str]) -> str:
        if source is not None:
            kind = "raw" if link["image"] else "blob"
            return f"{link['image']}[{link['text']}]({source.rstrip('/')}/{kind}/HEAD/{link['target']})"
        if link["image"]:
            return ""
        path = link["target"].partition("#")[0]
        return link["text"] if path.startswith(link["text"].strip("`")) else f"{link['text']} (`{path}`)"

    return _RELATIVE_LINK.sub(replace, readme)


setup(
    long_description=index_readme(
        (_HERE / "README.md").read_text(encoding="utf-8"), _PYPROJECT["project"].get("urls", {}).get("Source")
    ),
    long_description_content_type="text/markdown",
    packages=[
        *find_packages(include=["twisted_kafka", "twisted_kafka.*"]),
        # Has no __init__.py: Twisted searches every twisted/plugins on the path, and its own package is not shadowed.
        "twisted.plugins",
    ],
    # Says that all packages are below the checkout. An editable installation then writes a .pth file, and no import hook, which
    # would slow every start of the interpreter and hide twisted/plugins from twistd.
    package_dir={"": "."},
)
