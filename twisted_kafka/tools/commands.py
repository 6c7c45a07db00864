"""The table of commands: each is imported when it is used, so that all of them start fast."""

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from twisted_kafka.tools.parser import Parser

_TOOLS: Final = "twisted_kafka.tools"
_FILES: Final = ("twisted_kafka.log.directories.log_directory:LogDirectoryError", "twisted_kafka.metadata.store:StoreError")


class Command(NamedTuple):
    """A command, and the function of a module below ``tools`` that adds its options to its parser.

    The function sets ``run``, a function of the parsed options that returns the exit status. It raises OSError, ValueError or one
    of ``raises`` for errors that the user can correct.
    """

    module: str
    help: str
    function: str = "add_command"
    raises: tuple[str, ...] = ()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Import the module, and add the options."""
        getattr(import_module(f"{_TOOLS}.{self.module}"), self.function)(parser)

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the classes of errors that the user can correct."""
        parts = (each.partition(":") for each in self.raises)
        return OSError, ValueError, *(getattr(import_module(module), name) for module, _, name in parts)


COMMANDS: Final = {
    "topics": Command("admin.topics", "list, describe, create, alter and delete topics"),
    "produce": Command("admin.produce", "send records to a topic"),
    "consume": Command("admin.consume", "print the records of a topic"),
    "groups": Command("admin.groups", "list and describe groups with their lag, reset offsets, delete groups"),
    "configs": Command("admin.configs", "show and change settings of topics, brokers, loggers, groups and client metrics"),
    "acls": Command("admin.acls", "list, create and delete access control entries"),
    "users": Command("admin.users", "list users, set and delete their SCRAM passwords"),
    "quotas": Command("admin.quotas", "list, change and delete quotas of users, clients and addresses"),
    "transactions": Command("admin.transactions", "list and describe transactions, find and abort hanging ones"),
    "logs": Command("admin.logs", "show log directories and the replicas in them, and move replicas"),
    "completion": Command("completion", "write a script that completes commands and options in a shell"),
    "dump-log": Command("offline.inspection", "print the contents of files", "add_dump", _FILES),
    "verify": Command("offline.inspection", "check a log directory of a stopped broker", "add_verify", _FILES),
    "set-password": Command("offline.passwords", "set a user's password in a stopped broker", raises=_FILES),
    "certificates": Command("certificates", "make certificates for development"),
    "metadata": Command(
        "offline.metadata", "move a stopped broker's metadata between the embedded store and ZooKeeper", raises=_FILES
    ),
    "doctor": Command("doctor", "find out why clients cannot work with a Kafka broker, this one or Apache Kafka"),
    "record": Command("recordings", "record the requests of clients to any Kafka broker, as a proxy in front of it", "add_record"),
    "replay": Command("recordings", "send recorded requests to a broker, and report every answer that differs", "add_replay"),
    "compare": Command("compare.command", "send the same requests to two Kafka brokers, and report every answer that differs"),
    "top": Command("top.command", "show brokers, busy topics and lagging groups live in a terminal"),
    "mcp": Command("agent.command", "let an agent look at a Kafka cluster (Model Context Protocol)"),
    "test-server": Command("test_server", "run a broker for tests in any language, with faults, requests and a clock over HTTP"),
}


def add_commands(commands: "argparse._SubParsersAction[Parser]", only: str | None) -> None:
    """Add all commands; only the command ``only`` gets its options, or each one if it is None."""
    for name, command in COMMANDS.items():
        parser = commands.add_parser(name, help=command.help, description=f"{command.help[0].upper()}{command.help[1:]}.")
        if only in (None, name):
            command.add_options(parser)
