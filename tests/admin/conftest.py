from tests.controller.cluster import cluster

__all__ = ["cluster"]
