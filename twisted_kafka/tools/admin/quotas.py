"""``twisted-kafka quotas``: list, change and delete quotas of users, client ids and addresses."""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from twisted_kafka.console.actions.quotas import DEFAULT_NAME, KEYS, alter, found
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.messages.administration.quotas import EntityData, OpData
from twisted_kafka.tools.admin.arguments import action, pairs, with_preview
from twisted_kafka.tools.admin.output import Output

_ENTITIES: Final = (("user", "user"), ("client_id", "client-id"), ("ip", "ip"))
_COLUMNS: Final = ("user", "client_id", "ip", "key", "value")
_KEYS: Final = ", ".join(KEYS)


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list quotas", _list)
    _add_entities(one)
    one = action(commands, "alter", "set or delete quotas", _alter)
    _add_entities(one)
    one.add_argument("-s", "--set", action="append", default=[], metavar="KEY=VALUE", help=f"{_KEYS}; may be repeated")
    one.add_argument("-d", "--delete", action="append", default=[], metavar="KEY", help="delete a quota; may be repeated")
    one.add_argument("--dry-run", action="store_true", help="only check whether it could be done")
    one = action(commands, "delete", "delete all quotas of users, clients or addresses", _delete)
    _add_entities(one)
    with_preview(one)


def _add_entities(parser: argparse.ArgumentParser) -> None:
    for name, option in _ENTITIES:
        group = parser.add_mutually_exclusive_group()
        group.add_argument(f"--{option}", metavar="NAME" if name != "ip" else "ADDRESS")
        group.add_argument(f"--default-{option}", action="store_true", help="the default, for names without a quota of their own")


def _entity(options: argparse.Namespace) -> list[EntityData]:
    entity = []
    for name, option in _ENTITIES:
        value = getattr(options, name)
        if value is not None or getattr(options, f"default_{name}"):
            entity.append(EntityData(entity_type=option, entity_name=value))
    return entity


def _rows(entries: Sequence[Any]) -> list[dict[str, Any]]:
    rows = []
    for entry in entries:
        names = {
            each.entity_type.replace("-", "_"): DEFAULT_NAME if each.entity_name is None else each.entity_name
            for each in entry.entity
        }
        rows += [
            {
                "user": names.get("user"),
                "client_id": names.get("client_id"),
                "ip": names.get("ip"),
                "key": each.key,
                "value": each.value,
            }
            for each in entry.values
        ]
    return sorted(rows, key=lambda row: tuple(str(row[column] or "") for column in _COLUMNS))


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    output.rows(_COLUMNS, _rows(found(session, _entity(options), strict=False)))


def _alter(options: argparse.Namespace, session: Session, output: Output) -> None:
    entity = _entity(options)
    if not entity:
        raise ValueError("name a --user, a --client-id or an --ip, or the default of one (--default-user)")
    operations = []
    for key, text in pairs(options.set, "--set").items():
        try:
            operations.append(OpData(key=key, value=float(text)))
        except ValueError:
            raise ValueError(f"--set {key}={text}: expected a number") from None
    operations += [OpData(key=key, remove=True) for key in options.delete]
    if not operations:
        raise ValueError(f"nothing to change: use --set or --delete, with {_KEYS}")
    alter(session, entity, operations, validate_only=options.dry_run)
    if options.dry_run:
        output.done("the quotas could be changed", action="checked")
    else:
        output.rows(_COLUMNS, _rows(found(session, entity, strict=True)))


def _delete(options: argparse.Namespace, session: Session, output: Output) -> None:
    entity = _entity(options)
    if not entity:
        raise ValueError("name a --user, a --client-id or an --ip, or the default of one (--default-user)")
    rows = _rows(found(session, entity, strict=True))
    if not rows:
        raise CommandError("there are no such quotas: twisted-kafka quotas list shows all")
    if not output.confirm(f"delete {counted(len(rows), 'quota')}", _COLUMNS, rows, only_shows=options.dry_run):
        return
    alter(session, entity, [OpData(key=str(row["key"]), remove=True) for row in rows], validate_only=False)
    output.done(f"deleted {counted(len(rows), 'quota')}", action="deleted", quotas=len(rows))
