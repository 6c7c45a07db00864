from concurrent.futures import Future
from typing import Any

import pytest

from tests.server.apis.group_handlers import Handlers
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)


def join_request(member_id: str = "", **fields: Any) -> Any:
    fields.setdefault("session_timeout_ms", 10_000)
    return JoinGroupRequest(
        group_id="g",
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
        **fields,
    )


def joined(handlers: Any, version: Any, **fields: Any) -> Any:
    response = handlers.ask(join_request(**fields), version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = handlers.ask(join_request(response.member_id, **fields), version)
    assert response.error_code == 0
    return response


def synced(handlers: Any, member_id: Any, version: int = 5, generation: int = 1) -> Any:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
    )
    return handlers.ask(request, version)


@pytest.mark.parametrize("version", range(10))
def test_join_in_every_version(version: Any) -> None:
    handlers = Handlers()
    first = handlers.ask(join_request(rebalance_timeout_ms=30_000), version)
    if version >= 4:
        assert (first.error_code, first.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
        assert first.member_id.startswith("client-")
        assert first.protocol_name == (None if version >= 7 else "")
        first = handlers.ask(join_request(first.member_id, rebalance_timeout_ms=30_000), version)
    assert (first.error_code, first.generation_id, first.leader) == (0, 1, first.member_id)
    assert (first.protocol_name, first.protocol_type) == ("range", "consumer" if version >= 7 else None)
    assert [(member.member_id, member.metadata) for member in first.members] == [(first.member_id, b"meta")]
    record_member = synced(handlers, first.member_id) and handlers.bench.written()[-1].value.members[0]
    assert record_member.rebalance_timeout == (10_000 if version == 0 else 30_000)
    assert (record_member.client_id, record_member.client_host) == ("client", "/10.0.0.1")


def test_a_parked_join_is_a_future() -> None:
    handlers = Handlers(initial_rebalance_delay_ms=3000)
    answer = handlers.ask(join_request(), 3)
    assert isinstance(answer, Future)
    assert not answer.done()
    handlers.bench.advance(3000)
    assert answer.result(0).generation_id == 1


@pytest.mark.parametrize("version", range(6))
def test_sync_in_every_version(version: Any) -> None:
    handlers = Handlers()
    member_id = joined(handlers, 5).member_id
    response = synced(handlers, member_id, version)
    assert (response.error_code, response.assignment) == (0, b"all")
    assert response.protocol_name == ("range" if version >= 5 else None)


def test_sync_v5_must_name_the_protocol() -> None:
    handlers = Handlers()
    member_id = joined(handlers, 5).member_id
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, protocol_type="consumer")
    assert handlers.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_in_every_version(version: Any) -> None:
    handlers = Handlers()
    member_id = joined(handlers, 5).member_id
    synced(handlers, member_id)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert handlers.ask(request, version).error_code == 0
    request.generation_id = 2
    assert handlers.ask(request, version).error_code == ErrorCode.ILLEGAL_GENERATION
    assert handlers.context_of(request, version).error == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", range(6))
def test_leave_in_every_version(version: Any) -> None:
    handlers = Handlers()
    member_id = joined(handlers, 5).member_id
    if version < 3:
        assert handlers.ask(LeaveGroupRequest(group_id="g", member_id="x"), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert handlers.ask(LeaveGroupRequest(group_id="g", member_id=member_id), version).error_code == 0
    else:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="x"), MemberIdentity(member_id=member_id)])
        response = handlers.ask(request, version)
        assert response.error_code == 0
        assert [(one.member_id, one.error_code) for one in response.members] == [("x", 25), (member_id, 0)]
    assert handlers.bench.groups.describe_group("g").state == "Empty"


def test_a_static_member_may_be_removed_by_its_instance_id() -> None:
    handlers = Handlers()
    joined(handlers, 9, group_instance_id="I")
    response = handlers.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(group_instance_id="I", reason="admin")]), 5)
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [("", "I", 0)]


@pytest.mark.parametrize("version", range(7))
def test_describe_in_every_version(version: Any) -> None:
    handlers = Handlers()
    member_id = joined(handlers, 9, group_instance_id="I").member_id
    synced(handlers, member_id)
    groups = ["g", "none", "g"]  # described once
    request = DescribeGroupsRequest(groups=groups, include_authorized_operations=version >= 3)
    group, missing = handlers.ask(request, version).groups
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (0, "Stable", "consumer", "range")
    (member,) = group.members
    assert (member.client_id, member.client_host, member.member_assignment) == ("client", "/10.0.0.1", b"all")
    assert member.group_instance_id == ("I" if version >= 4 else None)
    error = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
    assert (missing.error_code, missing.group_state, missing.members) == (error, "Dead", [])
    assert (missing.error_message or "").startswith("Group none not found" if version >= 6 else "")
    assert group.authorized_operations == (3400 if version >= 6 else 328 if version >= 3 else -(2**31))


@pytest.mark.parametrize("version", range(6))
def test_list_in_every_version(version: Any) -> None:
    handlers = Handlers()
    joined(handlers, 5)
    (group,) = handlers.ask(ListGroupsRequest(), version).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert group.group_state == ("CompletingRebalance" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")
    if version >= 4:
        assert handlers.ask(ListGroupsRequest(states_filter=["completingrebalance"]), version).groups
        assert not handlers.ask(ListGroupsRequest(states_filter=["Stable", "bogus"]), version).groups
    if version >= 5:
        assert handlers.ask(ListGroupsRequest(types_filter=["Classic"]), version).groups
        assert not handlers.ask(ListGroupsRequest(types_filter=["consumer"]), version).groups


def test_descriptions_wait_for_replicas_and_lists_do_not() -> None:
    handlers = Handlers()
    member_id = joined(handlers, 3).member_id
    handlers.bench.log.holds = True
    handlers.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 0)
    described, listed = handlers.ask(DescribeGroupsRequest(groups=["g"]), 0), handlers.ask(ListGroupsRequest(), 4)
    assert not described.done()
    handlers.bench.log.release()
    assert [one.group_state for one in described.result(0).groups] == ["Empty"]
    assert [(one.group_id, one.group_state) for one in listed.groups] == [("g", "Empty")]


@pytest.mark.parametrize("version", range(3))
def test_delete_in_every_version(version: Any) -> None:
    handlers = Handlers()
    member_id = joined(handlers, 5).member_id
    request = DeleteGroupsRequest(groups_names=["g", "none", "g"])
    results = handlers.ask(request, version).results
    assert [(one.group_id, one.error_code) for one in results] == [("g", 68), ("none", 69)]
    handlers.ask(LeaveGroupRequest(group_id="g", member_id=member_id), 0)
    assert [one.error_code for one in handlers.ask(request, version).results] == [0, 69]


def test_delete_waits_for_replicas() -> None:
    handlers = Handlers()
    handlers.ask(LeaveGroupRequest(group_id="g", member_id=joined(handlers, 3).member_id), 0)
    handlers.bench.log.holds = True
    answer = handlers.ask(DeleteGroupsRequest(groups_names=["g", "none"]), 2)
    assert not answer.done()
    handlers.bench.log.release()
    assert [one.error_code for one in answer.result(0).results] == [0, 69]
