"""`/busy` and `/queue`: what messages do to the work in progress."""

from functools import partial

from gateway_service.commands.base import (
    Answer,
    Chat,
    Command,
    Group,
    Tools,
    Verb,
    plain,
    wrong,
)
from gateway_service.messages import QUEUE, BusyMode
from gateway_service.storage import busy

_SAID = {
    BusyMode.INTERRUPT: "stops what I am doing, and is taken next",
    BusyMode.QUEUE: "waits until what I am doing has come to its end",
    BusyMode.STEER: "joins what I am doing, with its next results",
}


async def _show(tools: Tools, chat: Chat, _arguments: str) -> Answer:
    chosen = await tools.database.read(lambda conn: busy.chosen(conn, chat.profile, chat.key))
    mode = chosen or tools.busy.of(chat.source.platform)
    how = "this chat has chosen that" if chosen else "that is configured"
    others = ", ".join(f"/busy {each.value}" for each in BusyMode if each is not mode)
    back = "; /busy default goes back to what is configured" if chosen else ""
    return Answer(
        f"`{mode.value}`: a message that comes while I work {_SAID[mode]} ({how}). {others} "
        f"choose another way{back}."
    )


async def _choose(mode: BusyMode | None, tools: Tools, chat: Chat, arguments: str) -> Answer:
    if arguments:
        return wrong("Say /busy and one word: interrupt, queue, steer or default.")
    now = tools.clock.now()
    await tools.database.write(lambda conn: busy.choose(conn, chat.profile, chat.key, mode, now))
    held = mode or tools.busy.of(chat.source.platform)
    return Answer(f"From now on a message that comes while I work {_SAID[held]}.")


async def _queue(_tools: Tools, _chat: Chat, _arguments: str) -> Answer:
    return wrong("Say what: /queue then run the tests")


def _verb(name: str, help_: str, mode: BusyMode | None) -> Verb:
    return Verb(name, help_, partial(_choose, mode), changes=True)


COMMANDS: tuple[Command, ...] = (
    plain(
        QUEUE,
        Group.CHAT,
        Verb("", "say what is to be done once the work in progress has ended", _queue, "TEXT"),
        "/queue then run the tests",
    ),
    Command(
        "busy",
        Group.CHAT,
        "what a message does that comes while Hermes works",
        (
            Verb("show", "show what a message does that comes while Hermes works", _show),
            _verb("interrupt", "it stops the work, and is taken next", BusyMode.INTERRUPT),
            _verb("queue", "it waits for the end of the work", BusyMode.QUEUE),
            _verb("steer", "it joins the work, with its next results", BusyMode.STEER),
            _verb("default", "go back to what is configured", None),
        ),
        "/busy queue",
    ),
)
"""Those of this module."""
