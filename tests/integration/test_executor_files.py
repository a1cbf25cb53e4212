"""Files of sandboxes over FileService, on every backend."""

import hashlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio

from hermes.executor.v1 import file_pb2, sandbox_pb2
from services.errors import Reason
from tests.support.boxes import BUBBLEWRAP_FIRST
from tests.support.executor_client import Client
from tests.support.executors import Executor, end_boxes, executor_settings, refused, serving, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

MIB = 1024 * 1024
Info = file_pb2.FileInfo


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BUBBLEWRAP_FIRST)
async def executor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Executor]:
    """One executor for all tests of a backend."""
    settings = executor_settings(tmp_path_factory.mktemp("home"), request.param)
    async with serving(settings) as running:
        yield running
    await end_boxes(settings)


class Files:
    """The files of one sandbox."""

    def __init__(self, client: Client, lease: sandbox_pb2.Lease) -> None:
        self.client = client
        self.lease = lease

    async def write(self, path: str, data: bytes, **changes: Any) -> Info:
        digest = hashlib.sha256(data).digest()
        fields: dict[str, Any] = {"length_bytes": len(data), "sha256": digest, **changes}
        header = file_pb2.UploadFileRequest.Header(lease=self.lease, path=path, **fields)
        chunks = (data[start : start + 32_768] for start in range(0, len(data), 32_768))
        return await self.send(header, chunks)

    async def send(
        self, header: file_pb2.UploadFileRequest.Header, chunks: Iterable[bytes]
    ) -> Info:
        messages = [file_pb2.UploadFileRequest(header=header)]
        messages += [file_pb2.UploadFileRequest(chunk=chunk) for chunk in chunks]
        return (await self.client.files.UploadFile(iter(messages))).file

    async def read(self, path: str, offset: int = 0, length: int = 0) -> tuple[Info, bytes]:
        request = file_pb2.DownloadFileRequest(
            lease=self.lease, path=path, offset=offset, length_bytes=length
        )
        messages = [message async for message in self.client.files.DownloadFile(request)]
        assert all(len(message.chunk) <= 32_768 for message in messages)
        data, end = b"".join(message.chunk for message in messages), messages[-1].end
        assert (end.length_bytes, end.sha256) == (len(data), hashlib.sha256(data).digest())
        return messages[0].file, data

    async def stat(self, path: str) -> Info:
        request = file_pb2.StatPathRequest(lease=self.lease, path=path)
        return (await self.client.files.StatPath(request)).file

    async def list(self, path: str, size: int = 0, token: str = "") -> tuple[list[Info], str]:
        request = file_pb2.ListDirectoryRequest(
            lease=self.lease, path=path, page_size=size, page_token=token
        )
        answer = await self.client.files.ListDirectory(request)
        return list(answer.entries), answer.next_page_token

    async def move(self, source: str, target: str, overwrite: bool = False) -> None:
        request = file_pb2.MovePathRequest(
            lease=self.lease, source_path=source, target_path=target, overwrite=overwrite
        )
        await self.client.files.MovePath(request)

    async def remove(self, path: str, recursive: bool = False) -> None:
        request = file_pb2.RemovePathRequest(lease=self.lease, path=path, recursive=recursive)
        await self.client.files.RemovePath(request)

    async def run(self, script: str) -> str:
        return await self.client.output(self.lease, script)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def files(executor: Executor) -> AsyncIterator[Files]:
    async with executor.client() as client:
        yield Files(client, (await client.acquire()).lease)


@pytest.mark.parametrize("size", [0, 9 * MIB])
async def test_a_file_comes_back_as_it_was_written(files: Files, size: int) -> None:
    data = hashlib.shake_128(b"%d" % size).digest(size)
    written = await files.write(f"made/on/the/way/{size}", data)
    assert (written.size_bytes, written.mode, written.kind) == (
        size,
        0o644,
        file_pb2.FILE_KIND_FILE,
    )
    info, read = await files.read(f"/workspace/made/on/the/way/{size}")
    assert read == data
    assert (info.size_bytes, info.path) == (size, f"/workspace/made/on/the/way/{size}")
    digest = await files.run(f"sha256sum < made/on/the/way/{size}")
    assert digest.split()[0] == hashlib.sha256(data).hexdigest()


async def test_a_part_of_a_file_and_its_rights(files: Files) -> None:
    await files.write("digits", b"0123456789", mode=0o600)
    assert (await files.read("digits", 3, 4))[1] == b"3456"
    assert await refused(files.read("digits", -1)) is Reason.INVALID_ARGUMENT
    assert await files.run("stat -c %a digits") == "600"
    assert await refused(files.write("script", b"x", mode=0o4755)) is Reason.INVALID_ARGUMENT


