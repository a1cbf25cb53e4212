"""Files."""

from urllib.parse import quote, unquote

from google.protobuf.timestamp_pb2 import Timestamp

from executor_service.files import MAX_ARCHIVE_BYTES, MAX_FILE_BYTES, Upload
from executor_service.link import FileInfo
from hermes.executor.v1 import file_pb2
from services.errors import InvalidArgument, LimitExceeded

_KINDS = {
    "file": file_pb2.FILE_KIND_FILE,
    "directory": file_pb2.FILE_KIND_DIRECTORY,
    "symlink": file_pb2.FILE_KIND_SYMLINK,
    "other": file_pb2.FILE_KIND_OTHER,
}
_SHA256_BYTES = 32
_PERMISSIONS = 0o777


def upload(header: file_pb2.UploadFileRequest.Header) -> Upload:
    """What is announced; fails with InvalidArgument or LimitExceeded."""
    if len(header.sha256) != _SHA256_BYTES:
        raise InvalidArgument("sha256: 32 bytes are wanted", fields={"sha256": "32 bytes"})
    if not 0 <= header.mode <= _PERMISSIONS:
        raise InvalidArgument("mode: 0 to 0777 is wanted", fields={"mode": "0 to 0777"})
    if not 0 <= header.length_bytes <= MAX_FILE_BYTES:
        raise LimitExceeded(f"a file may have up to {MAX_FILE_BYTES} bytes")
    return Upload(header.path, header.length_bytes, header.sha256, header.mode or None)


def archive(header: file_pb2.UploadArchiveRequest.Header) -> Upload:
    """What is announced; fails with InvalidArgument or LimitExceeded."""
    if len(header.sha256) != _SHA256_BYTES:
        raise InvalidArgument("sha256: 32 bytes are wanted", fields={"sha256": "32 bytes"})
    if not 0 <= header.length_bytes <= MAX_ARCHIVE_BYTES:
        raise LimitExceeded(f"an archive may have up to {MAX_ARCHIVE_BYTES} bytes")
    return Upload(header.path, header.length_bytes, header.sha256, None)


def file_info(path: str, info: FileInfo) -> file_pb2.FileInfo:
    """What is at a path."""
    changed = Timestamp()
    changed.FromNanoseconds(info.mtime_ns)
    return file_pb2.FileInfo(
        path=shown(path),
        kind=_KINDS[info.type],
        size_bytes=info.size_bytes if info.type == "file" else 0,
        mode=info.mode,
        modify_time=changed,
        link_target=shown(info.target or ""),
    )


def page_token(name: str) -> str:
    """What asks for the entries after this one, whose name may be no text."""
    return quote(name, errors="surrogateescape")


def after(token: str) -> str:
    """The name of the last entry of the page before."""
    return unquote(token, errors="surrogateescape")


def shown(path: str) -> str:
    """A path as text; what of it is no UTF-8 is U+FFFD."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
