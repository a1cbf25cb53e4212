"""`/memory`: what the agent keeps across sessions."""

from collections.abc import Sequence

from gateway_service.authorization import Who
from gateway_service.clients.memories import ChangeInfo
from gateway_service.commands.base import ALONE, Answer, Chat, Command, Group, Tools, Verb, wrong
from gateway_service.commands.texts import code, listed, moment

SHOWN = 10
LOOKED_AT = 100
"""Changes among which the latest one that stands is looked for."""
UNDO = "undo"
ENTRY_CHARS = 300


async def _show(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    parts: list[str] = []
    for memory in await tools.clients.memories.both(chat.profile):
        used = f"{memory.char_count:,} of {memory.char_limit:,} characters"
        lines = [" ".join(entry.split()) for entry in memory.entries]
        body = listed(lines, "`hermes memory show` has them all") if lines else "Nothing yet."
        parts.append(f"**{memory.title}** ({used})\n{body}")
    return Answer("\n\n".join([*parts, "A session has them as they were when it began."]))


async def _history(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    changes = await tools.clients.memories.changes(chat.profile, SHOWN + 1)
    if not changes:
        return Answer("Nothing was ever remembered or forgotten.")
    lines = [f"`{each.change_id}` {moment(each.made_at)}: {_told(each)}" for each in changes]
    shown = listed(lines, "`hermes memory history` has them all", SHOWN)
    return Answer(f"{shown}\n\n/memory undo takes the latest back, /memory undo ID another.")


async def _undo(tools: Tools, chat: Chat, arguments: str) -> Answer:
    request_id, named = chat.effect_id(UNDO), arguments.strip("` ")
    changes = await tools.clients.memories.changes(chat.profile, LOOKED_AT)
    done = next((each for each in changes if each.change_id == request_id), None)
    if done is not None:
        return Answer(f"Taken back: {_told(done)}")
    found = next((each for each in changes if each.change_id == named), None)
    if named and found is None:
        return wrong(f"There is no change {code(named)}; /memory history lists them.")
    found = found or standing(changes)
    if found is None:
        return wrong("There is nothing to take back.")
    await tools.clients.memories.undo(chat.profile, found.change_id, request_id)
    return Answer(
        f"Taken back: {_told(found)}\n\nThe sessions that there are go on with what they know."
    )


def standing(changes: Sequence[ChangeInfo]) -> ChangeInfo | None:
    """The latest change, newest first, that no later /memory undo has taken back.

    Said twice, it goes back twice.
    """
    undoing: list[ChangeInfo] = []
    for change in changes:
        if change.change_id.startswith(f"{UNDO}_"):
            undoing.append(change)
        elif undoing and undoing[-1].reverses(change):
            undoing.pop()
        else:
            return change
    return None


def _told(change: ChangeInfo) -> str:
    added = [f"+ {code(entry, ENTRY_CHARS)}" for entry in change.added]
    removed = [f"- {code(entry, ENTRY_CHARS)}" for entry in change.removed]
    told = ", ".join([*removed, *added])
    return f"{change.title}: {told or 'in another order'}"


COMMANDS: tuple[Command, ...] = (
    Command(
        "memory",
        Group.KNOWLEDGE,
        "what Hermes remembers",
        (
            Verb("show", "show both memories", _show),
            Verb("history", "the changes made last", _history, who=Who.ADMINS),
            Verb("undo", "take a change back", _undo, "[ID]", Who.ADMINS, changes=True),
        ),
        "/memory undo",
        ALONE,
    ),
)
"""Those of this module."""
