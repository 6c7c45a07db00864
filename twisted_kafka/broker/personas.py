"""Personas: how other versions of Apache Kafka look to a client.

    with twisted_kafka.Broker(persona="2.8") as broker: ...

A persona has the APIs and versions of one Kafka, its keys of brokers and topics with their defaults, and its quirks. The broker
serves the ones that it has: docs/compatibility.md. Consequences of the versions need no quirk: without Produce v7 there is no
zstd, and without Fetch v7 there are no fetch sessions.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from twisted_kafka.broker.persona_keys import EDITIONS
from twisted_kafka.config.broker_config import Edition
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.protocol.api import ApiKey

_VERSIONS: Final = ("0.11", "2.8", "3.9", "4.1", "4.2", "4.4")
_KRAFT: Final = ("4.1", "4.2", "4.4")

# Key, name, and what each version serves its clients; "-": nothing. Brokers on ZooKeeper, 4.x on KRaft.
# From the ApiKeys of Kafka's own clients 0.11.0.3, 2.8.2, 3.9.2, 4.1.0, 4.2.0 and 4.4.0; tests/oracle/test_personas.py compares.
_TABLE: Final = """
0   Produce                         0-3   0-9   0-11  3-13  3-13  3-13
1   Fetch                           0-5   0-12  0-17  4-18  4-18  4-18
2   ListOffsets                     0-2   0-6   0-9   1-10  1-11  1-11
3   Metadata                        0-4   0-11  0-12  0-13  0-13  0-13
4   LeaderAndIsr                    0-0   0-5   0-7   -     -     -
5   StopReplica                     0-0   0-3   0-4   -     -     -
6   UpdateMetadata                  0-3   0-7   0-8   -     -     -
7   ControlledShutdown              1-1   0-3   0-3   -     -     -
8   OffsetCommit                    0-3   0-8   0-9   2-9   2-10  2-10
9   OffsetFetch                     0-3   0-7   0-9   1-9   1-10  1-10
10  FindCoordinator                 0-1   0-3   0-6   0-6   0-6   0-6
11  JoinGroup                       0-2   0-7   0-9   0-9   0-9   0-9
12  Heartbeat                       0-1   0-4   0-4   0-4   0-4   0-4
13  LeaveGroup                      0-1   0-4   0-5   0-5   0-5   0-5
14  SyncGroup                       0-1   0-5   0-5   0-5   0-5   0-5
15  DescribeGroups                  0-1   0-5   0-5   0-6   0-6   0-6
16  ListGroups                      0-1   0-4   0-5   0-5   0-5   0-5
17  SaslHandshake                   0-0   0-1   0-1   0-1   0-1   0-1
18  ApiVersions                     0-1   0-3   0-4   0-4   0-4   0-5
19  CreateTopics                    0-2   0-7   0-7   2-7   2-7   2-7
20  DeleteTopics                    0-1   0-6   0-6   1-6   1-6   1-6
21  DeleteRecords                   0-0   0-2   0-2   0-2   0-2   0-2
22  InitProducerId                  0-0   0-4   0-5   0-5   0-5   0-5
23  OffsetForLeaderEpoch            0-0   0-4   0-4   2-4   2-4   2-4
24  AddPartitionsToTxn              0-0   0-3   0-5   0-5   0-5   0-5
25  AddOffsetsToTxn                 0-0   0-3   0-4   0-4   0-4   0-4
26  EndTxn                          0-0   0-3   0-4   0-5   0-5   0-5
27  WriteTxnMarkers                 0-0   0-1   0-1   1-1   1-2   1-2
28  TxnOffsetCommit                 0-0   0-3   0-4   0-5   0-5   0-6
29  DescribeAcls                    0-0   0-2   0-3   1-3   1-3   1-3
30  CreateAcls                      0-0   0-2   0-3   1-3   1-3   1-3
31  DeleteAcls                      0-0   0-2   0-3   1-3   1-3   1-3
32  DescribeConfigs                 0-0   0-4   0-4   1-4   1-4   1-4
33  AlterConfigs                    0-0   0-2   0-2   0-2   0-2   0-2
34  AlterReplicaLogDirs             -     0-2   0-2   1-2   1-2   1-2
35  DescribeLogDirs                 -     0-2   0-4   1-4   1-4   1-5
36  SaslAuthenticate                -     0-2   0-2   0-2   0-2   0-2
37  CreatePartitions                -     0-3   0-3   0-3   0-3   0-3
38  CreateDelegationToken           -     0-2   0-3   1-3   1-3   1-3
39  RenewDelegationToken            -     0-2   0-2   1-2   1-2   1-2
40  ExpireDelegationToken           -     0-2   0-2   1-2   1-2   1-2
41  DescribeDelegationToken         -     0-2   0-3   1-3   1-3   1-3
42  DeleteGroups                    -     0-2   0-2   0-2   0-2   0-3
43  ElectLeaders                    -     0-2   0-2   0-2   0-2   0-2
44  IncrementalAlterConfigs         -     0-1   0-1   0-1   0-1   0-1
45  AlterPartitionReassignments     -     0-0   0-0   0-1   0-1   0-1
46  ListPartitionReassignments      -     0-0   0-0   0-0   0-0   0-0
47  OffsetDelete                    -     0-0   0-0   0-0   0-0   0-0
48  DescribeClientQuotas            -     0-1   0-1   0-1   0-1   0-1
49  AlterClientQuotas               -     0-1   0-1   0-1   0-1   0-1
50  DescribeUserScramCredentials    -     0-0   0-0   0-0   0-0   0-0
51  AlterUserScramCredentials       -     0-0   0-0   0-0   0-0   0-0
55  DescribeQuorum                  -     -     -     0-2   0-2   0-2
56  AlterPartition                  -     0-0   0-3   -     -     -
57  UpdateFeatures                  -     0-0   0-1   0-2   0-2   0-2
58  Envelope                        -     -     0-0   -     -     -
60  DescribeCluster                 -     0-0   0-1   0-2   0-2   0-2
61  DescribeProducers               -     0-0   0-0   0-0   0-0   0-0
64  UnregisterBroker                -     -     -     0-0   0-0   0-0
65  DescribeTransactions            -     -     0-0   0-0   0-0   0-0
66  ListTransactions                -     -     0-1   0-2   0-2   0-2
67  AllocateProducerIds             -     -     0-0   -     -     -
68  ConsumerGroupHeartbeat          -     -     0-0   0-1   0-1   0-1
69  ConsumerGroupDescribe           -     -     0-0   0-1   0-1   0-1
71  GetTelemetrySubscriptions       -     -     -     0-0   0-0   0-0
72  PushTelemetry                   -     -     -     0-0   0-0   0-0
74  ListConfigResources             -     -     -     0-1   0-1   0-1
75  DescribeTopicPartitions         -     -     -     0-0   0-0   0-0
76  ShareGroupHeartbeat             -     -     -     1-1   1-1   1-1
77  ShareGroupDescribe              -     -     -     1-1   1-1   1-1
78  ShareFetch                      -     -     -     1-1   1-2   1-2
79  ShareAcknowledge                -     -     -     1-1   1-2   1-2
80  AddRaftVoter                    -     -     -     0-0   0-1   0-1
81  RemoveRaftVoter                 -     -     -     0-0   0-0   0-0
83  InitializeShareGroupState       -     -     -     0-0   0-0   0-0
84  ReadShareGroupState             -     -     -     0-0   0-0   0-0
85  WriteShareGroupState            -     -     -     0-0   0-1   0-1
86  DeleteShareGroupState           -     -     -     0-0   0-0   0-0
87  ReadShareGroupStateSummary      -     -     -     0-0   0-1   0-1
88  StreamsGroupHeartbeat           -     -     -     -     0-0   0-1
89  StreamsGroupDescribe            -     -     -     -     0-0   0-1
90  DescribeShareGroupOffsets       -     -     -     0-0   0-1   0-1
91  AlterShareGroupOffsets          -     -     -     0-0   0-0   0-0
92  DeleteShareGroupOffsets         -     -     -     0-0   0-0   0-0
93  StreamsGroupTopologyDescriptionUpdate - - -   -     -     0-0
94  UnregisterController            -     -     -     -     -     0-0
"""

Ranges = dict[int, tuple[int, int]]


class Persona(NamedTuple):
    """One Kafka, as its clients know it."""

    name: str
    served: Mapping[int, tuple[int, int]]
    """First and last version by API key."""
    edition: Edition
    """The keys that it has, and the defaults that differ from this broker's."""
    told_from: Mapping[int, int]
    """Lower first versions that ApiVersions reports, by API key: old librdkafka needs this for Produce (KAFKA-18659)."""
    tells_features: bool
    """Whether it has features with levels: only KRaft does."""
    tells_supported: bool
    """Whether ApiVersions of a version that is too new is answered with the supported versions (KIP-511, since 2.4)."""

    def told(self, served: Mapping[int, tuple[int, int]]) -> Ranges:
        """Return the versions that ApiVersions reports for the served ones."""
        return {key: (self.told_from.get(key, low), high) for key, (low, high) in served.items()}


def persona_of(name: str) -> Persona:
    """Return a persona by name; raise ConfigError, one line with the known personas."""
    if name not in _VERSIONS:
        raise ConfigError(f"There is no persona {name!r}: use one of {', '.join(_VERSIONS)}")
    column = _VERSIONS.index(name) + 2
    rows = [line.split() for line in _TABLE.strip().splitlines()]
    served = {int(row[0]): _range(row[column]) for row in rows if row[column] != "-"}
    is_kraft = name in _KRAFT
    told_from = {int(ApiKey.PRODUCE): 0} if is_kraft else {}
    return Persona(name, served, EDITIONS[name], told_from, is_kraft, name != "0.11")


def _range(text: str) -> tuple[int, int]:
    low, high = text.split("-")
    return int(low), int(high)
