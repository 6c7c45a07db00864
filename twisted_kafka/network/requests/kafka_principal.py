"""The identity of a connection's client (Kafka: KafkaPrincipal, SecurityUtils.parseKafkaPrincipal)."""

from typing import Final, NamedTuple, Self

from typing_extensions import override

USER: Final = "User"
"""The type of principals that this broker makes. A principal builder may make others."""


class KafkaPrincipal(NamedTuple):
    """A principal. Its text is ``type:name``."""

    principal_type: str
    name: str
    token_authenticated: bool = False
    """Whether it logged in with a delegation token. The authorizer does not look at it."""

    @override
    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the principal of a ``type:name``, in which the name may contain colons; raises ValueError."""
        principal_type, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"a principal must be type:name, as User:alice, not {text!r}")
        return cls(principal_type, name)


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of connections that are not authenticated."""
