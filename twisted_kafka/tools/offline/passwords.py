"""``twisted-kafka set-password``: stores a user's SCRAM credential while the broker is stopped.

It makes a broker's first users, who log in to make the others. (Kafka: ``kafka-storage.sh format --add-scram``.)
"""

import argparse
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from twisted_kafka.admin.scram_credentials import ScramCredentialAdmin, Upsertion
from twisted_kafka.broker.registration.identity import check_broker_id
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.command_line import make_config
from twisted_kafka.console.actions.users import SALT_BYTES
from twisted_kafka.log.directories.log_directory import DirectoryInUseError
from twisted_kafka.log.directories.meta_properties import load_meta_properties
from twisted_kafka.metadata.config_repository import ConfigRepository
from twisted_kafka.metadata.registration import prepare_store
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.security.scram.formulas import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, salted_password
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.tools.offline.metadata import stopped_brokers_store
from twisted_kafka.tools.password_prompt import ask_password

_MECHANISMS: Final = {mechanism.name: mechanism for mechanism in SCRAM_MECHANISMS}


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options (``commands.Command``)."""
    parser.description = (
        "Set a user's SCRAM password in the metadata of a stopped or new broker. The command asks for the password, or "
        "reads it from the standard input if that is not a terminal. For a running broker, use twisted-kafka users set-password."
    )
    parser.add_argument("user", metavar="USER")
    parser.add_argument("-c", "--config", help="the broker's settings, as for serve")
    parser.add_argument("-d", "--data-dir", help="the broker's directory for all data, as for serve")
    parser.add_argument("-m", "--mechanism", choices=sorted(_MECHANISMS), default="SCRAM-SHA-512", help="[default: %(default)s]")
    parser.add_argument(
        "--iterations", type=int, default=MIN_ITERATIONS, help=f"{MIN_ITERATIONS} to {MAX_ITERATIONS} [default: %(default)s]"
    )
    parser.set_defaults(run=_set_password)


@contextmanager
def _store(config: KafkaConfig) -> Iterator[IMetadataStore]:
    """Open the stopped broker's store.

    Raises ValueError with advice for a running broker, and ConfigError if the broker would not start with these directories.
    """
    try:
        with stopped_brokers_store(config) as store:
            check_broker_id(config, load_meta_properties(map(Path, config.log_dirs)))
            yield store
    except DirectoryInUseError as error:
        raise ValueError(f"{error}, or use twisted-kafka users set-password while it runs") from None


def _set_password(options: argparse.Namespace) -> int:
    config = make_config({"config": options.config, "data-dir": options.data_dir, "listeners": None, "broker-id": None}, ())
    mechanism = _MECHANISMS[options.mechanism]
    if not MIN_ITERATIONS <= options.iterations <= MAX_ITERATIONS:
        raise ValueError(f"--iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {options.iterations}")
    with _store(config) as store:
        prepare_store(store)
        configs = ConfigRepository(store, SystemClock(), threaded=False)
        salt = secrets.token_bytes(SALT_BYTES)
        salted = salted_password(mechanism, ask_password(options.user).encode(), salt, options.iterations)
        change = Upsertion(options.user, mechanism.number, options.iterations, salt, salted)
        error = ScramCredentialAdmin(configs).alter([change], [])[options.user]
    if error is not None:
        raise ValueError(str(error))
    print(f"{options.user} can log in with {mechanism.name}")
    return 0
