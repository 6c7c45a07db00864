"""The controller's watches on nodes that come and go: one for each broker and each topic."""

from collections.abc import Callable

from twisted_kafka.metadata.store import EventKind, IMetadataStore, IWatch, WatchEvent


class NodeWatches:
    """Watches on the bytes of nodes, by path; each node is watched once."""

    def __init__(self, store: IMetadataStore) -> None:
        self._store = store
        self._watches: dict[str, IWatch] = {}

    def watch(self, path: str, changed: Callable[[WatchEvent], None]) -> None:
        """Have ``changed`` called when the node's bytes change, unless it is watched already.

        Children come and go with every partition: that is no change.
        """
        if path in self._watches:
            return

        def notice(event: WatchEvent) -> None:
            if event.kind is EventKind.CHANGED:
                changed(event)

        self._watches[path] = self._store.watch(path, notice)

    def forget(self, path: str) -> None:
        """Watch this node no more."""
        watch = self._watches.pop(path, None)
        if watch is not None:
            watch.cancel()

    def forget_all(self) -> None:
        """Watch none any more."""
        for path in list(self._watches):
            self.forget(path)
