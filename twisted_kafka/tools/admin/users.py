"""``twisted-kafka users``: list users with SCRAM credentials, set and delete their passwords."""

import argparse
from typing import Any, Final

from twisted_kafka.console.actions.users import MECHANISMS, USUAL_MECHANISM, delete_passwords, set_password
from twisted_kafka.console.cluster.problems import CommandError, problem, unknown
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.scram import DescribeUserScramCredentialsRequest, UserName
from twisted_kafka.security.scram.formulas import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS
from twisted_kafka.tools.admin.arguments import action, several, with_preview
from twisted_kafka.tools.admin.output import Output
from twisted_kafka.tools.password_prompt import ask_password

_NAMES: Final = {mechanism.number: mechanism.name for mechanism in SCRAM_MECHANISMS}


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    one = action(commands, "list", "list users with their mechanisms", _list)
    several(one, "users", "USER", "[default: all]")
    one = action(commands, "set-password", "create a user, or change the password", _set_password)
    one.description = (
        f"{one.description} The command asks for the password, or reads it from standard input if that is not a terminal."
    )
    one.add_argument("user", metavar="USER")
    one.add_argument("-m", "--mechanism", choices=sorted(MECHANISMS), default=USUAL_MECHANISM, help="[default: %(default)s]")
    one.add_argument(
        "--iterations", type=int, default=MIN_ITERATIONS, help=f"{MIN_ITERATIONS} to {MAX_ITERATIONS} [default: %(default)s]"
    )
    one = action(commands, "delete", "delete users' passwords", _delete)
    several(one, "users", "USER", least=1)
    one.add_argument("-m", "--mechanism", choices=sorted(MECHANISMS), help="only the password for this mechanism")
    with_preview(one)


def _found(session: Session, users: list[str]) -> list[dict[str, Any]]:
    """Return a row for each credential of these users, or of all. Raises CommandError for a user without one."""
    response = _ask(session, DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in users] or None))
    rows = []
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            known = [each.user for each in _ask(session, DescribeUserScramCredentialsRequest(users=None)).results]
            raise unknown("SCRAM user", result.user, known, "make the user with twisted-kafka users set-password")
        if result.error_code:
            raise problem(f"user {result.user}", result.error_code, result.error_message)
        for each in result.credential_infos:
            mechanism = _NAMES.get(each.mechanism, str(each.mechanism))
            rows.append({"user": result.user, "mechanism": mechanism, "iterations": each.iterations})
    return sorted(rows, key=lambda row: (str(row["user"]), str(row["mechanism"])))


def _ask(session: Session, request: DescribeUserScramCredentialsRequest) -> Any:
    def step() -> Any:
        response = session.ask(request)
        if response.error_code:
            raise problem("users", response.error_code, response.error_message)
        return response

    return session.retrying(step)


def _list(options: argparse.Namespace, session: Session, output: Output) -> None:
    output.rows(["user", "mechanism", "iterations"], _found(session, options.users))


def _set_password(options: argparse.Namespace, session: Session, output: Output) -> None:
    if not MIN_ITERATIONS <= options.iterations <= MAX_ITERATIONS:
        raise ValueError(f"--iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {options.iterations}")
    mechanism = MECHANISMS[options.mechanism]
    set_password(session, options.user, ask_password(options.user), mechanism, options.iterations)
    output.done(f"{options.user} can log in with {mechanism.name}", user=options.user, mechanism=mechanism.name, action="altered")


def _delete(options: argparse.Namespace, session: Session, output: Output) -> None:
    rows = [row for row in _found(session, options.users) if options.mechanism in (None, row["mechanism"])]
    if not rows:
        raise CommandError(f"no password for {options.mechanism}: twisted-kafka users list shows the mechanisms")
    summary = f"delete {counted(len(rows), 'password')} of {', '.join(options.users)}"
    if not output.confirm(summary, ["user", "mechanism", "iterations"], rows, only_shows=options.dry_run):
        return
    delete_passwords(session, [(row["user"], row["mechanism"]) for row in rows])
    for row in rows:
        output.done(
            f"{row['user']} has no password for {row['mechanism']} any more",
            user=row["user"],
            mechanism=row["mechanism"],
            action="deleted",
        )
