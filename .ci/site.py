"""Hooks of mkdocs: the site has the pages at the top of the repository too, and no links to files that it does not contain."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "report.md"}
"""Pages outside docs/, and their paths on the site."""
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#]+)(#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    for source, path in PAGES.items():
        files.append(File.generated(config, path, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    path = page.file.src_uri
    at_the_top = next((source for source, target in PAGES.items() if target == path), None)
    here = posixpath.dirname(at_the_top or f"docs/{path}")  # below the root of the repository

    def follow(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        file = posixpath.normpath(posixpath.join(here, target))
        place = PAGES.get(file) or file.removeprefix("docs/")
        if (ROOT / file).is_dir() and (ROOT / file / "README.md").exists():
            place += "/README.md"
        if files.get_file_from_path(place) is None:
            return text if text.startswith("`") else f"`{file}`" if text == posixpath.basename(file) else f"{text} (`{file}`)"
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(path) or '.')}{anchor or ''})"

    return LINK.sub(follow, markdown)
