"""Results that are too long for the conversation go to a file, and the model sees their ends."""

from msgspec import Struct

from agent_service.records.sandbox import Files, PathRefused, SandboxUnavailable

RESULT_CHARS = 100_000
"""A longer result goes to a file."""
TURN_CHARS = 200_000
"""So does a result that would make those of its turn longer than this."""
LATE_CHARS = 4_000
"""A result as short as this never does: what went to a file can be read in parts to the end."""
PREVIEW_CHARS = 1_500
FOLDER = "/workspace/.hermes/results"


class ResultRoom(Struct):
    """How much the results of a turn may still take."""

    used_chars: int = 0
    """What those take that are sent."""

    async def fitted(self, text: str, key: str, files: Files | None, beside: str = "") -> str:
        """A result as the model sees it, with what it is told beside it, which has half the room.

        `files` are where it can read the rest, None if it cannot. The file's name follows from the
        call's key: the call that is made again writes it again.
        """
        room = TURN_CHARS - self.used_chars
        most = min(RESULT_CHARS, room)
        if len(beside) > max(most // 2, LATE_CHARS):
            beside = await _shortened(beside, f"{key}-beside", files, most // 2)
        left = most - len(beside) - len("\n") if beside else most
        if len(text) > max(left, LATE_CHARS):
            text = await _shortened(text, key, files, left)
        text = "\n".join(filter(None, (text, beside)))
        self.used_chars += len(text)
        return text


async def _shortened(text: str, key: str, files: Files | None, room: int) -> str:
    if files is None:
        return _ends(text, room, "and nothing keeps the rest: ask for less at a time")
    path = f"{FOLDER}/{key.replace(':', '-')}.txt"
    try:
        await files.write(path, text.encode(errors="replace"))
    except (PathRefused, SandboxUnavailable) as error:
        return _ends(text, room, f"and the rest could not be kept: {error}")
    how = "search it, or read it in parts"
    if room <= LATE_CHARS:
        how = (
            f"search it, or read it in parts of at most {LATE_CHARS:,} characters, as the results "
            f"of this turn have used up their {TURN_CHARS:,}"
        )
    return _ends(text, PREVIEW_CHARS, f"all of it is in {path}: {how}")


def _ends(text: str, room: int, where: str) -> str:
    """Head and tail of a text, two fifths and three, with what became of the rest between them."""
    room = max(room, PREVIEW_CHARS)
    head, tail = room * 2 // 5, room * 3 // 5
    note = f"[… {len(text) - head - tail:,} of {len(text):,} characters left out; {where} …]"
    return f"{text[:head]}\n{note}\n{text[-tail:]}"
