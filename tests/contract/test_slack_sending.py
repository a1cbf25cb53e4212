"""What Slack's platform shows people, in a workspace at the wire."""

import pytest

from gateway_service.errors import (
    AccountRefused,
    ChatMoved,
    MessageGone,
    OutcomeUnknown,
    Refused,
    Unreachable,
)
from gateway_service.messages import (
    Attachment,
    Button,
    ButtonPress,
    Content,
    FileKind,
    Reaction,
    RemoteFile,
    Source,
)
from gateway_service.platforms.base import Destination
from gateway_service.platforms.slack.platform import SlackPlatform
from gateway_service.platforms.slack.webhook import make_slack
from services.runtime.checks import Verdict
from tests.fakes.sink import Collected
from tests.fakes.slack import FakeSlack, config_of
from tests.support.platform_checks import checked

CHANNEL = Destination("C1")


async def test_markdown_is_shown_without_pinging_anybody(
    slack: FakeSlack, app: SlackPlatform
) -> None:
    text = (
        "# Title\n**bold** *it* ~~no~~ `a<b` & [x](https://x.y/?a|b) https://z.w/a?b=1.\n"
        "- item <!channel> @here\n> quoted\n```py\nif a < b: '```'\n```"
    )
    await app.send(CHANNEL, Content(text), "key")
    [shown] = slack.chats["C1"].values()
    assert shown.mrkdwn.split("\n") == [
        "*Title*",
        "*bold* _it_ ~no~ `a&lt;b` &amp; <https://x.y/?a%7Cb|x> <https://z.w/a?b=1>.",
        "• item &lt;!channel&gt; @here",
        "> quoted",
        "```",
        "if a &lt; b: '`\u200b``'",
        "```",
    ]


async def test_formatting_within_words_is_shown(slack: FakeSlack, app: SlackPlatform) -> None:
    await app.send(CHANNEL, Content("**東京**は ***both***s *it*, un~~do~~ `x`y"), "key")
    [shown] = slack.chats["C1"].values()
    said = "*東京*|は *_both_*|s _it_, un|~do~ `x`|y"
    assert shown.mrkdwn == said.replace("|", "\u200b")


async def test_a_person_is_another_name_of_a_direct_chat(app: SlackPlatform) -> None:
    with pytest.raises(ChatMoved) as moved:
        await app.send(Destination("U7"), Content("hello"), "key")
    assert moved.value.new_chat_id == "DU7"


async def test_buttons_are_pressed_in_their_thread(slack: FakeSlack, app: SlackPlatform) -> None:
    place = Destination("C1", "1700000000.000001")
    buttons = tuple(Button(f"{number} {'x' * 90}", f"q:{number}") for number in range(25))
    ts = await app.send(place, Content("?", buttons), "key")
    await slack.press("C1", ts, "q:3", "U9", place.thread_id)
    [press] = await Collected().take(app, 1)
    assert isinstance(press, ButtonPress)
    assert press.source == Source("slack", "C1", place.thread_id, "U9", "Eve", "thread")
    await app.acknowledge(press, "Done.")
    assert slack.ephemeral == []
    await app.acknowledge(press, "You may not.")
    [told] = slack.ephemeral
    assert (told["user"], told["text"]) == ("U9", "You may not.")


async def test_thumbs_are_reactions(slack: FakeSlack, app: SlackPlatform) -> None:
    item = {"type": "message", "channel": "D1", "ts": "1.1"}
    added = {"type": "reaction_added", "user": "U7", "item": item, "event_ts": "2.2"}
    for name in ("eyes", "+1::skin-tone-2", "thumbsdown"):
        await slack.event({**added, "reaction": name})
    await slack.event({**added, "reaction": "+1", "item": {"type": "file", "file": "F1"}})
    await slack.say("D1", "hello")
    up, down, _ = await Collected().take(app, 3)
    assert isinstance(up, Reaction)
    assert isinstance(down, Reaction)
    assert (up.emoji, down.emoji, up.message_id) == ("👍", "👎", "1.1")
    assert up.source == Source("slack", "D1", "", "U7")


async def test_files_are_sent_and_received(slack: FakeSlack, app: SlackPlatform) -> None:
    file = Attachment("a.bin", 3, "0" * 64, b"abc")
    place = Destination("C1", "1700000000.000001")
    other = Attachment("b.bin", 3, "0" * 64, b"def")
    file_id = await app.send(place, Content("**here**", attachment=file, album=(other,)), "key")
    [sent] = slack.uploaded
    assert (sent["channel_id"], sent["thread_ts"]) == ("C1", place.thread_id)
    assert (sent["initial_comment"], sent["files"][0]["title"]) == ("*here*", "a.bin")
    assert [slack.files[each["id"]] for each in sent["files"]] == [b"abc", b"def"]
    remote = RemoteFile(FileKind.DOCUMENT, file_id)
    assert b"".join([chunk async for chunk in app.download(remote)]) == b"abc"
    with pytest.raises(Refused):
        _ = [chunk async for chunk in app.download(RemoteFile(FileKind.DOCUMENT, "elsewhere"))]
    with pytest.raises(Refused):
        _ = [chunk async for chunk in app.download(RemoteFile(FileKind.DOCUMENT, "signin"))]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("channel_not_found", Refused),
        ("missing_scope", Refused),
        ("edit_window_closed", MessageGone),
        ("token_revoked", AccountRefused),
        ("internal_error", OutcomeUnknown),
        ("drop_before", OutcomeUnknown),
    ],
)
async def test_refusals_say_what_to_do(
    slack: FakeSlack, app: SlackPlatform, code: str, expected: type[Exception]
) -> None:
    slack.faults.planned["chat.postMessage"].append(code)
    with pytest.raises(expected) as raised:
        await app.send(CHANNEL, Content("hello"), "key")
    assert "xoxb" not in str(raised.value)
    assert ("some:scope" in str(raised.value)) == (code == "missing_scope")


async def test_wrong_tokens_are_named(slack: FakeSlack) -> None:
    with pytest.raises(AccountRefused, match="invalid_auth"):
        async with make_slack(config_of(slack, token="xoxb-1-2-x")):
            pass
    found = await checked(config_of(slack))
    assert found.message.startswith("@hermes in Acme")
    found = await checked(config_of(slack, app_token="xapp-other"))
    assert found.verdict is Verdict.FAILED
    assert "SLACK_APP_TOKEN" in found.message
    with pytest.raises(Unreachable):
        async with make_slack(config_of(slack, base_url="http://127.0.0.1:9/")):
            pass


def test_the_account_stays_the_same_with_a_new_token(slack: FakeSlack) -> None:
    old, new = (make_slack(config_of(slack, token=f"xoxb-1-2-{it}")) for it in "ab")
    assert old.account_id == new.account_id == "1-2"