async def test_what_is_not_as_announced_is_not_written(files: Files) -> None:
    await files.write("kept", b"before")
    wrong: list[dict[str, Any]] = [
        {"sha256": hashlib.sha256(b"other").digest()},
        {"length_bytes": 4},
        {"length_bytes": 6},
    ]
    for changes in wrong:
        assert await refused(files.write("kept", b"after", **changes)) is Reason.DIGEST_MISMATCH
    assert await refused(files.write("kept", b"x", sha256=b"short")) is Reason.INVALID_ARGUMENT
    large = files.write("kept", b"x", length_bytes=64 * MIB + 1)
    assert await refused(large) is Reason.LIMIT_EXCEEDED
    header = file_pb2.UploadFileRequest.Header(
        lease=files.lease, path="kept", length_bytes=40_000, sha256=b"0" * 32
    )
    assert await refused(files.send(header, [b"x" * 40_000])) is Reason.INVALID_ARGUMENT
    nothing = files.client.files.UploadFile(iter(()))
    assert await refused(nothing) is Reason.INVALID_ARGUMENT
    assert (await files.read("kept"))[1] == b"before"
    assert await files.run("find . -name '.hermes-*'") == ""


async def test_who_leaves_in_the_middle_leaves_nothing(files: Files) -> None:
    header = file_pb2.UploadFileRequest.Header(
        lease=files.lease, path="half", length_bytes=100_000, sha256=b"0" * 32
    )
    make: Any = files.client.files.UploadFile
    call = make()
    await call.write(file_pb2.UploadFileRequest(header=header))
    await call.write(file_pb2.UploadFileRequest(chunk=b"x" * 30_000))
    call.cancel()

    async def is_gone() -> bool:
        return await files.run("ls -A | grep -c '^half$\\|^.hermes-'; true") == "0"

    await until(is_gone)
    assert await refused(files.stat("half")) is Reason.NOT_FOUND


async def test_kinds_and_names_that_are_no_text_are_listed_page_by_page(files: Files) -> None:
    await files.run(
        "mkdir -p odd/folder; cd odd; mkfifo pipe;"
        r"touch $(printf 'a\377b') $(printf '\377'); ln -s $(printf 'to\377') link"
    )
    found: list[Info] = []
    token = ""
    while not found or token:
        page, token = await files.list("odd", size=1, token=token)
        found += page
    assert [(info.path, info.kind) for info in found] == [
        ("a\ufffdb", file_pb2.FILE_KIND_FILE),
        ("folder", file_pb2.FILE_KIND_DIRECTORY),
        ("link", file_pb2.FILE_KIND_SYMLINK),
        ("pipe", file_pb2.FILE_KIND_OTHER),
        ("\ufffd", file_pb2.FILE_KIND_FILE),
    ]
    assert (await files.stat("odd/link")).link_target == "to\ufffd"
    assert await refused(files.read("odd/missing")) is Reason.NOT_FOUND
    assert await refused(files.read("odd/pipe")) is Reason.PATH_INVALID


async def test_a_large_folder_comes_in_pages(files: Files) -> None:
    await files.run(
        "mkdir none many; cd many; seq -f a-file-with-a-long-name-%04.0f 1 2500 | xargs touch"
    )
    names: list[str] = []
    token, sizes = "", list[int]()
    while True:
        page, token = await files.list("many", token=token)
        names += [info.path for info in page]
        sizes.append(len(page))
        if not token:
            break
    assert names == [f"a-file-with-a-long-name-{n:04}" for n in range(1, 2501)]
    assert sizes == [1000, 1000, 500]
    page, token = await files.list("many", size=3)
    assert ([info.path[-1] for info in page], bool(token)) == (["1", "2", "3"], True)
    assert await refused(files.list("many", size=1001)) is Reason.INVALID_ARGUMENT
    assert await files.list("many/../none") == ([], "")


async def test_a_path_is_renamed_and_removed(files: Files) -> None:
    await files.run("mkdir -p names/folder; cd names; echo 1 > one; echo 2 > folder/two")
    assert await refused(files.move("names/one", "names/folder/two")) is Reason.PATH_INVALID
    await files.move("names/one", "/workspace/names/folder/two", overwrite=True)
    assert await files.run("cat names/folder/two; ls names") == "1\nfolder"
    assert await refused(files.remove("names")) is Reason.PATH_INVALID
    await files.remove("names", recursive=True)
    assert await refused(files.remove("names")) is Reason.NOT_FOUND
    await files.run("mkdir -p $(printf 'deep/%.0s' $(seq 250))")
    assert await refused(files.remove("deep", recursive=True)) is Reason.LIMIT_EXCEEDED
    await files.run("rm -r deep")
