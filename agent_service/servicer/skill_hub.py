"""SkillHubService."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from agent_service.assembly.hubs import Hubs, HubSkill, audited, exported
from agent_service.profiles.skills.hub.hub import HubOptions, Outcome, Step
from agent_service.profiles.skills.hub.verdicts import Review
from agent_service.profiles.skills.shelf import SkillShelves
from agent_service.servicer.fields import Context, profile_of
from agent_service.servicer.skills import telling
from hermes.agent.v1 import skill_hub_pb2 as pb
from hermes.agent.v1.skill_hub_pb2_grpc import SkillHubServiceServicer
from services.errors import InvalidArgument
from services.rpc.messages import message_of

MAX_FOUND, MAX_NAMES = 1_000, 200
PIECE_BYTES = 1024 * 1024


class SkillHubServicer(SkillHubServiceServicer):
    """Serves skill hubs."""

    def __init__(self, hubs: Hubs, shelves: SkillShelves) -> None:
        self._hubs = hubs
        self._shelves = shelves

    async def SearchHub(
        self, request: pb.SearchHubRequest, context: Context
    ) -> pb.SearchHubResponse:
        with telling():
            there = await self._shelves.for_profile(profile_of(request.profile)).catalogue()
            installed = frozenset(skill.name for skill in there.skills)
            found, silent = await self._hubs.search(request.words, request.source, installed)
        return pb.SearchHubResponse(
            skills=map(_skill, found[:MAX_FOUND]),
            silent=[
                message_of({"name": hub, "reason": why}, pb.SilentHub)
                for hub, why in silent.items()
            ],
        )

    async def InstallSkills(
        self, request: pb.InstallSkillsRequest, context: Context
    ) -> AsyncGenerator[pb.InstallSkillsResponse]:
        _check_names(request.names)
        hub = self._hubs.for_profile(profile_of(request.profile))
        terms = HubOptions(frozenset(request.consents), request.dry_run)
        with telling():
            async with aclosing(hub.install(request.source, request.names, terms)) as told:
                async for one in told:
                    yield pb.InstallSkillsResponse(**_step_fields(one))

    async def UpdateSkills(
        self, request: pb.UpdateSkillsRequest, context: Context
    ) -> AsyncGenerator[pb.UpdateSkillsResponse]:
        _check_names(request.names)
        hub = self._hubs.for_profile(profile_of(request.profile))
        terms = HubOptions(frozenset(request.consents), request.dry_run)
        with telling():
            async with aclosing(hub.update(request.names, terms)) as told:
                async for one in told:
                    yield pb.UpdateSkillsResponse(**_step_fields(one))

    async def RemoveSkill(
        self, request: pb.RemoveSkillRequest, context: Context
    ) -> pb.RemoveSkillResponse:
        with telling():
            made = await self._hubs.for_profile(profile_of(request.profile)).remove(request.name)
        return pb.RemoveSkillResponse(message=made.message)

    async def AuditSkills(
        self, request: pb.AuditSkillsRequest, context: Context
    ) -> AsyncGenerator[pb.AuditSkillsResponse]:
        _check_names(request.names)
        with telling():
            files = self._hubs.files(profile_of(request.profile))
            audit = audited(files, request.names)
            async with aclosing(audit) as outcomes:
                async for outcome in outcomes:
                    yield pb.AuditSkillsResponse(outcome=_outcome(outcome))

    async def ExportSkills(
        self, request: pb.ExportSkillsRequest, context: Context
    ) -> AsyncGenerator[pb.ExportSkillsResponse]:
        _check_names(request.names)
        if not request.names:
            raise InvalidArgument("names is missing", fields={"names": "the skills"})
        profile = profile_of(request.profile)
        with telling():
            library = self._hubs.files(profile)
            files = await exported(library, request.names, as_index=request.as_index)
        for path, data in files.items():
            for begin in range(0, len(data) or 1, PIECE_BYTES):
                piece = data[begin : begin + PIECE_BYTES]
                yield pb.ExportSkillsResponse(path=path, data=piece)


def _step_fields(one: Step | Outcome) -> dict[str, Any]:
    return {"step": one.text} if isinstance(one, Step) else {"outcome": _outcome(one)}


def _check_names(names: Any) -> None:
    if len(names) > MAX_NAMES:
        wanted = f"at most {MAX_NAMES} skills"
        raise InvalidArgument(f"names has more than {MAX_NAMES}", fields={"names": wanted})


def _outcome(made: Outcome) -> pb.SkillOutcome:
    review = made.review or Review()
    verdict = None if made.review is None else review.verdict
    return message_of(made, pb.SkillOutcome, verdict=verdict, findings=review.findings)


def _skill(found: HubSkill) -> pb.HubSkill:
    fields = {"hub": found.hub, "trust": found.trust, "is_installed": found.is_installed}
    return message_of(found.offer, pb.HubSkill, **fields)
