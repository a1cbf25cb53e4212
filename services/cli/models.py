"""List models with their context windows and prices."""

import argparse
import asyncio
from typing import Any

from hermes.agent.v1 import model_catalog_pb2 as pb
from hermes.agent.v1.model_catalog_pb2_grpc import ModelCatalogServiceStub
from services.cli.arguments import add_home
from services.cli.connection import connected
from services.cli.console import print_json, printable, say
from services.cli.startup import load, logged
from services.cli.tables import print_table
from services.config import Settings

EXAMPLES = """\
examples:
  hermes models                  all that are known
  hermes models claude sonnet    those whose ids have both words
  hermes models --refresh        fetch the newest list first
  hermes models gpt --json

Prices are US dollars for a million tokens. Any other model id works as well; what is not known of
it can be said in config.yaml under models."""

REFRESH_S = 60.0
_MILLION = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes models`."""
    add_home(parser)
    parser.add_argument("query", nargs="*", metavar="QUERY", help="words that an id must have")
    parser.add_argument("--refresh", action="store_true", help="fetch the newest list first")
    parser.add_argument("--json", action="store_true", help="one JSON list")


def run(arguments: argparse.Namespace) -> int:
    """Refreshes if asked, and lists."""
    settings = load(arguments)
    settings.home.create()
    with logged(settings, "hermes", settings.home.logs / "hermes.log"):
        asyncio.run(_list(settings, arguments))
    return 0


async def _list(settings: Settings, arguments: argparse.Namespace) -> None:
    async with connected(settings, ("agent",)) as channels:
        stub = ModelCatalogServiceStub(channels.to("agent"))
        if arguments.refresh:
            await stub.RefreshModels(pb.RefreshModelsRequest(), timeout=REFRESH_S)
        # As with other things, `list` is a word for what is done anyway.
        words = arguments.query[1:] if arguments.query[:1] == ["list"] else arguments.query
        answer = await stub.ListModels(pb.ListModelsRequest(query=" ".join(words)))
    if arguments.json:
        print_json([_described(info) for info in answer.models])
    elif answer.models:
        print_table(
            ("model", "window", "output", "$ in", "$ out", "$ cached", "from"),
            [_row(info) for info in answer.models],
        )
    else:
        say("No known model has these words in its id; a model can be used all the same.")
    if answer.default_model and not arguments.json:
        say(f"\nIn use: {printable(answer.default_model)}")


def _row(info: pb.ModelInfo) -> tuple[str, ...]:
    price, known = info.price, info.HasField("price")
    amounts = (price.input_micro_usd, price.output_micro_usd, price.cache_read_micro_usd)
    return (
        printable(info.model_id),
        f"{info.window_tokens:,}" if info.window_tokens else "",
        f"{info.max_output_tokens:,}" if info.max_output_tokens else "",
        *(_dollars(amount) if known else "" for amount in amounts),
        info.source,
    )


def _dollars(micro_usd: int) -> str:
    return f"{micro_usd / _MILLION:.4f}".rstrip("0").rstrip(".")


def _described(info: pb.ModelInfo) -> dict[str, Any]:
    described: dict[str, Any] = {
        "model_id": info.model_id,
        "window_tokens": info.window_tokens or None,
        "max_output_tokens": info.max_output_tokens or None,
        "price": None,
        "source": info.source,
    }
    if info.HasField("price"):
        described["price"] = {
            "input_micro_usd": info.price.input_micro_usd,
            "output_micro_usd": info.price.output_micro_usd,
            "cache_read_micro_usd": info.price.cache_read_micro_usd,
            "cache_write_micro_usd": info.price.cache_write_micro_usd,
        }
    return described
