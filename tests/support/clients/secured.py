"""The broker of etc/secured.properties, started with the commands of docs/operations-security.md: TLS, SCRAM and ACLs."""

import subprocess
import sys
from pathlib import Path

from tests.support.budget import patient
from tests.support.clients.served import ServedBroker, is_open

SETTINGS = Path(__file__).parents[3] / "etc" / "secured.properties"
PASSWORDS = {"admin": "admin-secret", "alice": "alice-secret"}


def command(*words: str, stdin: str = "") -> str:
    """Run a command of `twisted-kafka` and return its output."""
    program = [sys.executable, "-m", "twisted_kafka.tools.main", *words]
    done = subprocess.run(program, input=stdin, capture_output=True, text=True, timeout=patient(60), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def secured_broker(directory: Path) -> ServedBroker:
    """Start the broker, with the users of `PASSWORDS` and with certificates in a folder of that name."""
    certificates = directory / "certificates"
    command("certificates", str(certificates))
    settings = directory / "secured.properties"
    settings.write_text(SETTINGS.read_text().replace("=certificates/", f"={certificates}/"))
    data = directory / "data"
    for user, password in PASSWORDS.items():
        command("set-password", "--config", str(settings), "--data-dir", str(data), user, stdin=f"{password}\n")
    broker = ServedBroker(data)
    broker.listeners = f"SASL_SSL://{broker.bootstrap}"
    broker.options = ("--config", str(settings))
    broker.is_ready = is_open
    broker.start()
    return broker


def client_settings(broker: ServedBroker, user: str, password: str | None = None) -> dict[str, str | int | float | bool]:
    """Return what a client of librdkafka needs; `password`: another than the user's."""
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.data.parent / "certificates" / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORDS[user] if password is None else password,
        "log_level": 0,
    }
