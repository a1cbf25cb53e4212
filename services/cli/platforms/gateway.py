"""Show the connections to platforms, and the chats to which you can send messages."""

from datetime import UTC, datetime

from hermes.gateway.v1 import directory_pb2, platform_pb2
from hermes.gateway.v1.directory_pb2_grpc import DirectoryServiceStub
from hermes.gateway.v1.platform_pb2_grpc import PlatformServiceStub
from services.cli.command import JSON_LIST, Command, Context, action, arg
from services.cli.connection import running
from services.cli.output import Column

EXAMPLES = """\
examples:
  hermes gateway status
  hermes gateway status --json
  hermes gateway directory
  hermes gateway directory telegram"""


def _rate_limit_end(account: platform_pb2.PlatformAccount) -> object:
    """Return until when nothing may be sent; None if that is over."""
    end = account.rate_limit_end_time
    is_over = not end.seconds or end.ToDatetime(UTC) <= datetime.now(UTC)
    return None if is_over else end


_ACCOUNT = (
    Column("platform"),
    Column("account", "account_id"),
    Column("state"),
    Column("since", "connect_time"),
    Column("last event", "last_event_time"),
    Column("in work", "waiting_inbox_count"),
    Column("to send", "waiting_outbox_count"),
    Column("limited until", _rate_limit_end),
    Column("held by", "holder"),
    Column("problem"),
)
_CHANNEL = (
    Column("target"),
    Column("name"),
    Column("type", "chat_type"),
    Column("last used", "last_use_time"),
    Column("home", "is_home"),
)


async def _status(context: Context) -> None:
    """Show the connection of each account, and what waits to be answered or sent."""
    request = platform_pb2.ListPlatformsRequest()
    # A gateway that is started to be asked would only tell about itself.
    async with running(context.settings, "gateway") as channels:
        stub = PlatformServiceStub(channels.to("gateway"))
        found = (await stub.ListPlatforms(request)).accounts
    context.print_list(found, _ACCOUNT, "No platform is set up. To set one up: hermes setup")


async def _directory(context: Context) -> None:
    """List the chats to which you can send messages, the last used first."""
    request = context.request(directory_pb2.ListChannelsRequest)
    found = (await context.stub(DirectoryServiceStub).ListChannels(request)).channels
    empty = "No chat is known yet. A chat is known once somebody with access writes in it."
    context.print_list(found, _CHANNEL, empty)


_ACTIONS = (
    action(_status, JSON_LIST, services=()),
    action(_directory, arg("PLATFORM?", "only chats of this platform"), JSON_LIST),
)
COMMAND = Command(EXAMPLES, _ACTIONS, services=("gateway",))
