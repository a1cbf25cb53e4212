"""The gateway's settings."""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct
from pydantic import AfterValidator, BeforeValidator, Field

from gateway_service.messages import API, BusyMode, FileKind
from gateway_service.platforms.api_config import ApiConfig
from gateway_service.platforms.config import PlatformConfig, StrangerMode
from gateway_service.platforms.discord.config import DiscordConfig
from gateway_service.platforms.email.config import EmailConfig
from gateway_service.platforms.homeassistant.config import HomeAssistantConfig
from gateway_service.platforms.matrix.config import MatrixConfig
from gateway_service.platforms.mattermost.config import MattermostConfig
from gateway_service.platforms.signal.config import SignalConfig
from gateway_service.platforms.slack.config import SlackConfig
from gateway_service.platforms.sms.config import SmsConfig
from gateway_service.platforms.telegram.config import TelegramConfig
from gateway_service.platforms.webhook.config import WebhookConfig
from gateway_service.platforms.whatsapp.config import WhatsAppConfig
from services.config.settings import ConfigModel, Env, Yaml, section
from services.runtime.platforms import PlatformName

_TICK = timedelta(microseconds=1)


BusyName = Literal["interrupt", "queue", "steer"]


class Mode(StrEnum):
    """What ends a session."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"


class ResetPolicy(Struct, frozen=True):
    """What ends the sessions of a platform's chats."""

    mode: Mode = Mode.NONE
    at_hour: int = 4
    idle: timedelta = timedelta(days=1)
    zone: tzinfo | None = None
    """None means the machine's."""

    def cutoff(self, now: datetime) -> datetime | None:
        """Return the time from which on sessions must have been used to stay; None for never."""
        cutoffs: list[datetime] = []
        if self.mode in (Mode.IDLE, Mode.BOTH):
            cutoffs.append(now - self.idle + _TICK)
        if self.mode in (Mode.DAILY, Mode.BOTH):
            cutoffs.append(self._last_hour(now))
        return max(cutoffs, default=None)

    def why(self, last_used: datetime, now: datetime) -> Mode:
        """Return why a session ends now; the daily end takes precedence."""
        is_of_before = self.mode is not Mode.IDLE and last_used < self._last_hour(now)
        return Mode.DAILY if is_of_before else Mode.IDLE

    def _last_hour(self, now: datetime) -> datetime:
        """Return the last time that it was that hour; if clocks skip it, the moment of the skip."""
        today = now.astimezone(self.zone).date()
        instants = (self._instant(today - timedelta(days=days)) for days in range(3))
        return next(instant for instant in instants if instant <= now)

    def _instant(self, day: date) -> datetime:
        # Without a fold, an hour that occurs twice means its first occurrence.
        local = datetime.combine(day, time(self.at_hour))
        local = local.astimezone() if self.zone is None else local.replace(tzinfo=self.zone)
        return datetime.fromtimestamp(local.timestamp(), tz=local.tzinfo)


class BusyConfig(ConfigModel):
    """What a message does that arrives while Hermes is busy with the same session."""

    mode: Annotated[
        BusyName, Yaml("gateway.busy_mode", "display.busy_input_mode"), Env("HERMES_BUSY_MODE")
    ] = "interrupt"
    """`interrupt` stops the running turn and takes the message next; `queue` lets the turn finish
    first; `steer` adds the message to the turn with its next results. `/busy` overrides it for a
    chat."""
    platforms: Annotated[dict[PlatformName, BusyName], Yaml("gateway.busy_modes")] = Field(
        default_factory=dict[PlatformName, BusyName]
    )
    """Other modes by platform, such as `telegram` or `cli`. Requests to the HTTP API queue unless
    `api_server` is set here."""

    def mode_for(self, platform: str) -> BusyMode:
        """Return the mode for a platform's chats that have not chosen one."""
        default = "queue" if platform == API else self.mode
        return BusyMode(self.platforms.get(platform, default))


ResetMode = Annotated[
    Literal["none", "idle", "daily", "both"],
    BeforeValidator(lambda given: "none" if given in (None, False, "off") else given),
]
Hour = Annotated[int, Field(ge=0, le=23)]
Minutes = Annotated[int, Field(ge=1, le=525_600)]


class PlatformReset(ConfigModel):
    """Reset settings of one platform."""

    mode: ResetMode | None = None
    """Overrides `session_reset.mode` if set."""
    at_hour: Hour | None = None
    """Overrides `session_reset.at_hour` if set."""
    idle_minutes: Minutes | None = None
    """Overrides `session_reset.idle_minutes` if set."""


@section("session_reset")
class SessionResetConfig(ConfigModel):
    """When a platform's chat continues in a new session."""

    mode: ResetMode = "none"
    """`none`, `idle` after a time without messages, `daily` at an hour, or `both`, whichever comes
    first."""
    at_hour: Hour = 4
    """Hour of the day, 0 to 23, in `timezone`."""
    idle_minutes: Minutes = 1440
    """Minutes since the last message or answer."""
    platforms: dict[PlatformName, PlatformReset] = Field(
        default_factory=dict[PlatformName, PlatformReset]
    )
    """Other values of `mode`, `at_hour` and `idle_minutes` by platform, such as `telegram`."""
    review_on_new: bool = False
    """Whether the agent also reviews a session that `/new` ends, as it does when a session ends by
    itself."""

    def policy_for(self, platform: str, zone: tzinfo | None) -> ResetPolicy:
        own = self.platforms.get(platform, PlatformReset())
        return ResetPolicy(
            Mode(own.mode or self.mode),
            self.at_hour if own.at_hour is None else own.at_hour,
            timedelta(minutes=own.idle_minutes or self.idle_minutes),
            zone,
        )


