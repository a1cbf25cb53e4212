"""E-mail's settings."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section

_Port = Annotated[int, Field(ge=1, le=65535)]


@section("platforms.email.extra", variables="EMAIL_")
class EmailConfig(PlatformConfig):
    """A mailbox that people write to."""

    name: ClassVar[str] = "email"
    package: ClassVar[str] = "aioimaplib"
    title: ClassVar[str] = "E-mail"
    steps: ClassVar[str] = (
        "Make a mailbox that nobody else reads, with an app password if the provider has them. "
        "EMAIL_AUTH_SERVER is the name with which the Authentication-Results header of a mail "
        "begins that the mailbox got."
    )
    users: ClassVar[str] = "addresses"
    needs: ClassVar[str] = (
        "EMAIL_ADDRESS, EMAIL_PASSWORD, EMAIL_IMAP_HOST, EMAIL_SMTP_HOST and EMAIL_AUTH_SERVER"
    )
    credentials: ClassVar[tuple[str, ...]] = ("address", "password")

    address: Annotated[str, Env("EMAIL_ADDRESS")] = ""
    """The address that people write to. Use a mailbox that nobody else reads."""
    user: Annotated[str, Env("EMAIL_USER")] = ""
    """The name to log in with; empty is the address."""
    password: Annotated[SecretStr, Yaml("..token", ".password"), Env("EMAIL_PASSWORD")] = SecretStr(
        ""
    )
    """The password of the mailbox, or an app password."""
    imap_host: Annotated[str, Env("EMAIL_IMAP_HOST")] = ""
    """The server that mail is read from."""
    imap_port: Annotated[_Port, Env("EMAIL_IMAP_PORT")] = 993
    """Its port, with TLS from the first byte."""
    smtp_host: Annotated[str, Env("EMAIL_SMTP_HOST")] = ""
    """The server that mail is sent through."""
    smtp_port: Annotated[_Port, Env("EMAIL_SMTP_PORT")] = 587
    """Its port: 465 has TLS from the first byte, others begin with STARTTLS."""
    tls: Annotated[Literal["on", "off"], Env("EMAIL_TLS")] = "on"
    """`off` connects without encryption, which is for servers on this machine alone."""
    folder: Annotated[str, Env("EMAIL_FOLDER")] = "INBOX"
    """The folder that is read."""
    auth_server: Annotated[str, Env("EMAIL_AUTH_SERVER")] = ""
    """The name with which your mail server's `Authentication-Results` headers begin, such as
    `mx.google.com`. Senders that it does not confirm are strangers; without it all are."""

    @property
    def advice(self) -> str:
        return "" if self.auth_server else "no sender is confirmed; set EMAIL_AUTH_SERVER"

    @property
    def login(self) -> tuple[str, str]:
        return self.user or self.address, self.password.get_secret_value()

    @model_validator(mode="after")
    def _is_complete(self) -> "EmailConfig":
        if self.is_on and not (self.has_credentials and self.imap_host and self.smtp_host):
            raise ValueError(
                "platforms.email is on; set EMAIL_ADDRESS, EMAIL_PASSWORD, EMAIL_IMAP_HOST and "
                "EMAIL_SMTP_HOST"
            )
        return self
