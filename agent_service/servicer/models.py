"""ModelCatalogService."""

from typing import Any

import grpc.aio

from agent_service.convert import models as convert
from agent_service.models.catalog import Catalog
from agent_service.models.configured import ConfiguredModel
from hermes.agent.v1 import model_catalog_pb2, model_catalog_pb2_grpc
from services.errors import InvalidArgument

Context = grpc.aio.ServicerContext[Any, Any]

MAX_QUERY_CHARS = 200


class ModelCatalogServicer(model_catalog_pb2_grpc.ModelCatalogServiceServicer):
    """Serves the catalogue of models."""

    def __init__(self, catalog: Catalog, model: ConfiguredModel) -> None:
        self._catalog = catalog
        self._model = model

    async def ListModels(
        self, request: model_catalog_pb2.ListModelsRequest, context: Context
    ) -> model_catalog_pb2.ListModelsResponse:
        """Lists the known models."""
        if len(request.query) > MAX_QUERY_CHARS:
            limit = f"at most {MAX_QUERY_CHARS} characters"
            raise InvalidArgument("the query is too long", fields={"query": limit})
        return model_catalog_pb2.ListModelsResponse(
            models=[convert.model(info) for info in self._catalog.search(request.query)],
            default_model=self._model.configured_name,
        )

    async def RefreshModels(
        self, request: model_catalog_pb2.RefreshModelsRequest, context: Context
    ) -> model_catalog_pb2.RefreshModelsResponse:
        """Fetches the catalogue anew."""
        found = await self._catalog.refresh()
        return model_catalog_pb2.RefreshModelsResponse(model_count=found)
