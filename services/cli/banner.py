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
    if message := _instead_of_local(settings, chosen):
        tell(f"         {message}")


async def warn_of_local(settings: Settings, channels: Channels) -> None:
    """Say which sandbox is used where the configuration asks for this machine itself."""
    if _instead_of_local(settings, sandbox_pb2.BackendCapabilities()):
        complain(_instead_of_local(settings, await _chosen(channels)))


async def _chosen(channels: Channels) -> sandbox_pb2.BackendCapabilities:
    stub = SandboxServiceStub(channels.to("executor"))
    answer = await stub.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
    return answer.backends[0]


def _instead_of_local(settings: Settings, chosen: sandbox_pb2.BackendCapabilities) -> str:
    notices = (notice for notice in settings.notices if notice.kind == "local_backend")
    return next((notice.used_instead(chosen.name).message for notice in notices), "")
