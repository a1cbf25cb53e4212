"""CatalogService."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from agent_service.prompt.overlays import Personalities
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import SENDS, Verdict
from agent_service.security.threats import Threat, ThreatScanner
from agent_service.servicer.fields import Context, profile_of
from agent_service.storage.session_settings import personality_of
from hermes.agent.v1 import catalog_pb2 as pb
from hermes.agent.v1 import catalog_pb2_grpc
from services.database import Database
from services.errors import InvalidArgument
from services.messages import message_of

T = TypeVar("T")

MAX_ITEMS = 1000


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Serves how commands and texts are judged, and which personalities there are."""

    def __init__(self, personalities: Personalities, database: Database) -> None:
        self._personalities = personalities
        self._database = database
        self._classifier = CommandClassifier()
        self._scanner = ThreatScanner()
        self._judging = asyncio.Lock()

    async def ClassifyCommands(
        self, request: pb.ClassifyCommandsRequest, context: Context
    ) -> pb.ClassifyCommandsResponse:
        """Judges commands."""
        verdicts = await self._each(request.commands, self._classifier.classify)
        return pb.ClassifyCommandsResponse(verdicts=map(_verdict, verdicts))

    async def ScanTexts(
        self, request: pb.ScanTextsRequest, context: Context
    ) -> pb.ScanTextsResponse:
        """Scans texts."""
        strict = request.strict
        found = await self._each(
            request.texts, lambda text: self._scanner.scan(text, strict=strict)
        )
        return pb.ScanTextsResponse(findings=map(_findings, found))

    async def ListPersonalities(
        self, request: pb.ListPersonalitiesRequest, context: Context
    ) -> pb.ListPersonalitiesResponse:
        """Lists personalities."""
        current = ""
        if request.session_id:
            current = await self._database.read(
                lambda conn: personality_of(conn, request.session_id, profile_of(request.profile))
            )
        return pb.ListPersonalitiesResponse(
            personalities=[
                pb.Personality(name=one.name, prompt=one.prompt, built_in=one.is_built_in)
                for one in self._personalities.all()
            ],
            current_name=current,
        )

    async def _each(self, items: Sequence[str], judge: Callable[[str], T]) -> list[T]:
        if len(items) > MAX_ITEMS:
            raise InvalidArgument("too many items", fields={"items": f"at most {MAX_ITEMS}"})
        # A batch takes a moment, and the parser is not made for two threads at once.
        async with self._judging:
            return await asyncio.to_thread(lambda: [judge(item) for item in items])


def _verdict(verdict: Verdict) -> pb.CommandVerdict:
    return pb.CommandVerdict(
        command_class=pb.CommandClass.Value(f"COMMAND_CLASS_{verdict.kind.name}"),
        families=(*verdict.families, *((SENDS,) if verdict.sends else ())),
        leaves_sandbox=verdict.leaves_sandbox,
    )


def _findings(threats: Sequence[Threat]) -> pb.TextFindings:
    return pb.TextFindings(threats=[message_of(threat, pb.Threat) for threat in threats])
