"""Has a skill looked through apart from everything else."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_service.scripts import ScriptFailed, answer_of
from agent_service.skills.hub import scan_worker
from agent_service.skills.hub.errors import HubRefused
from agent_service.skills.hub.verdicts import Review

LIMIT_S = 120.0
_WORKER = Path(scan_worker.__file__)


async def looked_through(name: str, files: Mapping[str, bytes]) -> Review:
    """What is in a skill's files; HubRefused where nobody could say."""
    try:
        answer = await answer_of(_WORKER, msgspec.json.encode(dict(files)), LIMIT_S)
        return msgspec.json.decode(answer, type=Review)
    except (ScriptFailed, msgspec.MsgspecError):
        raise HubRefused(
            f"{name} cannot be looked through within {LIMIT_S:g} s and 2 GB, so that nobody can "
            "say what it does"
        ) from None
