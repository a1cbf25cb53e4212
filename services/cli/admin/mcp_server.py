"""The action by which `hermes mcp` serves Hermes to other agents and programs."""

from services.cli import process
from services.cli.command import Context, action, arg
from services.cli.startup import imported
from services.errors import FailedPrecondition

TIERS = ("read", "operate", "own")
MISSING = "hermes mcp serve needs a package: pip install 'hermes-services[mcp]'"


async def _serve(context: Context) -> None:
    """Serve Hermes to an MCP client, which starts this, on standard input and output."""
    try:
        serve = imported("gateway_service.servicer.mcp.server:serve_stdio")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise FailedPrecondition(MISSING) from None
    await serve(context.channels, context.profile, context.given.tier)


_TIER = arg("--tier", "rights of the client (read)", choices=TIERS, default="read")
SERVE = action(_serve, _TIER, services=process.ALL)
