"""Files that tools make for the user: where they are, and that the answer takes them along.

A name holds a digest of the turn and one of the call: a call that is repeated after a crash finds
its file, and an answer finds those of its turn.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence

from agent_service.models.consult import NoAnswer
from agent_service.models.media.failures import MediaFailed
from agent_service.records.messages import NO_CHATS, Target
from agent_service.tools.base import ToolContext, ToolFailed, ToolResult

FOLDER = "media"
_NOTE = "[Attached to your answer: {path}]"
_DIGEST_CHARS = 8


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


async def make_file(
    context: ToolContext, kind: str, suffix: str, make: Callable[[], Awaitable[bytes]]
) -> ToolResult:
    """Make a file in the workspace, unless an earlier attempt of the call has; ToolFailed."""
    name = f"{kind}-{_digest(context.caller.turn_id)}-{_digest(context.key)}{suffix}"
    path = f"{FOLDER}/{name}"
    stat = await context.files.stat(path)
    if stat is None:
        try:
            data = await make()
        except (MediaFailed, NoAnswer) as error:
            raise ToolFailed(str(error)) from error
        if not data:
            raise ToolFailed("The provider answered with nothing.")
        await context.files.write(path, data)
    chat = Target.of_origin(context.caller.origin)
    if chat is None or chat.platform in NO_CHATS:
        return ToolResult(f"The file is {path}.")
    return ToolResult(_NOTE.format(path=path))


def attached_by(turn_id: str, messages: Sequence[bytes]) -> Sequence[str]:
    """The files that a turn's calls have made, as their results name them."""
    note = re.escape(_NOTE).replace(r"\{path\}", rf"({FOLDER}/\w+-{_digest(turn_id)}-\w+\.\w+)")
    found = re.compile(note.encode())
    results = (message for message in messages if message.startswith(b'{"role":"tool"'))
    paths = (path.decode() for message in results for path in found.findall(message))
    return tuple(dict.fromkeys(paths))
