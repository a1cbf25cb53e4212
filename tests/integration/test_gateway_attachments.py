"""Files of deliveries: stored whole before they are named, sent as what they are, then gone."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest

from hermes.common.v1.origin_pb2 import Origin
from hermes.gateway.v1.delivery_pb2 import (
    DELIVERY_STATE_MARKED_DUPLICATE,
    DELIVERY_STATE_PENDING,
    DELIVERY_STATE_SENT,
    Attachment,
    DeliverRequest,
    DeliverResponse,
    DownloadAttachmentRequest,
    UploadAttachmentRequest,
)
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.errors import Reason, details_of, reason_of
from tests.integration.gateway_parts import Hermes, client, news_reader
from tests.integration.test_gateway_deliveries import REPEAT, sender

PNG = b"\x89PNG\r\n\x1a\n" + b"picture" * 100
LARGE = bytes(range(256)) * 12_000
"""About three chunks of a download."""
STORED = "SELECT count(*) FROM attachment"


@dataclass(frozen=True)
class Files:
    """Somebody who delivers files."""

    stub: DeliveryServiceStub

    @classmethod
    def of(cls, running: Hermes) -> "Files":
        return cls(DeliveryServiceStub(running.operator.to("gateway")))

    async def upload(self, delivery_id: str, data: bytes, **wrong: bytes | int) -> None:
        """Upload a file as it is, or with a header that says something else."""
        digest, length = wrong.get("sha256", digest_of(data)), wrong.get("length_bytes", len(data))
        assert isinstance(digest, bytes)
        assert isinstance(length, int)
        header = UploadAttachmentRequest.Header(
            delivery_id=delivery_id, length_bytes=length, sha256=digest
        )

        async def requests() -> AsyncGenerator[UploadAttachmentRequest]:
            yield UploadAttachmentRequest(header=header)
            for start in range(0, len(data), 300_000):
                yield UploadAttachmentRequest(chunk=data[start : start + 300_000])

        await self.stub.UploadAttachment(requests())

    async def deliver(
        self,
        delivery_id: str,
        text: str,
        files: Sequence[tuple[str, bytes]],
        place: tuple[str, str] = ("telegram", "1"),
        captions: Sequence[str] = ("",) * 11,
    ) -> DeliverResponse:
        """Deliver what was uploaded."""
        named = [
            Attachment(name=name, length_bytes=len(data), sha256=digest_of(data), caption=caption)
            for (name, data), caption in zip(files, captions, strict=False)
        ]
        origin = Origin(platform=place[0], chat_id=place[1])
        return await self.stub.Deliver(
            DeliverRequest(delivery_id=delivery_id, origin=origin, text=text, attachments=named)
        )

    async def download(self, delivery_id: str, data: bytes, profile: str = "") -> bytes:
        """The file of a delivery with this content."""
        request = DownloadAttachmentRequest(
            delivery_id=delivery_id, profile=profile, sha256=digest_of(data)
        )
        return b"".join([each.chunk async for each in self.stub.DownloadAttachment(request)])


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


async def refused(call: Awaitable[object]) -> grpc.aio.AioRpcError:
    """The error of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_a_picture_is_sent_once_with_its_text_below_and_then_is_gone(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, running):
        files = Files.of(running)
        for _ in range(2):
            await files.upload("dlv_1", PNG)
        for _ in range(3):
            stored = await files.deliver("dlv_1", "The **view**.", [("view.png", PNG)])
            assert (stored.delivery.part_count, list(stored.left_out_names)) == (1, [])
        assert (await sends.ended("dlv_1")).state == DELIVERY_STATE_SENT
        [shown] = telegram.chats[1].values()
        assert (shown.text, shown.html) == ("The view.", "The <b>view</b>.")
        assert shown.file is not None
        assert (shown.file.kind, shown.file.name, shown.file.data) == ("photo", "view.png", PNG)
        await running.until_rows("gateway", STORED, [(0,)])
        # A caller that never heard the answer asks again, when the file is gone.
        again = await files.deliver("dlv_1", "The **view**.", [("view.png", PNG)])
        assert again.delivery.state == DELIVERY_STATE_SENT
        assert len(telegram.chats[1]) == 1


