"""Signal's settings."""

from typing import ClassVar

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import section


@section("platforms.signal.extra", variables="SIGNAL_")
class SignalConfig(PlatformConfig):
    """The Signal account of Hermes, which signal-cli runs, and who may talk to it."""

    name: ClassVar[str] = "signal"
    guide: ClassVar[str] = "phone.md#signal"
    steps: ClassVar[str] = (
        "Register a number with signal-cli, or link it to a phone, and run it as a daemon: "
        "signal-cli -a NUMBER daemon --http localhost:8080 --receive-mode on-connection"
    )
    users: ClassVar[str] = "numbers such as +15551234567"
    needs: ClassVar[str] = "SIGNAL_ACCOUNT and SIGNAL_HTTP_URL"
    credentials: ClassVar[tuple[str, ...]] = ("account", "http_url")

    account: str = ""
    """The number of Hermes, such as `+15551234567`."""
    http_url: str = ""
    """The URL of signal-cli's daemon, such as `http://localhost:8080`. It has no password: only
    the gateway may reach it."""
