"""The catalogue of models on the wire."""

from agent_service.models.catalog import ModelInfo
from agent_service.models.pricing import Price
from hermes.agent.v1 import model_catalog_pb2 as pb


def model(info: ModelInfo) -> pb.ModelInfo:
    """A model on the wire."""
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