Megabytes = Annotated[int, Field(ge=1, le=50)]


@section("media")
class MediaConfig(ConfigModel):
    """How large the files may be that people send; larger ones are not read."""

    max_image_mb: Megabytes = 20
    """Megabytes of a picture."""
    max_audio_mb: Megabytes = 25
    """Megabytes of a voice message or other sound."""
    max_video_mb: Megabytes = 50
    """Megabytes of a video."""
    max_document_mb: Megabytes = 50
    """Megabytes of any other file."""

    def max_bytes(self, kind: FileKind) -> int:
        limits = {FileKind.IMAGE: self.max_image_mb, FileKind.VIDEO: self.max_video_mb}
        sound = dict.fromkeys((FileKind.VOICE, FileKind.AUDIO), self.max_audio_mb)
        return (limits | sound).get(kind, self.max_document_mb) * 1_000_000


@section("human_delay", variables="HERMES_HUMAN_DELAY_")
class PacingConfig(ConfigModel):
    """Pauses between the messages of a long answer, as if a person wrote them."""

    mode: Annotated[
        Literal["off", "natural", "custom"],
        BeforeValidator(lambda given: "off" if given is False else given),  # YAML's
    ] = "off"
    """`off`, `natural` for 0.8 to 2.5 seconds, or `custom` for the times below."""
    min_ms: Annotated[int, Field(ge=0, le=60_000)] = 800
    """The shortest pause with `custom`, in milliseconds."""
    max_ms: Annotated[int, Field(ge=0, le=60_000)] = 2500
    """The longest pause with `custom`, in milliseconds."""

    @property
    def range_s(self) -> tuple[float, float]:
        """Return the shortest and the longest pause."""
        low, high = {"off": (0, 0), "natural": (800, 2500)}.get(
            self.mode, (self.min_ms, max(self.min_ms, self.max_ms))
        )
        return low / 1000, high / 1000


def _zone(name: str) -> str:
    try:
        return name and ZoneInfo(name).key
    except (KeyError, OSError, ValueError):
        raise ValueError(f"{name!r} is no IANA time zone such as Europe/Rome") from None


class GatewayConfig(ConfigModel):
    """Settings of the gateway."""

    discord: DiscordConfig = DiscordConfig()
    api: ApiConfig = ApiConfig()
    matrix: MatrixConfig = MatrixConfig()
    mattermost: MattermostConfig = MattermostConfig()
    signal: SignalConfig = SignalConfig()
    slack: SlackConfig = SlackConfig()
    sms: SmsConfig = SmsConfig()
    telegram: TelegramConfig = TelegramConfig()
    webhook: WebhookConfig = WebhookConfig()
    whatsapp: WhatsAppConfig = WhatsAppConfig()
    email: EmailConfig = EmailConfig()
    homeassistant: HomeAssistantConfig = HomeAssistantConfig()
    session_reset: SessionResetConfig
    busy: BusyConfig
    media: MediaConfig = MediaConfig()

    pacing: PacingConfig = PacingConfig()
    time_zone: Annotated[str, AfterValidator(_zone), Yaml("timezone"), Env("HERMES_TIMEZONE")] = ""
    """IANA time zone in which chats begin a new day; empty means the machine's."""
    allow_all_users: Annotated[bool, Env("GATEWAY_ALLOW_ALL_USERS")] = False
    """Let everybody on every platform talk to Hermes and run its commands."""
    unauthorized_dm_behavior: Annotated[
        StrangerMode, Yaml("unauthorized_dm_behavior"), Env("GATEWAY_UNAUTHORIZED_DM_BEHAVIOR")
    ] = "ignore"
    """What a person who may not talk to Hermes gets in a direct chat: no answer (`ignore`), or a
    code with which you can let them in (`pair`)."""
    group_sessions_per_user: Annotated[bool, Yaml("group_sessions_per_user")] = True
    """Whether each person in a group has a session of their own."""
    thread_sessions_per_user: Annotated[bool, Yaml("thread_sessions_per_user")] = False
    """Whether each person in a thread of a group has a session of their own."""
    lease_s: Annotated[
        float, Field(ge=3, le=300), Yaml("gateway.lease_s"), Env("HERMES_GATEWAY_LEASE_S")
    ] = 30.0
    """Seconds after which a replica that does not respond loses its chat accounts to another."""
    hook_timeout_s: Annotated[
        float, Field(gt=0, le=300), Yaml("gateway.hook_timeout_s"), Env("HERMES_HOOK_TIMEOUT_S")
    ] = 10.0
    """Seconds that a hook may take for an event before its process is ended."""

    @property
    def platforms(self) -> Sequence[PlatformConfig]:
        return (
            self.discord,
            self.email,
            self.homeassistant,
            self.matrix,
            self.mattermost,
            self.signal,
            self.slack,
            self.sms,
            self.telegram,
            self.webhook,
            self.whatsapp,
        )

    @property
    def zone(self) -> tzinfo | None:
        return ZoneInfo(self.time_zone) if self.time_zone else None


MODELS: tuple[type[ConfigModel], ...] = (GatewayConfig,)
"""The models that `hermes config` shows of this service."""
