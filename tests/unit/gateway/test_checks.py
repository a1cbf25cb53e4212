"""What `hermes doctor` says of platforms that nobody has finished to configure."""

import re
from pathlib import Path
from textwrap import dedent

from gateway_service.accounts.checks import checks, greet
from gateway_service.platforms.slack.config import SlackConfig
from services.runtime.checks import Verdict
from tests.unit.services.settings import settings


async def test_what_is_missing_of_a_platform_is_named(tmp_path: Path) -> None:
    [found] = await checks(settings(tmp_path, environ={"MATRIX_ACCESS_TOKEN": "syt_1"}))
    assert (found.name, found.verdict) == ("matrix", Verdict.NOTE)
    assert found.message == "off; it needs MATRIX_USER_ID and MATRIX_ACCESS_TOKEN"


async def test_without_any_platform_setup_is_named(tmp_path: Path) -> None:
    [found] = await checks(settings(tmp_path))
    assert (found.name, "hermes setup" in found.message) == ("platforms", True)


async def test_a_first_message_that_cannot_be_sent_says_why(tmp_path: Path) -> None:
    known = {"SMS_BASE_URL": "http://127.0.0.1:9", "SMS_ALLOWED_USERS": "+4930,+4931"}
    account = {"TWILIO_ACCOUNT_SID": "AC1", "TWILIO_AUTH_TOKEN": "t"}
    environ = {**known, **account, "TWILIO_PHONE_NUMBER": "+15550001111"}
    found = await greet(settings(tmp_path, environ=environ), "sms")
    assert found is not None
    assert found.verdict is Verdict.NOTE
    assert found.message.startswith("+4930 got no first message (Twilio cannot be reached")
    assert await greet(settings(tmp_path), "matrix") is None


def test_the_manifest_that_setup_shows_is_the_documented_one() -> None:
    page = Path("docs/platforms/slack.md").read_text(encoding="utf-8")
    [documented] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert SlackConfig().manifest == dedent(documented)
