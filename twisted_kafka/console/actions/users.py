"""Setting and deleting the SCRAM passwords of users."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from twisted_kafka.console.actions.preview import Preview
from twisted_kafka.console.actions.rights import need_alter
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from twisted_kafka.security.scram.formulas import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    salted_password,
)
from twisted_kafka.system import machine

MECHANISMS: Final[Mapping[str, ScramMechanism]] = {each.name: each for each in SCRAM_MECHANISMS}
USUAL_MECHANISM: Final = "SCRAM-SHA-512"
SALT_BYTES: Final = 24
"""The size of the random salt of a new credential."""
MOST_CHARACTERS: Final = 1_024
"""Of a password."""


@dataclass(frozen=True, slots=True)
class SetPassword:
    """Makes a user, or changes the password. The password is needed for the change, not for its preview."""

    user: str
    password: str = field(default="", repr=False)
    mechanism: str = USUAL_MECHANISM
    iterations: int = MIN_ITERATIONS

    def __post_init__(self) -> None:
        """Raise ValueError for a mechanism or a number that cannot be."""
        if not self.user:
            raise ValueError("name a user")
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"{self.mechanism!r} is not a mechanism: choose one of {', '.join(MECHANISMS)}")
        if not MIN_ITERATIONS <= self.iterations <= MAX_ITERATIONS:
            raise ValueError(f"iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {self.iterations}")

    def preview(self, session: Session) -> Preview:
        """Say whether the user is new. Raises CommandError."""
        need_alter(session)
        now = credentials(session, self.user)
        if self.mechanism not in now:
            what = "add a password" if now else "create the user"
            return Preview(f"{what}: {self.user} can log in with {self.mechanism}")
        warnings = ("the old password ends at once, also for sessions of the console", "connections stay open that have logged in")
        return Preview(f"change the password of {self.user} for {self.mechanism}", warnings=warnings)

    def do(self, session: Session) -> str:
        """Set it; return a sentence. Raises CommandError; ValueError for an empty or a too long password."""
        if not self.password:
            raise ValueError("the password is empty")
        if len(self.password) > MOST_CHARACTERS:
            raise ValueError(f"the password is longer than {MOST_CHARACTERS:,} characters")
        need_alter(session)  # before the work of the hash, which a user without rights could ask for again and again
        set_password(session, self.user, self.password, MECHANISMS[self.mechanism], self.iterations)
        return f"{self.user} can log in with {self.mechanism}"


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Deletes the passwords of a user."""

    user: str
    mechanism: str = ""
    """Empty: all."""

    def preview(self, session: Session) -> Preview:
        """Return the passwords. Raises CommandError for a user without one."""
        need_alter(session)
        rows = tuple((mechanism, f"{rounds:,}") for mechanism, rounds in self._mine(session).items())
        warnings = ("sessions of the user in the console end", "entries of access control and quotas stay")
        summary = f"delete {counted(len(rows), 'password')} of {self.user}"
        return Preview(summary, ("mechanism", "iterations"), rows, warnings)

    def do(self, session: Session) -> str:
        """Delete them; return a sentence. Raises CommandError."""
        mine = self._mine(session)
        delete_passwords(session, [(self.user, each) for each in mine])
        return f"{self.user} has no password for {' and '.join(mine)} any more"

    def _mine(self, session: Session) -> dict[str, int]:
        found = {name: rounds for name, rounds in credentials(session, self.user).items() if self.mechanism in ("", name)}
        if not found:
            raise CommandError(f"there is no password of {self.user!r}{f' for {self.mechanism}' if self.mechanism else ''}")
        return found


def credentials(session: Session, user: str) -> dict[str, int]:
    """Return the iterations of a user's passwords by mechanism, nothing for an unknown user. Raises CommandError."""

    def step() -> dict[str, int]:
        response = session.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=user)]))
        if response.error_code:
            raise problem("users", response.error_code, response.error_message)
        (found,) = response.results
        if found.error_code not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            raise problem(f"user {user}", found.error_code, found.error_message)
        names = {each.number: each.name for each in SCRAM_MECHANISMS}
        return {names.get(each.mechanism, str(each.mechanism)): each.iterations for each in found.credential_infos}

    return session.retrying(step)


def set_password(session: Session, user: str, password: str, mechanism: ScramMechanism, iterations: int) -> None:
    """Set a password. Only its salted hash leaves this process. Raises CommandError."""
    salt = machine.random_bytes(SALT_BYTES)
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password.encode("utf-8", "surrogatepass"), salt, iterations),
    )
    _alter(session, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def delete_passwords(session: Session, names: list[tuple[str, str]]) -> None:
    """Delete the passwords of users for mechanisms. Raises CommandError."""
    deletions = [ScramCredentialDeletion(name=user, mechanism=MECHANISMS[mechanism].number) for user, mechanism in names]
    _alter(session, AlterUserScramCredentialsRequest(deletions=deletions))


def _alter(session: Session, request: AlterUserScramCredentialsRequest) -> None:
    def step() -> None:
        for result in session.ask_controller(request).results:
            if result.error_code:
                raise problem(f"user {result.user}", result.error_code, result.error_message)

    session.retrying(step)
