"""What is said when the services have started: the model, the sandbox and why it is this one."""

from collections.abc import Callable

from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.channels import Channels
from services.cli.console import complain, say
from services.cli.first_run import model_of
from services.config import Settings


async def introduce(
    settings: Settings, channels: Channels, tell: Callable[[str], None] = say
) -> None:
    """Say what runs."""
    model, *more = (await model_of(settings)).splitlines()
    tell(f"model    {model}")
    for line in more:
        tell(f"         {line}")
    chosen = await _chosen(channels)
    tell(f"sandbox  {chosen.name}: {chosen.choice_reason}")
    if message := _remark(settings, chosen):
        tell(f"         {message}")


async def warn_of_host(settings: Settings, channels: Channels) -> None:
    """Say whether commands run on a machine itself, and that they do not where that was meant."""
    if message := _remark(settings, await _chosen(channels)):
        complain(message)


async def _chosen(channels: Channels) -> sandbox_pb2.BackendCapabilities:
    stub = SandboxServiceStub(channels.to("executor"))
    answer = await stub.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
    return answer.backends[0]


def _remark(settings: Settings, chosen: sandbox_pb2.BackendCapabilities) -> str:
    """What a person should hear of the sandbox that is used; empty if nothing."""
    if chosen.isolation == sandbox_pb2.ISOLATION_LEVEL_NONE:
        return f"no sandbox is used: {chosen.detail}"
    notices = (notice for notice in settings.notices if notice.kind == "local_backend")
    return next((notice.used_instead(chosen.name).message for notice in notices), "")
