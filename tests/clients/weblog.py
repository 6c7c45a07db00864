"""The access log of a made-up web server: real-looking text of any size, the same each time."""

import random
from pathlib import Path
from typing import Any

_PATHS = (
    "/",
    "/index.html",
    "/products",
    "/products/{n}",
    "/cart",
    "/checkout",
    "/api/v1/items/{n}",
    "/static/app.{n}.js",
    "/search?q=word{n}",
)
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)",
    "curl/8.5.0",
    "Größenwahn/1.0 (日本)",
)


def lines(size_bytes: int, seed: int = 7) -> list[bytes]:
    """Return about ``size_bytes`` bytes of lines, without their ends; none is empty and no two are equal."""
    dice = random.Random(seed)
    made: list[Any] = []
    total = 0
    while total < size_bytes:
        number = len(made)
        path = dice.choice(_PATHS).format(n=dice.randrange(10_000))
        address = f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(256)}"
        status, size = dice.choice((200, 200, 200, 304, 404, 500)), dice.randrange(100_000)
        moment = f"21/Nov/2026:{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02} +0000"
        line = f'{address} - - [{moment}] "GET {path} HTTP/1.1" {status} {size} "{number}" "{dice.choice(_AGENTS)}"'.encode()
        made.append(line)
        total += len(line) + 1
    return made


def write(path: Path, size_bytes: int) -> list[bytes]:
    made = lines(size_bytes)
    path.write_bytes(b"\n".join(made) + b"\n")
    return made
