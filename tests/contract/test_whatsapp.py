"""What WhatsApp's platform does beyond the seam, against the Cloud API at the wire."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from gateway_service.errors import AccountRefused, OutcomeUnknown, RateLimited, Refused, Unreachable
from gateway_service.messages import (
    Attachment,
    Button,
    ButtonPress,
    Content,
    Event,
    FileKind,
    MessageEvent,
    Quote,
    Reaction,
    RemoteFile,
    Source,
)
from gateway_service.platforms.base import Destination, WebhookRequest
from gateway_service.platforms.whatsapp.platform import WhatsAppPlatform
from services.runtime.checks import Verdict
from tests.fakes.whatsapp import CLOSED, VERIFY, FakeWhatsApp, config_of, fake_whatsapp, signed
from tests.fakes.whatsapp_rules import Refused as RefusedThere
from tests.integration.gateway_replicas import CONFIG
from tests.support.platform_checks import checked

ADA = Destination("491511")


@pytest.fixture
async def whatsapp() -> AsyncGenerator[FakeWhatsApp]:
    async with fake_whatsapp() as server:
        yield server


@pytest.fixture
async def number(whatsapp: FakeWhatsApp) -> AsyncGenerator[WhatsAppPlatform]:
    async with WhatsAppPlatform(config_of(whatsapp)) as platform:
        yield platform


async def heard(whatsapp: FakeWhatsApp, number: WhatsAppPlatform) -> list[Event]:
    """What the next call brings."""
    result = await number.webhook(await whatsapp.next_call())
    assert result.status == 200
    whatsapp.confirm()
    return list(result.received.events)


async def test_a_message_tells_who_wrote_what(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    message_id = await whatsapp.say("491511", "hello", context={"from": "1", "id": "wamid.0"})
    assert await heard(whatsapp, number) == [
        MessageEvent(
            message_id,
            Source("whatsapp", "491511", "", "491511", "Ada"),
            "hello",
            replies_to="wamid.0",
            message_id=message_id,
        )
    ]


@pytest.mark.parametrize(
    ("message", "text", "files"),
    [
        (
            {"type": "image", "image": {"id": "m1", "mime_type": "image/jpeg", "caption": "look"}},
            "look",
            (RemoteFile(FileKind.IMAGE, "m1", "", "image/jpeg"),),
        ),
        (
            {"type": "audio", "audio": {"id": "m2", "mime_type": "audio/ogg", "voice": True}},
            "",
            (RemoteFile(FileKind.VOICE, "m2", "", "audio/ogg"),),
        ),
        (
            {"type": "document", "document": {"id": "m3", "filename": "a.pdf"}},
            "",
            (RemoteFile(FileKind.DOCUMENT, "m3", "a.pdf"),),
        ),
        (
            {"type": "location", "location": {"latitude": 1.5, "longitude": -2, "name": "Home"}},
            "Location: 1.5, -2 Home",
            (),
        ),
        ({"type": "unsupported", "errors": [{"code": 131051}]}, "", ()),
    ],
)
async def test_other_kinds_of_messages_are_read(
    whatsapp: FakeWhatsApp,
    number: WhatsAppPlatform,
    message: dict[str, Any],
    text: str,
    files: tuple[RemoteFile, ...],
) -> None:
    whatsapp.notify("491511", message)
    [event] = await heard(whatsapp, number)
    assert isinstance(event, MessageEvent)
    assert (event.text, event.files) == (text, files)
    assert (event.joint is None) == (not files)


async def test_a_new_version_names_the_old_one_and_what_is_revoked_is_passed_over(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    new = {"type": "text", "text": {"body": "better"}}
    whatsapp.notify(
        "491511", {"type": "edit", "edit": {"original_message_id": "x", "message": new}}
    )
    [event] = await heard(whatsapp, number)
    assert isinstance(event, MessageEvent)
    assert (event.text, event.edits) == ("better", "x")
    whatsapp.notify("491511", {"type": "revoke", "revoke": {"original_message_id": "x"}})
    assert await heard(whatsapp, number) == []


async def test_forwarded_words_are_no_command(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    await whatsapp.say("491511", "/stop", context={"forwarded": True})
    [event] = await heard(whatsapp, number)
    assert isinstance(event, MessageEvent)
    assert (event.text, event.quotes) == ("", (Quote("/stop", "", is_forwarded=True),))


async def test_reactions_are_read_and_other_numbers_and_odd_messages_are_passed_over(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    whatsapp.notify("491511", {"type": "reaction", "reaction": {"message_id": "x", "emoji": "👍"}})
    [thumb] = await heard(whatsapp, number)
    assert isinstance(thumb, Reaction)
    assert (thumb.message_id, thumb.emoji, thumb.source.chat_id) == ("x", "👍", "491511")
    whatsapp.notify("491511", {"type": "reaction", "reaction": {"message_id": "x"}})
    assert await heard(whatsapp, number) == []
    odd = {"from": "5", "type": "text"}
    fine = {"from": "5", "id": "wamid.1", "type": "text", "text": {"body": "fine"}}
    whatsapp.call({"messages": [odd, fine], "contacts": [{"user_id": "of no phone"}]})
    assert [event.event_id for event in await heard(whatsapp, number)] == ["wamid.1"]
    assert "passed over" in caplog.text
    await whatsapp.say("5", "to all", group_id="G1")
    assert await heard(whatsapp, number) == []
    whatsapp.call({"messages": [fine]}, number="another")
    assert await heard(whatsapp, number) == []


async def test_what_whatsapp_could_not_deliver_is_a_failure(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    errors = [{"code": 131047, "title": "Re-engagement message"}]
    failed = {"id": "wamid.1", "status": "failed", "recipient_id": "491511", "errors": errors}
    read, odd = (
        {"id": "wamid.2", "status": "read"},
        {"status": "failed", "errors": [{"code": "odd"}]},
    )
    whatsapp.call({"statuses": [odd, read, failed]})
    result = await number.webhook(await whatsapp.next_call())
    [failure] = result.received.failures
    assert failure.message_id == "wamid.1"
    assert "24 hours" in failure.reason


async def test_after_24_hours_a_template_has_the_words(whatsapp: FakeWhatsApp) -> None:
    config = config_of(whatsapp, template="news")
    async with WhatsAppPlatform(config) as number:
        whatsapp.errors.append(CLOSED)
        await number.send(ADA, Content("**Done**:\n\nall is well"), "key")
        accepted = await number.send(ADA, Content("More."), "key-2")
        failed = {"id": accepted, "status": "failed", "errors": [{"code": CLOSED.code}]}
        for _ in range(2):
            whatsapp.call({"statuses": [failed]})
        results = [await number.webhook(await whatsapp.next_call())]
        whatsapp.confirm()
        results.append(await number.webhook(await whatsapp.next_call()))
        assert [len(each.received.failures) for each in results] == [0, 0]
    texts = [each.text for each in whatsapp.chats[ADA.chat_id].values()]
    assert texts == ["news: Done: all is well", "More.", "news: More."]


async def test_markdown_becomes_whatsapps_own(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    text = "# Title\n**bold** *it* [x](https://x.y) & <b>\n```py\na = 1\n```\n> said"
    await number.send(ADA, Content(text), "key")
    [shown] = whatsapp.chats["491511"].values()
    assert shown.text == "*Title*\n*bold* _it_ x (https://x.y) & <b>\n```a = 1```\n> said"
    assert shown.about["preview_url"] is False


async def test_tables_fit_where_their_markdown_does(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    table = "| a | b |\n|---|---|\n\n" * 10
    text = table + "x" * (number.traits.message_units - len(table))
    await number.send(ADA, Content(text), "key")
    assert len(whatsapp.chats["491511"]) == 1


async def test_choices_are_buttons_or_a_list(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    short = tuple(Button(each, f"q:{each}") for each in ("Once", "This session", "Deny"))
    await number.send(ADA, Content("May I?", short), "key")
    many = tuple(Button(f"{each}. {'a longer answer ' * 4}", f"q:{each}") for each in range(10))
    await number.send(ADA, Content("Which?", many), "key")
    await number.send(ADA, Content("x" * 2000, short), "key")
    buttons, listed, text, after = whatsapp.chats["491511"].values()
    assert buttons.about["type"] == "button"
    assert buttons.buttons == ["q:Once", "q:This session", "q:Deny"]
    assert listed.about["type"] == "list"
    assert listed.buttons == [f"q:{each}" for each in range(10)]
    assert (len(text.text), after.text, after.buttons) == (2000, "Choose:", buttons.buttons)


async def test_a_press_is_answered_with_what_nothing_else_shows(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    row = {"type": "list_reply", "list_reply": {"id": "q:1", "title": "1.", "description": "x"}}
    whatsapp.notify("491511", {"type": "interactive", "interactive": row})
    [press] = await heard(whatsapp, number)
    assert isinstance(press, ButtonPress)
    assert press.data == "q:1"
    await number.acknowledge(press, "Done.")
    await number.acknowledge(press, "You may not.")
    assert [shown.text for shown in whatsapp.chats["491511"].values()] == ["You may not."]


async def test_typing_marks_the_last_message_as_read(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    await number.typing(ADA)
    await whatsapp.say("491511", "one")
    await heard(whatsapp, number)
    last = await whatsapp.say("491511", "two")
    await heard(whatsapp, number)
    await number.typing(ADA)
    assert whatsapp.read == [last]


@pytest.mark.parametrize(
    ("name", "length_bytes", "kind", "about"),
    [
        ("a.png", 3, "image", {"caption": "*here*"}),
        ("a.png", 6_000_000, "document", {"caption": "*here*", "filename": "a.png"}),
        ("a.mp4", 3, "video", {"caption": "*here*"}),
        ("a.ogg", 3, "audio", {"voice": True}),
        ("a.mp3", 3, "audio", {}),
        ("a.pdf", 3, "document", {"caption": "*here*", "filename": "a.pdf"}),
    ],
)
async def test_files_are_sent_as_their_kind(
    whatsapp: FakeWhatsApp,
    number: WhatsAppPlatform,
    name: str,
    length_bytes: int,
    kind: str,
    about: dict[str, Any],
) -> None:
    file = Attachment(name, length_bytes, "0" * 64, b"abc")
    await number.send(ADA, Content("**here**", attachment=file), "key")
    *before, shown = whatsapp.chats["491511"].values()
    assert shown.kind == kind
    media_id = shown.about["id"]
    assert shown.about == {"id": media_id, **about}
    assert [each.text for each in before] == (["*here*"] if kind == "audio" else [])
    remote = RemoteFile(FileKind.DOCUMENT, media_id)
    assert b"".join([chunk async for chunk in number.download(remote)]) == b"abc"


async def test_the_token_goes_to_meta_only(
    whatsapp: FakeWhatsApp, number: WhatsAppPlatform
) -> None:
    for media_id in ("elsewhere", "missing"):
        with pytest.raises(Refused):
            _ = [each async for each in number.download(RemoteFile(FileKind.IMAGE, media_id))]


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (131047, Refused, "24 hours"),
        (131026, Refused, "131026"),
        (130429, RateLimited, "wait"),
        (190, AccountRefused, "190"),
        (131000, OutcomeUnknown, "131000"),
    ],
)
async def test_refusals_say_why(
    whatsapp: FakeWhatsApp,
    number: WhatsAppPlatform,
    code: int,
    expected: type[Exception],
    words: str,
) -> None:
    whatsapp.errors.append(RefusedThere(code, "No"))
    with pytest.raises(expected, match=words):
        await number.send(ADA, Content("hello"), "key")


async def test_the_doctor_asks_whether_the_number_is_known(whatsapp: FakeWhatsApp) -> None:
    found = await checked(config_of(whatsapp))
    assert found.message.startswith("+1 555-0001 Hermes")
    assert found.message.endswith("set WHATSAPP_ALLOWED_USERS, or turn on pairing")
    found = await checked(
        config_of(whatsapp), CONFIG.model_copy(update={"unauthorized_dm_behavior": "pair"})
    )
    assert found.verdict is Verdict.OK
    found = await checked(config_of(whatsapp, token="EAAother"))
    assert found.verdict is Verdict.FAILED
    with pytest.raises(Unreachable):
        async with WhatsAppPlatform(config_of(whatsapp, base_url="http://127.0.0.1:9")):
            pass


def test_numbers_may_be_written_as_people_do(whatsapp: FakeWhatsApp) -> None:
    config = config_of(whatsapp, allowed_users=["+49 151-1", 491512])
    assert config.allowed_users == ("491511", "491512")
    with pytest.raises(ValueError, match="WHATSAPP_APP_SECRET"):
        config_of(whatsapp, app_secret="")


async def test_meta_finds_the_right_place(whatsapp: FakeWhatsApp) -> None:
    number = WhatsAppPlatform(config_of(whatsapp))

    async def ask(**query: str) -> tuple[int, bytes]:
        found = {f"hub.{name}": each for name, each in query.items()}
        result = await number.webhook(WebhookRequest("GET", "", found, {}, b""))
        return result.status, result.body

    assert await ask(mode="subscribe", verify_token=VERIFY, challenge="42") == (200, b"42")
    assert (await ask(mode="subscribe", verify_token="é", challenge="42"))[0] == 403
    assert (await ask(mode="other", verify_token=VERIFY, challenge="42"))[0] == 403
    assert (await ask())[0] == 403


async def test_forged_calls_are_refused_before_they_are_read(whatsapp: FakeWhatsApp) -> None:
    number = WhatsAppPlatform(config_of(whatsapp))
    assert (await number.webhook(signed(b"{"))).status == 400
    headers = signed(b"other").headers
    wrong = ("", "sha256=é", headers["x-hub-signature-256"])
    bad: Sequence[Mapping[str, str]] = [{}, *({"x-hub-signature-256": each} for each in wrong)]
    for each in bad:
        request = WebhookRequest("POST", "", {}, each, b"{")
        assert (await number.webhook(request)).status == 401
    assert (await number.webhook(signed(b"{", secret="other"))).status == 401


@pytest.mark.parametrize("body", ["[]", "1", '{"entry": 1}', '{"entry": [{"changes": [{}]}]}'])
async def test_odd_calls_do_no_harm(whatsapp: FakeWhatsApp, body: str) -> None:
    number = WhatsAppPlatform(config_of(whatsapp))
    assert (await number.webhook(signed(body.encode()))).status == 400
    other = {"entry": [{"changes": [{"field": "account_update", "value": {"odd": 1}}]}]}
    assert (await number.webhook(signed(json.dumps(other).encode()))).received.events == []
