"""What `hermes health` says of a service that runs."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from services.cli.admin.health import ask
from services.config.settings import load_settings
from services.errors import ServiceUnavailable
from services.rpc.addresses import UnixAddress
from services.rpc.auth import new_tokens
from services.runtime.metrics_server import serve_metrics
from services.runtime.server import Listen, Server
from services.telemetry.metrics import Exposition
from tests.fakes.component import Sample

DEAF = "telegram has not answered for 61 s"


@pytest.mark.parametrize(("service", "told"), [("gateway", f"; {DEAF}"), ("agent", "")])
async def test_a_gateway_that_hears_nothing_serves_and_says_so(
    service: str, told: str, tmp_path: Path
) -> None:
    deaf, where = DEAF, UnixAddress(tmp_path / "hermes.sock")
    checks = {"serving": lambda: "it is starting or stopping", "platforms": lambda: deaf}
    exposition = Exposition(CollectorRegistry())
    async with serve_metrics(exposition, "127.0.0.1", 0, checks=checks) as metrics:
        environ = {
            "HERMES_HOME": str(tmp_path),
            "HERMES_METRICS_PORT": str(metrics.port),
            f"HERMES_{service.upper()}_ADDRESS": str(where),
        }
        # Elsewhere: a channel that has just failed is not tried again at once.
        nowhere = {**environ, f"HERMES_{service.upper()}_ADDRESS": f"unix:{tmp_path}/none.sock"}
        settings = await asyncio.to_thread(load_settings, {}, nowhere)
        with pytest.raises(ServiceUnavailable, match=f"the {service} at .* is not ready"):
            await ask(settings, service)
        settings = await asyncio.to_thread(load_settings, {}, environ)
        async with Server([Sample(service)], Listen((where,), tokens=new_tokens())) as server:
            await server.start()
            assert await ask(settings, service) == f"the {service} is ready{told}"
            deaf = ""
            assert await ask(settings, service) == f"the {service} is ready"
            environ["HERMES_METRICS_PORT"] = "1"  # where nobody answers
            settings = await asyncio.to_thread(load_settings, {}, environ)
            assert await ask(settings, service) == f"the {service} is ready"
