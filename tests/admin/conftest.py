from tests.support.controller_cluster import cluster

__all__ = ["cluster"]
