"""Send a message to a chat, such as from a script.

TARGET is platform:chat or platform:chat:thread, platform:#name for a chat in `hermes gateway
directory`, a platform alone for its home channel, home, all for all home channels, or cli for the
next terminal.
"""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from time import monotonic

from msgspec import Struct

from hermes.gateway.v1 import delivery_pb2 as pb
from hermes.gateway.v1.delivery_pb2_grpc import DeliveryServiceStub
from services.cli.command import JSON_OBJECT, Command, Context, arg, flag
from services.cli.console import complain
from services.cli.standard_input import STANDARD, read_up_to
from services.errors import FailedPrecondition, InvalidArgument
from services.home.texts import decode_text
from services.ids import new_id
from services.rpc.uploads import upload_messages

EXAMPLES = """\
examples:
  hermes send telegram "The backup is done."
  hermes send telegram:12345678 "Hello" --file report.pdf
  hermes send "slack:#builds" - < build.log
  hermes send all "The server restarts at noon." --json"""

MAX_TEXT_BYTES = 1024 * 1024
MAX_FILES_BYTES = 50_000_000
PATIENCE_S = 30.0
LOOK_S = 0.1
CHUNK_BYTES = 256 * 1024
_UPLOAD = pb.UploadAttachmentRequest


class _File(Struct, frozen=True):
    name: str
    data: bytes

    @property
    def digest(self) -> bytes:
        return sha256(self.data).digest()


async def _send(context: Context) -> None:
    """Send a message to a chat."""
    given, stub = context.given, context.stub(DeliveryServiceStub)
    text, files = await asyncio.to_thread(_content, given.text, given.file or ())
    request = context.request(
        pb.DeliverRequest,
        delivery_id=new_id("msg"),
        text=text,
        attachments=[
            pb.Attachment(name=file.name, length_bytes=len(file.data), sha256=file.digest)
            for file in files
        ],
    )
    # Before files are uploaded for nothing.
    check = pb.DeliverRequest()
    check.CopyFrom(request)
    check.validate_only = True
    await stub.Deliver(check)
    for file in files:
        header = _UPLOAD.Header(
            delivery_id=request.delivery_id,
            profile=request.profile,
            length_bytes=len(file.data),
            sha256=file.digest,
        )
        await stub.UploadAttachment(upload_messages(_UPLOAD, header, file.data, CHUNK_BYTES))
    answer = await stub.Deliver(request)
    if answer.left_out_names:
        complain(f"not sent, because the chat cannot show it: {', '.join(answer.left_out_names)}")
    delivery = answer.delivery
    if not given.no_wait and any(not each.startswith("cli:") for each in answer.targets):
        delivery = await _outcome(context, delivery)
    where = ", ".join(answer.targets)
    is_sent = delivery.state not in (pb.DELIVERY_STATE_PENDING, pb.DELIVERY_STATE_UNSPECIFIED)
    why = f" ({delivery.last_error})" if delivery.last_error else ""
    message = f"sent to {where}" if is_sent else f"to be sent to {where}{why}"
    context.print_value(delivery, message)


async def _outcome(context: Context, delivery: pb.Delivery) -> pb.Delivery:
    """Return the delivery once it is sent or has waited long; raises FailedPrecondition if it
    failed."""
    stub = context.stub(DeliveryServiceStub)
    request = context.request(pb.GetDeliveryRequest, delivery_id=delivery.delivery_id)
    end = monotonic() + PATIENCE_S
    while delivery.state == pb.DELIVERY_STATE_PENDING and monotonic() < end:
        await asyncio.sleep(LOOK_S)
        delivery = (await stub.GetDelivery(request)).delivery
    if delivery.state == pb.DELIVERY_STATE_ABANDONED:
        raise FailedPrecondition(f"not sent: {delivery.last_error}")
    return delivery


def _content(text: str | None, paths: Sequence[Path]) -> tuple[str, Sequence[_File]]:
    """Return the text and files to send, read where they are named."""
    if text == str(STANDARD):
        data = read_up_to(STANDARD, MAX_TEXT_BYTES)
        if len(data) > MAX_TEXT_BYTES:
            raise InvalidArgument("a message can have at most 1 MiB of text; use --file")
        text = decode_text(data, "replace").rstrip("\n")
    files, left = list[_File](), MAX_FILES_BYTES
    for path in paths:
        try:
            data = read_up_to(path, left)
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from None
        if len(data) > left:
            raise InvalidArgument(f"{path} is too large; a message can have 50 MB of files")
        files.append(_File(path.name, data))
        left -= len(data)
    if not (text or "").strip() and not files:
        raise InvalidArgument(
            "there is nothing to send: give a text, - for standard input, or --file"
        )
    return text or "", files


COMMAND = Command(
    EXAMPLES,
    function=_send,
    arguments=(
        arg("TARGET", "chat or platform, such as telegram:12345678 or telegram"),
        arg("TEXT?", "message in Markdown; - reads standard input"),
        arg("--file FILE", "also send this file; repeatable", Path, action="append"),
        flag("--no-wait", "return before the platform has the message", field="no_wait"),
        JSON_OBJECT,
    ),
    services=("gateway",),
)
