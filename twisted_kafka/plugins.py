"""The interfaces for classes that settings name, and the types of their arguments and results (docs/plugins.md).

A class may also be a subclass of one of the classes here that this broker uses itself, such as RackAwareReplicaSelector.
"""

from twisted_kafka.admin.policies import ConfigOrder, IAlterConfigPolicy, ICreateTopicPolicy, TopicOrder
from twisted_kafka.group_coordinator.assignors.interface import AssignmentError, ConsumerGroupAssignor, GroupSpec, MemberSpec
from twisted_kafka.group_coordinator.assignors.range import RangeAssignor
from twisted_kafka.group_coordinator.assignors.sticky_tasks import StickyTaskAssignor
from twisted_kafka.group_coordinator.assignors.task_interface import TaskAssignor, TaskGroup, TaskMember
from twisted_kafka.group_coordinator.assignors.uniform import UniformAssignor
from twisted_kafka.group_coordinator.shared.topology_descriptions import (
    TopologyDescriptionPlugin,
    TopologyDescriptionRefusedError,
)
from twisted_kafka.group_coordinator.state.streams.tasks import Tasks
from twisted_kafka.metadata.cache import BrokerInfo, MetadataSnapshot, Node, PartitionState
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import KafkaError, PolicyViolationError, SecurityDisabledError
from twisted_kafka.protocol.messages.streams.streams_topology import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.quota.client_quota_callback import (
    DEFAULT,
    AnyName,
    ClientQuotaType,
    DefaultQuotaCallback,
    IClientQuotaCallback,
    QuotaEntity,
)
from twisted_kafka.replication.partition.fetch_data import ClientMetadata
from twisted_kafka.replication.replica_selector import IReplicaSelector, RackAwareReplicaSelector, ReplicaView
from twisted_kafka.security.authorizer.acl_binding import AccessControlEntry, AclBinding, AclBindingFilter, ResourcePattern
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType
from twisted_kafka.security.authorizer.interfaces import Action, DeletedAcls, IAuthorizer
from twisted_kafka.security.oauth.claims import OAuthToken
from twisted_kafka.security.principal_builder import AuthenticationContext, IKafkaPrincipalBuilder
from twisted_kafka.security.sasl.interfaces import (
    AuthorizeCallback,
    DelegationTokenCredentialCallback,
    IAuthenticateCallbackHandler,
    OAuthBearerExtensionsValidatorCallback,
    OAuthBearerValidatorCallback,
    PlainAuthenticateCallback,
    ScramCredentialCallback,
)
from twisted_kafka.security.sasl.jaas import JaasEntry
from twisted_kafka.security.scram.credentials import ScramCredential, parse_credential

__all__ = [
    "DEFAULT",
    "AccessControlEntry",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "Action",
    "AnyName",
    "AssignmentError",
    "AuthenticationContext",
    "AuthorizeCallback",
    "BrokerInfo",
    "ClientMetadata",
    "ClientQuotaType",
    "ConfigOrder",
    "ConsumerGroupAssignor",
    "DefaultQuotaCallback",
    "DelegationTokenCredentialCallback",
    "DeletedAcls",
    "GroupSpec",
    "IAlterConfigPolicy",
    "IAuthenticateCallbackHandler",
    "IAuthorizer",
    "IClientQuotaCallback",
    "ICreateTopicPolicy",
    "IKafkaPrincipalBuilder",
    "IReplicaSelector",
    "JaasEntry",
    "KafkaError",
    "KafkaPrincipal",
    "MemberSpec",
    "MetadataSnapshot",
    "Node",
    "OAuthBearerExtensionsValidatorCallback",
    "OAuthBearerValidatorCallback",
    "OAuthToken",
    "PartitionState",
    "PatternType",
    "PermissionType",
    "PlainAuthenticateCallback",
    "PolicyViolationError",
    "QuotaEntity",
    "RackAwareReplicaSelector",
    "RangeAssignor",
    "ReplicaView",
    "RequestContext",
    "ResourcePattern",
    "ResourceType",
    "ScramCredential",
    "ScramCredentialCallback",
    "SecurityDisabledError",
    "StickyTaskAssignor",
    "TaskAssignor",
    "TaskGroup",
    "TaskMember",
    "Tasks",
    "TopicOrder",
    "TopicPartition",
    "TopologyDescription",
    "TopologyDescriptionGlobalStore",
    "TopologyDescriptionNode",
    "TopologyDescriptionPlugin",
    "TopologyDescriptionRefusedError",
    "TopologyDescriptionSubtopology",
    "UniformAssignor",
    "parse_credential",
]
