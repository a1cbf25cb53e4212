"""Settings that all platforms have."""

import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from services.config.settings import ConfigModel, Yaml

StrangerMode = Literal["ignore", "pair"]


class PlatformConfig(ConfigModel):
    """An account of a platform, and who may talk to it."""

    name: ClassVar[str]
    """The platform's name in lower case."""
    package: ClassVar[str] = ""
    """The package that the platform's extra, named as the platform, installs; empty if none."""

    title: ClassVar[str] = ""
    """Its name for people, if that is not `name` with a capital."""
    steps: ClassVar[str] = ""
    """How a person gets the account, for `hermes setup`."""
    guide: ClassVar[str] = ""
    """The page and section about it, if it has no page of its own."""
    users: ClassVar[str] = "user ids"
    """What people are named by there."""
    programs: ClassVar[frozenset[str]] = frozenset()
    """User ids that stand for no person."""
    needs: ClassVar[str]
    """The variables that it cannot be used without."""
    credentials: ClassVar[tuple[str, ...]] = ("token",)
    """The settings that the account cannot be used without."""

    enabled: Annotated[bool | None, Yaml("..enabled")] = None
    """Whether to use the platform; if unset, it is used if it has a token."""
    allowed_users: tuple[str, ...] = ()
    """The platform's user ids of the people who may talk to Hermes."""
    unauthorized_dm_behavior: StrangerMode | None = None
    """Overrides `unauthorized_dm_behavior` of all platforms if set."""
    allow_all_users: Annotated[bool, Yaml()] = False
    """Let everybody on the platform talk to Hermes and run its commands."""
    admins: tuple[str, ...] = ()
    """User ids of those who may use commands that change the deployment or cost money. If empty,
    the only person who may talk to Hermes is admin; if there are several, nobody is."""
    home_channel: str = ""
    """The chat (CHAT, CHAT:THREAD or #NAME) that gets messages to the platform that name no chat;
    /sethome overrides it."""
    allow_commands: Annotated[dict[str, tuple[str, ...]], Yaml(".commands.allow")] = Field(
        default_factory=dict[str, tuple[str, ...]]
    )
    """Allowed commands by user id, such as `cron` or `cron list`. The user id `*` means everybody,
    the command `*` means all commands, and `skill` means the commands of all skills."""
    deny_commands: Annotated[dict[str, tuple[str, ...]], Yaml(".commands.deny")] = Field(
        default_factory=dict[str, tuple[str, ...]]
    )
    """Denied commands in the same form; denials for everybody (`*`) do not apply to admins."""

    @property
    def variables_needed(self) -> Sequence[str]:
        """Return the names of the variables among what it needs."""
        return re.findall(r"\b[A-Z][A-Z0-9_]{3,}\b", self.needs)

    @property
    def page(self) -> str:
        """Return the page about the platform."""
        return f"docs/platforms/{self.guide or f'{self.name}.md'}"

    @property
    def manifest(self) -> str:
        """Return what a person pastes to make the account; empty if nothing."""
        return ""

    @property
    def first_chat(self) -> str:
        """Return the chat, or the person, that gets the first message; empty if none is known."""
        return (*self.allowed_users, "")[0]

    @property
    def advice(self) -> str:
        """Return what the settings lack for the account to be of full use; empty if nothing."""
        return ""

    @property
    def has_credentials(self) -> bool:
        """Return whether the account can be used."""
        return all(getattr(self, name) for name in self.credentials)

    @property
    def is_on(self) -> bool:
        return self.has_credentials if self.enabled is None else self.enabled

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        """Refuse to use an account that is not configured; a platform may override this."""
        if self.enabled and not self.has_credentials:
            raise ValueError(f"platforms.{self.name} is enabled; set {self.needs} for it")
        return self
