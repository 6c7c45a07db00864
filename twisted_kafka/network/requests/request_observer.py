"""How other floors learn that a request is completed: the metrics and the access log."""

from zope.interface import Interface

from twisted_kafka.network.requests.request import Request


class IRequestObserver(Interface):
    """Gets each request that entered the request channel exactly once, when it is completed."""

    def request_completed(request: Request) -> None:  # noqa: N805
        """Record a request whose response was sent or dropped.

        Called on the request's processor thread, or on a handler's if the processor has ended. Must be fast and must not block.
        """