async def test_files_are_sent_as_what_they_are(tmp_path: Path) -> None:
    """What is no picture whatever it calls itself is sent as a file."""
    kinds = {
        "a.JPEG": "document",
        "a.gif": "animation",
        "a.mp4": "video",
        "a.mp3": "audio",
        "a.ogg": "voice",
        "report.pdf": "document",
        "no suffix": "document",
    }
    async with sender(tmp_path) as (telegram, sends, running):
        files = Files.of(running)
        for chat, (name, kind) in enumerate(kinds.items(), start=1):
            await files.upload(f"dlv_{chat}", b"bytes")
            await files.deliver(f"dlv_{chat}", "", [(name, b"bytes")], ("telegram", str(chat)))
            assert (await sends.ended(f"dlv_{chat}")).state == DELIVERY_STATE_SENT
            [shown] = telegram.chats[chat].values()
            assert shown.file is not None
            assert (shown.file.kind, shown.file.name, shown.text) == (kind, name, "")


async def test_several_files_and_long_texts_come_in_order(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, running):
        files = Files.of(running)
        for data in (PNG, LARGE):
            await files.upload("dlv_1", data)
        named = [("one.png", PNG), ("two.bin", LARGE), ("three.png", PNG)]
        await files.deliver("dlv_1", "Three files.", named)
        ended = await sends.ended("dlv_1")
        assert (ended.state, ended.sent_part_count) == (DELIVERY_STATE_SENT, 4)
        shown = list(telegram.chats[1].values())
        assert [each.text for each in shown] == ["Three files.", "", "", ""]
        sent = [(each.file.name, each.file.data) for each in shown if each.file is not None]
        assert sent == named
        await files.upload("dlv_2", PNG)
        long = "word " * 250 + "end"
        await files.deliver("dlv_2", long, [("one.png", PNG)])
        await sends.ended("dlv_2")
        assert telegram.texts(1)[4:] == [long, ""]


async def test_a_lost_answer_is_repeated_with_a_mark_below_the_file(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, running):
        files = Files.of(running)
        telegram.faults.planned["sendPhoto"] = ["drop_after", "limited"]
        await files.upload("dlv_1", PNG)
        await files.deliver("dlv_1", "The view.", [("view.png", PNG)])
        assert (await sends.ended("dlv_1")).state == DELIVERY_STATE_MARKED_DUPLICATE
        assert telegram.texts(1) == ["The view.", f"{REPEAT}The view."]
        await running.until_rows("gateway", STORED, [(0,)])


async def test_nothing_is_delivered_before_its_files_are_whole(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, _, running):
        files = Files.of(running)
        named = [("a.bin", LARGE)]
        for upload in (
            files.upload("dlv_1", LARGE[:-1], sha256=digest_of(LARGE), length_bytes=len(LARGE)),
            files.upload("dlv_1", LARGE[:-1] + b"x", sha256=digest_of(LARGE)),
            files.upload("dlv_1", LARGE + b"x", sha256=digest_of(LARGE), length_bytes=len(LARGE)),
        ):
            assert reason_of(await refused(upload)) is Reason.DIGEST_MISMATCH
        assert await running.rows("gateway", STORED) == [(0,)]
        error = await refused(files.deliver("dlv_1", "", named))
        assert reason_of(error) is Reason.FAILED_PRECONDITION
        # What was uploaded for another delivery says nothing of this one.
        await files.upload("dlv_2", LARGE)
        error = await refused(files.deliver("dlv_1", "", named))
        assert "a.bin was not uploaded" in details_of(error).message
        assert telegram.texts(1) == []
        await files.upload("dlv_1", LARGE)
        assert (await files.deliver("dlv_1", "", named)).delivery.part_count == 1
        other = await refused(files.deliver("dlv_1", "", [("b.bin", LARGE)]))
        assert reason_of(other) is Reason.ALREADY_EXISTS


