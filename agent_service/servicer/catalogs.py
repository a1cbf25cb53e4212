"""Catalogs of models, tools and personalities, and checks of commands and texts."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import asdict

from agent_service.config.tools import ToolsConfig
from agent_service.config.toolsets import TOOLSETS
from agent_service.models.catalog import Catalog, ModelInfo
from agent_service.models.configured_model import ConfiguredModel
from agent_service.records.errors import ModelNotConfigured
from agent_service.records.model_errors import ModelError
from agent_service.records.overlays import Personalities
from agent_service.security.commands.classifier import CommandClassifier
from agent_service.security.commands.families import SENDS, Verdict
from agent_service.security.threats import Threat, ThreatScanner
from agent_service.servicer.fields import Context, profile_of
from agent_service.storage.session_changes import personality_of
from agent_service.tools.mcp.servers import Servers
from agent_service.tools.mcp.tools import listed_servers
from agent_service.tools.schema import Listed
from hermes.agent.v1 import catalog_pb2 as pb
from hermes.agent.v1 import catalog_pb2_grpc, tool_catalog_pb2_grpc
from hermes.agent.v1 import model_catalog_pb2 as model_pb
from hermes.agent.v1 import tool_catalog_pb2 as tool_pb
from hermes.agent.v1.model_catalog_pb2_grpc import ModelCatalogServiceServicer
from services.database import Database
from services.errors import InvalidArgument
from services.rpc.messages import message_of

T = TypeVar("T")

MAX_ITEMS = 1000


class CatalogServicer(catalog_pb2_grpc.CatalogServiceServicer):
    """Serves checks of commands and texts, and the list of personalities."""

    def __init__(self, personalities: Personalities, database: Database) -> None:
        self._personalities = personalities
        self._database = database
        self._classifier = CommandClassifier()
        self._scanner = ThreatScanner()
        self._judging = asyncio.Lock()

    async def ClassifyCommands(
        self, request: pb.ClassifyCommandsRequest, context: Context
    ) -> pb.ClassifyCommandsResponse:
        verdicts = await self._each(request.commands, self._classifier.classify)
        return pb.ClassifyCommandsResponse(verdicts=map(_verdict, verdicts))

    async def ScanTexts(
        self, request: pb.ScanTextsRequest, context: Context
    ) -> pb.ScanTextsResponse:
        strict = request.strict
        found = await self._each(
            request.texts, lambda text: self._scanner.scan(text, strict=strict)
        )
        return pb.ScanTextsResponse(findings=map(_findings, found))

    async def ListPersonalities(
        self, request: pb.ListPersonalitiesRequest, context: Context
    ) -> pb.ListPersonalitiesResponse:
        current = ""
        if request.session_id:
            current = await self._database.read(
                lambda conn: personality_of(conn, request.session_id, profile_of(request.profile))
            )
        return pb.ListPersonalitiesResponse(
            personalities=[
                message_of(one, pb.Personality, built_in=one.is_built_in)
                for one in self._personalities.all()
            ],
            current_name=current,
        )

    async def _each(self, items: Sequence[str], judge: Callable[[str], T]) -> list[T]:
        if len(items) > MAX_ITEMS:
            raise InvalidArgument("too many items", fields={"items": f"at most {MAX_ITEMS}"})
        # A batch takes a moment, and the parser is not thread-safe.
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


MAX_QUERY_CHARS = 200


class ModelCatalogServicer(ModelCatalogServiceServicer):
    """Serves the model catalogue."""

    def __init__(self, catalog: Catalog, model: ConfiguredModel) -> None:
        self._catalog = catalog
        self._model = model

    async def ListModels(
        self, request: model_pb.ListModelsRequest, context: Context
    ) -> model_pb.ListModelsResponse:
        if len(request.query) > MAX_QUERY_CHARS:
            limit = f"at most {MAX_QUERY_CHARS} characters"
            raise InvalidArgument("the query is too long", fields={"query": limit})
        own, problem = (), ""
        if request.include_endpoint:
            try:
                own = await self._model.list_models()
            except (ModelNotConfigured, ModelError) as error:
                problem = str(error)
        return model_pb.ListModelsResponse(
            models=map(_model, self._catalog.search(request.query, own)),
            default_model=self._model.configured_name,
            endpoint_problem=problem,
        )

    async def RefreshModels(
        self, request: model_pb.RefreshModelsRequest, context: Context
    ) -> model_pb.RefreshModelsResponse:
        return model_pb.RefreshModelsResponse(model_count=await self._catalog.refresh())


def _model(info: ModelInfo) -> model_pb.ModelInfo:
    prices = None if info.price is None else asdict(info.price)
    return message_of(
        info,
        model_pb.ModelInfo,
        model_id=info.id,
        window_tokens=info.window,
        max_output_tokens=info.max_output,
        price=prices and {f"{name}_micro_usd": amount for name, amount in prices.items()},
    )


MAX_PLATFORM_CHARS = 64


class ToolCatalogServicer(tool_catalog_pb2_grpc.ToolCatalogServiceServicer):
    """Serves the list of tools."""

    def __init__(self, tools: Sequence[Listed], toolsets: ToolsConfig, servers: Servers) -> None:
        self._tools = tools
        self._toolsets = toolsets
        self._servers = servers

    async def ListTools(
        self, request: tool_pb.ListToolsRequest, context: Context
    ) -> tool_pb.ListToolsResponse:
        """List every tool as turns of a platform, or of none, have it."""
        profile, platform = profile_of(request.profile), request.platform
        if len(platform) > MAX_PLATFORM_CHARS:
            fields = {"platform": f"at most {MAX_PLATFORM_CHARS} characters"}
            raise InvalidArgument("the platform's name is too long", fields=fields)
        listed = [*self._tools, *await listed_servers(self._servers, profile)]
        tools = [self._described(each, profile, platform) for each in listed]
        return tool_pb.ListToolsResponse(tools=tools, toolsets=TOOLSETS)

    def _described(self, listed: Listed, profile: str, platform: str) -> tool_pb.ToolInfo:
        toolset = listed.tool.toolset
        turned_off = self._toolsets.why_off(toolset, profile, platform)
        is_on = listed.is_on and not turned_off
        elsewhere = self._toolsets.named_platforms() if is_on and not platform else ()
        off = {name: self._toolsets.why_off(toolset, profile, name) for name in elsewhere}
        return tool_pb.ToolInfo(
            name=listed.tool.name,
            toolset=toolset,
            summary=listed.summary,
            enabled=is_on,
            missing_settings=listed.missing,
            reason=turned_off or listed.reason,
            off_on_platforms={name: why for name, why in off.items() if why},
        )
