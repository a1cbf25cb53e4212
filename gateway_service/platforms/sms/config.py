"""Settings of SMS."""

import re
from typing import Annotated, ClassVar

from pydantic import SecretStr, model_validator

from gateway_service.platforms.config import PlatformConfig
from services.config.settings import Env, Yaml, section

_NUMBER = re.compile(r"\+[1-9]\d{6,14}|MG[0-9a-f]{32}")


@section("platforms.sms.extra", variables="SMS_")
class SmsConfig(PlatformConfig):
    """A phone number at Twilio, and who may talk to it."""

    name: ClassVar[str] = "sms"
    title: ClassVar[str] = "SMS"
    guide: ClassVar[str] = "phone.md#sms"
    steps: ClassVar[str] = (
        "In the console of Twilio copy the account SID and the auth token, and buy a number for "
        "messages."
    )
    users: ClassVar[str] = "numbers such as +15551234567"
    needs: ClassVar[str] = "TWILIO_ACCOUNT_SID, TWILIO_AUTH_TOKEN and TWILIO_PHONE_NUMBER"
    credentials: ClassVar[tuple[str, ...]] = ("account_sid", "token", "phone_number")

    account_sid: Annotated[str, Yaml(".account_sid"), Env("TWILIO_ACCOUNT_SID")] = ""
    """The account's id at Twilio, which begins with AC."""
    token: Annotated[SecretStr, Yaml("..token"), Env("TWILIO_AUTH_TOKEN")] = SecretStr("")
    """The account's auth token, which also signs what Twilio sends."""
    phone_number: Annotated[str, Yaml(".phone_number"), Env("TWILIO_PHONE_NUMBER")] = ""
    """The number that Hermes writes from, such as +15551234567, or the id of a messaging service.
    """
    base_url: str = "https://api.twilio.com"
    """The address of Twilio's API."""

    @model_validator(mode="after")
    def _is_well_formed(self) -> "SmsConfig":
        if self.phone_number and not _NUMBER.fullmatch(self.phone_number):
            raise ValueError("TWILIO_PHONE_NUMBER must look like +15551234567")
        return self
