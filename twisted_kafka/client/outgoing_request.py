"""A request that a NetworkClient sends: a message, or a function that makes one for the version that the node supports."""

from typing import Protocol


class IOutgoingRequest(Protocol):
    """A request. (Kafka: ``AbstractRequest.Builder``.)"""

    @property
    def KEY(self) -> int:
        """The API's key."""

    @property
    def VERSIONS(self) -> tuple[int, int]:
        """The first and the last version that can be encoded."""

    def encode(self, version: int) -> bytes:
        """Encode it in a version; an exception becomes that of the request."""
