"""The stores that the certificates command writes."""

from pathlib import Path

from twisted_kafka.tools.main import main

SUFFIXES = {"PEM": "pem", "PKCS12": "p12", "JKS": "jks"}


def make(directory: Path, *options: str) -> None:
    assert main(["certificates", str(directory), *options]) == 0


def properties(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def stores(directory: Path, name: str, kind: str) -> dict[str, str]:
    """Settings with the stores of one kind."""
    trust = "ca.pem" if kind == "PEM" else f"truststore.{SUFFIXES[kind]}"
    found = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(directory / f"{name}.{SUFFIXES[kind]}"),
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(directory / trust),
    }
    if kind != "PEM":
        password = (directory / "password").read_text()
        found |= {"ssl.keystore.password": password, "ssl.truststore.password": password}
    return found
