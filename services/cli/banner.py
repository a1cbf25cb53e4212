"""What `hermes up` says when it has started: the model, the sandbox and why it is this one."""

from hermes.executor.v1 import sandbox_pb2
from hermes.executor.v1.sandbox_pb2_grpc import SandboxServiceStub
from services.channels import Channels
from services.cli.console import say
from services.cli.first_run import model_of
from services.config import Settings


async def introduce(settings: Settings, channels: Channels) -> None:
    """Say what runs."""
    stub = SandboxServiceStub(channels.to("executor"))
    answer = await stub.GetCapabilities(sandbox_pb2.GetCapabilitiesRequest())
    chosen = answer.backends[0]
    say(f"model    {await model_of(settings)}")
    say(f"sandbox  {chosen.name}: {chosen.choice_reason}")
    for notice in settings.notices:
        if notice.kind == "local_backend":
            say(f"         {notice.used_instead(chosen.name).message}")
