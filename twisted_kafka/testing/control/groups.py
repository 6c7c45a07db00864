"""Groups over HTTP: states, members, offsets and lag."""

from typing import Any

from twisted_kafka.testing.control.call import Call
from twisted_kafka.testing.control.forms import write_partitions


def list_groups(call: Call) -> Any:
    """Return the groups of all brokers with their states."""
    call.asked.end()
    return {"groups": [{"group": group, "state": state} for group, state in call.target.kafka.groups().items()]}


def rebalance_group(call: Call) -> Any:
    """Let a group rebalance: all members have to join again."""
    call.given.end()
    (group,) = call.names
    call.target.kafka.rebalance(group)
    return {}


def get_group(call: Call) -> Any:
    """Return a group: its ``state`` (Dead if it does not exist), its ``members``, its ``offsets``, its ``lag``."""
    call.asked.end()
    (group,) = call.names
    kafka = call.target.kafka
    offsets = [
        {"topic": topic, "partition": partition, "committed": offset}
        for (topic, partition), offset in sorted(kafka.committed(group).items())
    ]
    described = kafka.described_group(group)
    members = [
        {
            "member_id": member.member_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "assigned": write_partitions(member.assigned),
        }
        for member in described.members
    ]
    return {"group": group, "state": described.state, "members": members, "offsets": offsets, "lag": kafka.lag(group)}
