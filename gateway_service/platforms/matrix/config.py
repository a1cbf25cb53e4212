"""Matrix's settings."""

from typing import Annotated, ClassVar

from pydantic import SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section


@section("platforms.matrix.extra", variables="MATRIX_")
class MatrixConfig(PlatformConfig):
    """The Matrix account of Hermes, and who may talk to it."""

    name: ClassVar[str] = "matrix"
    package: ClassVar[str] = "nio"
    guide: ClassVar[str] = "matrix-mattermost.md#matrix"
    steps: ClassVar[str] = (
        "Register an account for Hermes at your homeserver, and log in once for an access token."
    )
    users: ClassVar[str] = "ids such as @ann:example.org"
    needs: ClassVar[str] = "MATRIX_USER_ID and MATRIX_ACCESS_TOKEN"
    credentials: ClassVar[tuple[str, ...]] = ("token", "user_id")

    token: Annotated[SecretStr, Yaml("..token"), Env("MATRIX_ACCESS_TOKEN")] = SecretStr("")
    """The account's access token, of a device that only Hermes uses."""
    user_id: str = ""
    """The account, such as `@hermes:example.org`."""
    homeserver: str = ""
    """The homeserver's URL; if empty, `https://` and the part of the account after the colon."""
    encryption: bool = True
    """Whether to read and write encrypted rooms. Their keys are kept in the home, in
    `state/matrix`: every replica of the gateway needs the same one."""

    @property
    def first_chat(self) -> str:
        return ""  # people invite Hermes to a room

    @property
    def url(self) -> str:
        return self.homeserver.rstrip("/") or f"https://{self.user_id.partition(':')[2]}"

    @model_validator(mode="after")
    def _is_well_formed(self) -> "MatrixConfig":
        if self.user_id and not (self.user_id.startswith("@") and ":" in self.user_id):
            raise ValueError("MATRIX_USER_ID must look like @hermes:example.org")
        return self
