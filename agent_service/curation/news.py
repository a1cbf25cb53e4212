"""Tells a person once what the curator has done: with the first answer of a session that begins."""

from collections.abc import Sequence

from agent_service.curation.shelf import Curations
from agent_service.storage import sessions
from services.database import Database


class CuratorNews:
    """What is to be told, until it is told."""

    def __init__(self, curations: Curations, database: Database) -> None:
        self._curations = curations
        self._database = database

    async def notices(self, profile: str, kind: str) -> Sequence[str]:
        """What a session would tell if a turn of this kind began it; mostly nothing."""
        summary = await self._curations.untold(profile) if kind == "user" else ""
        return [_shown(summary)] if summary else []

    async def told(self, profile: str, session_id: str) -> None:
        """Tell nobody else, where the session did begin and has it to tell."""
        summary = await self._curations.untold(profile)
        kept = await self._database.read(
            lambda conn: sessions.get_state(conn, session_id, sessions.NOTICES)
        )
        if summary and kept and _shown(summary) in kept["texts"]:
            await self._curations.told(profile, summary)


def _shown(summary: str) -> str:
    return (
        f"The curator has looked after the {summary}. What and why: hermes curator reports; "
        "to undo it: hermes curator rollback."
    )
