"""WhatsApp's settings."""

from typing import Annotated, ClassVar

from pydantic import SecretStr, field_validator, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Yaml, section


@section("platforms.whatsapp.extra", variables="WHATSAPP_")
class WhatsAppConfig(PlatformConfig):
    """The business phone number, and who may talk to it."""

    name: ClassVar[str] = "whatsapp"
    title: ClassVar[str] = "WhatsApp"
    guide: ClassVar[str] = "phone.md#whatsapp"
    steps: ClassVar[str] = (
        "At https://developers.facebook.com make an app with WhatsApp. Copy the id of the phone "
        "number, the app secret, and a permanent token of a system user with the permissions "
        "whatsapp_business_messaging and whatsapp_business_management. Think of a verify token."
    )
    users: ClassVar[str] = "numbers such as 15551234567"
    needs: ClassVar[str] = (
        "WHATSAPP_TOKEN, WHATSAPP_PHONE_NUMBER_ID, WHATSAPP_APP_SECRET and WHATSAPP_VERIFY_TOKEN"
    )

    token: Annotated[SecretStr, Yaml("..token")] = SecretStr("")
    """A system user's access token, with the permission `whatsapp_business_messaging`."""
    phone_number_id: str = ""
    """The id of the phone number, which is not the number itself."""
    app_secret: SecretStr = SecretStr("")
    """The Meta app's secret, with which its calls are signed."""
    verify_token: SecretStr = SecretStr("")
    """A text of your choice that you also enter in Meta's dashboard, beside the webhook's URL."""
    template: str = ""
    """The name of a message template with one variable in its body, for what Hermes sends later
    than 24 hours after the person's last message; empty sends nothing then."""
    template_language: str = "en_US"
    """The language code of the template."""
    base_url: str = "https://graph.facebook.com/v23.0/"
    """The URL of the Graph API, with its version."""

    @field_validator("allowed_users", "admins")
    @classmethod
    def _bare(cls, numbers: tuple[str, ...]) -> tuple[str, ...]:
        # People write +49 151 23456789; WhatsApp does not.
        return tuple("".join(filter(str.isalnum, each)) for each in numbers)

    @model_validator(mode="after")
    def _is_complete(self) -> "WhatsAppConfig":
        secrets = (self.token, self.app_secret, self.verify_token)
        has_all = all(each.get_secret_value() for each in secrets) and self.phone_number_id
        if self.is_on and not has_all:
            raise ValueError(
                f"WhatsApp is on; the Cloud API needs {self.needs}. Personal accounts cannot be "
                "used; set WHATSAPP_ENABLED=false if you have no other"
            )
        return self
