"""`/memory`: what the agent remembers across sessions."""

from collections.abc import Sequence

from gateway_service.chats.access import Who
from gateway_service.clients import call_agent
from gateway_service.commands.base import (
    NOT_IN_GROUPS,
    Answer,
    Chat,
    Command,
    CommandContext,
    Group,
    Verb,
    code,
    format_time,
    render_list,
    wrong,
)
from hermes.agent.v1 import memory_pb2
from hermes.agent.v1.memory_pb2 import MemoryChange

SHOWN = 10
LOOKED_AT = 100
"""How many changes are searched for one that can be undone."""
UNDO = "undo"
ENTRY_CHARS = 300
_TITLES = {
    memory_pb2.MEMORY_TARGET_MEMORY: "The agent's notes",
    memory_pb2.MEMORY_TARGET_USER: "About you",
}


_TO_KEEP = "If you want one of them, tell the agent to remember it."


async def _show(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    parts: list[str] = []
    request = memory_pb2.GetMemoryRequest(profile=chat.profile)
    found = await call_agent(context.agent.memories.GetMemory(request))
    for memory in found.memories:
        used = f"{memory.char_count:,} of {memory.char_limit:,} characters"
        lines = [" ".join(entry.split()) for entry in memory.entries]
        body = render_list(lines, "`hermes memory show` lists all") if lines else "Nothing yet."
        parts.append(f"**{_TITLES[memory.target]}** ({used})\n{body}")
    if found.refusals:
        refused = render_list(list(found.refusals), "they are older")
        parts.append(f"**Not kept by a review**\n{refused}\n\n{_TO_KEEP}")
    return Answer("\n\n".join([*parts, "A session sees its memory as it was when it began."]))


async def _changes(context: CommandContext, chat: Chat, most: int) -> Sequence[MemoryChange]:
    request = memory_pb2.ListMemoryChangesRequest(profile=chat.profile, page_size=most)
    return (await call_agent(context.agent.memories.ListMemoryChanges(request))).changes


async def _history(context: CommandContext, chat: Chat, _arguments: str) -> Answer:
    changes = await _changes(context, chat, SHOWN + 1)
    if not changes:
        return Answer("The memory has no changes yet.")
    lines = [
        f"`{each.change_id}` {format_time(each.create_time)}: {_render_change(each)}"
        for each in changes
    ]
    shown = render_list(lines, "`hermes memory history` lists all", SHOWN)
    return Answer(f"{shown}\n\n/memory undo takes back the latest, /memory undo ID another one.")


async def _undo(context: CommandContext, chat: Chat, arguments: str) -> Answer:
    request_id, named = chat.effect_id(UNDO), arguments.strip("` ")
    changes = await _changes(context, chat, LOOKED_AT)
    done = next((each for each in changes if each.change_id == request_id), None)
    if done is not None:
        return Answer(f"Taken back: {_render_change(done)}")
    found = next((each for each in changes if each.change_id == named), None)
    if named and found is None:
        return wrong(f"There is no change {code(named)}; /memory history lists them.")
    found = found or standing(changes)
    if found is None:
        return wrong("There is nothing to take back.")
    request = memory_pb2.UndoMemoryChangeRequest(
        profile=chat.profile, change_id=found.change_id, request_id=request_id
    )
    await call_agent(context.agent.memories.UndoMemoryChange(request))
    return Answer(f"Taken back: {_render_change(found)}\n\nOpen sessions keep what they know.")


def standing(changes: Sequence[MemoryChange]) -> MemoryChange | None:
    """Return the latest change that no later /memory undo has taken back."""
    undoing: list[MemoryChange] = []
    for change in changes:
        if change.change_id.startswith(f"{UNDO}_"):
            undoing.append(change)
        elif undoing and _reverses(undoing[-1], change):
            undoing.pop()
        else:
            return change
    return None


def _reverses(one: MemoryChange, other: MemoryChange) -> bool:
    """Return whether a change restores what the memory was before the other one."""
    undone = (other.target, _entries(other.after), _entries(other.before))
    return (one.target, _entries(one.before), _entries(one.after)) == undone


def _render_change(change: MemoryChange) -> str:
    before, after = _entries(change.before), _entries(change.after)
    removed = [f"- {code(each, ENTRY_CHARS)}" for each in before if each not in after]
    added = [f"+ {code(each, ENTRY_CHARS)}" for each in after if each not in before]
    text = ", ".join([*removed, *added])
    return f"{_TITLES[change.target]}: {text or 'in another order'}"


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split("\n§\n") if entry.strip()]


COMMANDS: tuple[Command, ...] = (
    Command(
        "memory",
        Group.KNOWLEDGE,
        "show what Hermes remembers, and undo changes",
        (
            Verb("show", "show what Hermes remembers", _show),
            Verb("history", "list the latest changes", _history, who=Who.ADMINS),
            Verb("undo", "take back a change", _undo, "[ID]", Who.ADMINS, changes=True),
        ),
        "/memory undo",
        NOT_IN_GROUPS,
    ),
)
