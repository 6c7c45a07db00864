"""Whether the user may change the cluster: for previews of requests that no broker checks without doing them."""

from twisted_kafka.console.cluster.problems import problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.cluster import DescribeClusterRequest
from twisted_kafka.security.authorizer.acl_types import AclOperation


def need_alter(session: Session) -> None:
    """Raise CommandError unless the user has the right Alter on the cluster. An old broker does not say."""
    if session.version(DescribeClusterRequest) < 0:
        return
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    if not session.retrying(lambda: session.ask(request)).cluster_authorized_operations & 1 << AclOperation.ALTER:
        raise problem("cluster", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
