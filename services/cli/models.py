"""List models with their context windows and prices."""

from collections.abc import Callable

from hermes.agent.v1 import model_catalog_pb2 as pb
from hermes.agent.v1.model_catalog_pb2_grpc import ModelCatalogServiceStub
from services.cli.command import JSON_LIST, Command, Context, arg, flag
from services.cli.console import complain, printable, say
from services.cli.output import Column

EXAMPLES = """\
examples:
  hermes models                  the endpoint's own, then all that are known
  hermes models claude sonnet    those whose ids have both words
  hermes models --refresh        fetch the newest list first
  hermes models gpt --json

Prices are US dollars for a million tokens. Other model ids work too. If Hermes does not
know a model's window or prices, set them in config.yaml under models."""

REFRESH_S = 60.0


def _dollars(micro_usd: int | None) -> str:
    return "" if micro_usd is None else f"{micro_usd / 1_000_000:.4f}".rstrip("0").rstrip(".")


def _tokens(count: int) -> str:
    return f"{count:,}" if count else ""


def _price(name: str) -> Callable[[pb.ModelInfo], int | None]:
    field = f"{name}_micro_usd"
    return lambda info: getattr(info.price, field) if info.HasField("price") else None


_COLUMNS = (
    Column("model", "model_id"),
    Column("window", "window_tokens", _tokens),
    Column("output", "max_output_tokens", _tokens),
    Column("$ in", _price("input"), _dollars),
    Column("$ out", _price("output"), _dollars),
    Column("$ cached", _price("cache_read"), _dollars),
    Column("from", "source"),
)


async def _list(context: Context) -> None:
    stub = context.stub(ModelCatalogServiceStub)
    given = context.given
    if given.refresh:
        await stub.RefreshModels(pb.RefreshModelsRequest(), timeout=REFRESH_S)
    # Accept `list`, as with other commands.
    words = given.query[1:] if given.query[:1] == ["list"] else given.query
    answer = await stub.ListModels(
        pb.ListModelsRequest(query=" ".join(words), include_endpoint=True)
    )
    if answer.endpoint_problem:
        complain(f"the endpoint's own models are missing: {answer.endpoint_problem}")
    nothing = "No known model matches. You can use a model that is not listed."
    context.print_list(answer.models, _COLUMNS, nothing)
    if answer.default_model and not given.json:
        say(f"\nIn use: {printable(answer.default_model)}")


COMMAND = Command(
    EXAMPLES,
    function=_list,
    arguments=(
        arg("QUERY*", "words in the model's id"),
        flag("--refresh", "fetch the latest list first"),
        JSON_LIST,
    ),
    services=("agent",),
)
