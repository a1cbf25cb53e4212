"""Memories on the wire."""

from agent_service.convert.common import profile_of, timestamp
from agent_service.memory.entries import Action, Operation, Target
from agent_service.memory.store import Asked, Memory
from agent_service.storage.memory import MemoryChange
from hermes.agent.v1 import memory_pb2 as pb
from services.auth import caller
from services.errors import InvalidArgument
from services.ids import new_id
from services.validation import check_id

MAX_OPERATIONS = 64
MAX_LISTED = 1000
USUAL_LISTED = 50

_TARGETS: "dict[int, Target]" = {
    pb.MEMORY_TARGET_MEMORY: Target.MEMORY,
    pb.MEMORY_TARGET_USER: Target.USER,
}
_WIRE_TARGETS = {target: number for number, target in _TARGETS.items()}
_ACTIONS: "dict[int, Action]" = {
    pb.MEMORY_ACTION_ADD: Action.ADD,
    pb.MEMORY_ACTION_REPLACE: Action.REPLACE,
    pb.MEMORY_ACTION_REMOVE: Action.REMOVE,
}


def asked(request: pb.ApplyMemoryRequest) -> Asked:
    """A checked ApplyMemory; InvalidArgument names what is wrong."""
    check_id("request_id", request.request_id)
    if request.target not in _TARGETS:
        raise InvalidArgument("not a memory", fields={"target": "MEMORY or USER"})
    if not 1 <= len(request.operations) <= MAX_OPERATIONS:
        raise InvalidArgument("too few or too many", fields={"operations": "1 to 64"})
    return Asked(
        key=request.request_id,
        profile=profile_of(request.profile),
        target=_TARGETS[request.target],
        operations=tuple(map(_operation, request.operations)),
        by=caller(),
        version=request.expected_version,
    )


def undo_key(request: pb.UndoMemoryChangeRequest) -> str:
    """By what taking a change back is known."""
    if request.request_id:
        check_id("request_id", request.request_id)
    return request.request_id or new_id("chg")


def listed(request: pb.ListMemoryChangesRequest) -> int:
    """How many changes are asked for."""
    if not 0 <= request.page_size <= MAX_LISTED:
        raise InvalidArgument("out of range", fields={"page_size": f"0 to {MAX_LISTED}"})
    return request.page_size or USUAL_LISTED


def memory(found: Memory) -> pb.Memory:
    """A memory on the wire."""
    wire = pb.Memory(
        entries=found.entries,
        char_count=len(found.text),
        char_limit=found.limit,
        version=found.version,
        drifted=found.is_drifted,
    )
    wire.target = pb.MemoryTarget.ValueType(_WIRE_TARGETS[found.target])
    return wire


def change(made: MemoryChange) -> pb.MemoryChange:
    """A change on the wire."""
    wire = pb.MemoryChange(
        change_id=made.key,
        turn_id=made.turn_id,
        changed_by=made.by,
        before=made.before,
        after=made.after,
        create_time=timestamp(made.created_at),
    )
    wire.target = pb.MemoryTarget.ValueType(_WIRE_TARGETS[Target(made.target)])
    return wire


def _operation(wire: pb.MemoryOperation) -> Operation:
    if wire.action not in _ACTIONS:
        raise InvalidArgument("not an action", fields={"operations.action": "one of the three"})
    return Operation(_ACTIONS[wire.action], wire.content, wire.old_text)
