"""What the agent can be asked to work with: models and tools."""

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from gateway_service.clients.calls import ChannelOf, of_agent
from hermes.agent.v1 import (
    model_catalog_pb2,
    model_catalog_pb2_grpc,
    session_change_pb2,
    session_pb2_grpc,
    tool_catalog_pb2,
    tool_catalog_pb2_grpc,
)


class ModelFacts(Struct, frozen=True):
    """What is known of a model; 0 where nobody told."""

    model_id: str
    window_tokens: int = 0
    input_micro_usd: int = 0
    """Of a million tokens, as the next one."""
    output_micro_usd: int = 0


class ToolFacts(Struct, frozen=True):
    """A tool, and what keeps it from being offered."""

    name: str
    toolset: str
    is_on: bool
    missing: tuple[str, ...] = ()
    """Settings of which one has to be set."""
    reason: str = ""


class CatalogsClient:
    """Reads the catalogues, and gives sessions their models."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    @cached_property
    def _models(self) -> model_catalog_pb2_grpc.ModelCatalogServiceStub:
        return model_catalog_pb2_grpc.ModelCatalogServiceStub(self._channel_of("agent"))

    @cached_property
    def _tools(self) -> tool_catalog_pb2_grpc.ToolCatalogServiceStub:
        return tool_catalog_pb2_grpc.ToolCatalogServiceStub(self._channel_of("agent"))

    @cached_property
    def _sessions(self) -> session_pb2_grpc.SessionServiceStub:
        return session_pb2_grpc.SessionServiceStub(self._channel_of("agent"))

    async def models(self, query: str) -> tuple[Sequence[ModelFacts], str]:
        """The models whose ids have all words of a query, and the id of the configured one."""
        request = model_catalog_pb2.ListModelsRequest(query=query)
        found = await of_agent(self._models.ListModels(request))
        models = [
            ModelFacts(
                model.model_id,
                model.window_tokens,
                model.price.input_micro_usd,
                model.price.output_micro_usd,
            )
            for model in found.models
        ]
        return models, found.default_model

    async def tools(self, profile: str, platform: str) -> Sequence[ToolFacts]:
        """All tools as messages of a platform have them, in the order in which models see them."""
        request = tool_catalog_pb2.ListToolsRequest(profile=profile, platform=platform)
        found = await of_agent(self._tools.ListTools(request))
        return [
            ToolFacts(
                tool.name, tool.toolset, tool.enabled, tuple(tool.missing_settings), tool.reason
            )
            for tool in found.tools
        ]

    async def set_model(self, session_id: str, profile: str, model: str, platform: str) -> None:
        """Give a session a model; empty is the configured one."""
        request = session_change_pb2.SetSessionModelRequest(
            session_id=session_id, profile=profile, model=model, platform=platform
        )
        await of_agent(self._sessions.SetSessionModel(request))
