"""ModelCatalogService."""

from agent_service.models.catalog import Catalog, ModelInfo
from agent_service.models.configured import ConfiguredModel
from agent_service.models.pricing import Price
from agent_service.servicer.fields import Context
from hermes.agent.v1 import model_catalog_pb2 as pb
from hermes.agent.v1.model_catalog_pb2_grpc import ModelCatalogServiceServicer
from services.errors import InvalidArgument

MAX_QUERY_CHARS = 200


class ModelCatalogServicer(ModelCatalogServiceServicer):
    """Serves the catalogue of models."""

    def __init__(self, catalog: Catalog, model: ConfiguredModel) -> None:
        self._catalog = catalog
        self._model = model

    async def ListModels(
        self, request: pb.ListModelsRequest, context: Context
    ) -> pb.ListModelsResponse:
        """Lists the known models."""
        if len(request.query) > MAX_QUERY_CHARS:
            limit = f"at most {MAX_QUERY_CHARS} characters"
            raise InvalidArgument("the query is too long", fields={"query": limit})
        return pb.ListModelsResponse(
            models=map(_model, self._catalog.search(request.query)),
            default_model=self._model.configured_name,
        )

    async def RefreshModels(
        self, request: pb.RefreshModelsRequest, context: Context
    ) -> pb.RefreshModelsResponse:
        """Fetches the catalogue anew."""
        return pb.RefreshModelsResponse(model_count=await self._catalog.refresh())


def _model(info: ModelInfo) -> pb.ModelInfo:
    return pb.ModelInfo(
        model_id=info.id,
        window_tokens=info.window,
        max_output_tokens=info.max_output,
        price=None if info.price is None else _price(info.price),
        source=info.source,
    )


def _price(price: Price) -> pb.ModelPrice:
    return pb.ModelPrice(
        input_micro_usd=price.input,
        output_micro_usd=price.output,
        cache_read_micro_usd=price.cache_read,
        cache_write_micro_usd=price.cache_write,
    )
