"""Start all services in one process and open a chat.

Without a terminal, or with --no-chat, Hermes runs until you stop it."""

from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from services.cli import process
from services.cli.chat.screen import can_talk
from services.cli.command import CONTINUED, LOG_LEVEL, METRICS_PORT, Command, Context, arg, flag
from services.cli.connection import connected, is_running
from services.cli.console import complain
from services.cli.first_run import introduce, or_demo, with_model
from services.cli.startup import imported, run_in_home
from services.config.settings import Settings
from services.errors import FailedPrecondition
from services.rpc.addresses import Address

EXAMPLES = """\
examples:
  hermes up                 start Hermes and open a chat
  hermes up --continue      start Hermes and continue the last session
  hermes up --no-chat       start Hermes and run until Ctrl-C
  hermes up --model NAME --base-url http://127.0.0.1:8080/v1"""


def _run(context: Context) -> int:
    settings = context.settings
    given = context.given
    opening = ConverseRequest.Open(session_id=given.resume or "", latest=given.latest)
    talks = not given.no_chat and can_talk(settings.environ)

    def up() -> int:
        return run_in_home(settings, lambda: _up(settings, opening if talks else None))

    return or_demo(up) if talks else up()


async def _up(settings: Settings, opening: ConverseRequest.Open | None) -> int:
    if await is_running(settings):
        raise FailedPrecondition(
            "hermes is already running in this home; open a chat with: hermes chat"
        )
    if opening is not None:
        return await _talk(await with_model(settings), opening)
    return await _serve(settings)


async def _talk(settings: Settings, opening: ConverseRequest.Open) -> int:
    async with connected(settings, process.ALL) as channels:
        await introduce(settings, channels)
        talk = imported("services.cli.chat.talk:Talk")  # slow and large, and only needed here
        return await talk(channels, opening, settings).run()


async def _serve(settings: Settings) -> int:
    async def ready(address: Address) -> None:
        async with process.client_of(plan) as channels:
            await introduce(settings, channels, complain)
        complain(f"ready on {address}")

    plan = await process.one_process(settings, metrics=True)
    await process.run(settings, plan, ready=ready)
    return 0


COMMAND = Command(
    EXAMPLES,
    function=_run,
    arguments=(
        flag("--no-chat", "do not open a chat"),
        CONTINUED,
        arg("--model NAME", "model to use"),
        arg("--base-url URL", "OpenAI-compatible endpoint"),
        METRICS_PORT,
        LOG_LEVEL,
    ),
    defaults={"allow_workdir": True},
)
