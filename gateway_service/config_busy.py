"""Settings of what messages do to the work in progress."""

from typing import Annotated, Literal

from pydantic import Field

from gateway_service.busy import BusyModes
from gateway_service.messages import BusyMode
from services.config import ConfigModel, Env, Yaml

ModeName = Literal["interrupt", "queue", "steer"]


class BusyConfig(ConfigModel):
    """What a message does that comes while Hermes is busy with the same session."""

    mode: Annotated[
        ModeName,
        Yaml("gateway.busy_mode", "display.busy_input_mode"),
        Env("HERMES_BUSY_MODE"),
    ] = "interrupt"
    """`interrupt` stops what runs, and the message is taken next; `queue` has it wait for the end;
    `steer` has it join the work with its next results. `/busy` chooses for one chat."""
    platforms: Annotated[dict[str, ModeName], Yaml("gateway.busy_modes")] = Field(
        default_factory=dict[str, ModeName]
    )
    """By platform, such as `telegram` or `cli`, what it is instead there."""

    @property
    def modes(self) -> BusyModes:
        """The same as chats are held to."""
        own = {platform: BusyMode(mode) for platform, mode in self.platforms.items()}
        return BusyModes(BusyMode(self.mode), own)