async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    async with sender(tmp_path) as (_, _, running):
        files = Files.of(running)
        for name in ("", "a/b", "a\nb", "a\u202eb", "x" * 256):
            error = await refused(files.deliver("dlv_1", "", [(name, PNG)]))
            assert set(details_of(error).fields) == {"attachments[0].name"}
        error = await refused(files.deliver("dlv_1", "", [("a", PNG)] * 11))
        assert set(details_of(error).fields) == {"attachments"}
        for wrong, field in (
            (b"short", "sha256"),
            (50_000_001, "length_bytes"),
            (0, "length_bytes"),
        ):
            error = await refused(files.upload("dlv_1", PNG, **{field: wrong}))
            assert set(details_of(error).fields) == {f"header.{field}"}


async def test_a_terminal_fetches_its_file_and_others_do_not(tmp_path: Path) -> None:
    async with sender(tmp_path) as (_, sends, running):
        files = Files.of(running)
        async with client(running, news_reader()) as reader:
            await files.upload("dlv_1", LARGE)
            place = ("cli", await reader.open())
            await files.deliver("dlv_1", "Look.", [("a.bin", LARGE)], place)
            await reader.until(lambda it: len(it.news()) == 2)
            [text, file] = [response.reply for response in reader.of("reply")]
            assert (text.text, text.HasField("attachment")) == ("Look.", False)
            assert (file.text, file.attachment.name, file.delivery_id) == ("", "a.bin", "dlv_1")
            assert (await sends.ended("dlv_1")).state == DELIVERY_STATE_SENT
            assert await files.download("dlv_1", LARGE) == LARGE
        for delivery_id, data, profile in (
            ("dlv_1", LARGE, "other"),
            ("dlv_1", PNG, ""),
            ("dlv_2", LARGE, ""),
        ):
            error = await refused(files.download(delivery_id, data, profile))
            assert reason_of(error) is Reason.NOT_FOUND


async def test_pictures_that_follow_each_other_are_one_album(tmp_path: Path) -> None:
    async with sender(tmp_path) as (telegram, sends, running):
        files, other = Files.of(running), PNG + b"other"
        for data in (PNG, other, LARGE):
            await files.upload("dlv_1", data)
        named = [("one.png", PNG), ("two.png", other), ("three.bin", LARGE)]
        stored = await files.deliver("dlv_1", "", named, captions=("The *sea*", "", "Bytes"))
        assert stored.delivery.part_count == 2
        assert (await sends.ended("dlv_1")).state == DELIVERY_STATE_SENT
        shown = list(telegram.chats[1].values())
        assert [each.text for each in shown] == ["The sea", "", "Bytes"]
        kinds = [(each.file.kind, each.file.name) for each in shown if each.file is not None]
        assert kinds == [("photo", "one.png"), ("photo", "two.png"), ("document", "three.bin")]
        assert telegram.calls["sendMediaGroup"] == 1
        # What is no picture in spite of its name comes as a file.
        for data in (LARGE, LARGE[1:]):
            await files.upload("dlv_2", data)
        await files.deliver("dlv_2", "", [("a.png", LARGE), ("b.png", LARGE[1:])])
        assert (await sends.ended("dlv_2")).state == DELIVERY_STATE_SENT
        sent = [each.file for each in list(telegram.chats[1].values())[3:]]
        assert [file.kind for file in sent if file is not None] == ["document", "document"]


async def test_the_files_of_an_answer_follow_its_text(tmp_path: Path) -> None:
    """They are stored while the turn goes on."""
    text = "\n".join(f"{number} " + "x" * 95 for number in range(60))
    async with sender(tmp_path, {"text": text, "latency_s": 1}) as (telegram, sends, running):
        await telegram.say(1, "draw")
        await telegram.until(lambda: telegram.texts(1) == ["…"])
        [(turn,)] = await running.rows("gateway", "SELECT turn_id FROM inbox")
        files, key = Files.of(running), f"{turn}:files"
        await files.upload(key, PNG)
        stored = await files.deliver(key, "", [("view.png", PNG)], captions=("The view",))
        assert stored.delivery.state == DELIVERY_STATE_PENDING
        assert (await sends.ended(key)).state == DELIVERY_STATE_SENT
        assert telegram.texts(1)[-1] == "The view"
        assert "\n".join(telegram.texts(1)[:-1]) == text
        # After the turn nothing is waited for.
        late = f"{turn}:late:files"
        await files.upload(late, PNG)
        await files.deliver(late, "", [("view.png", PNG)])
        assert (await sends.ended(late)).state == DELIVERY_STATE_SENT
