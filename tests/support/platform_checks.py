"""What `hermes doctor` says of one account."""

from pathlib import Path

from gateway_service.accounts.checks import check_platform
from gateway_service.config import GatewayConfig
from gateway_service.platforms.config import PlatformConfig
from services.home.paths import HomePaths
from services.runtime.checks import Check
from tests.integration.gateway_replicas import CONFIG


async def checked(config: PlatformConfig, gateway: GatewayConfig | None = None) -> Check:
    """Check an account that keeps nothing in its home."""
    nowhere = Path("/nowhere")
    return await check_platform(config, HomePaths(nowhere, nowhere), gateway or CONFIG)
