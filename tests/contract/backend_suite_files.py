"""What every backend promises of files: whole or not at all, and never through a trick."""

import hashlib
import os

import pytest

from executor_service.backends.base import Enforcement
from executor_service.errors import FileRefused
from executor_service.records.sandboxes import Isolation
from tests.support.boxes import SMALL, Console, Yard

MANY = 2500


async def put(
    console: Console, path: str, data: bytes, mode: int | None = None, parents: bool = False
) -> None:
    """Upload a file."""
    async with console.link.files.upload(path, mode, parents) as upload:
        await upload.write(data)
        await upload.commit(len(data), hashlib.sha256(data).hexdigest())


async def get(console: Console, path: str, offset: int = 0, length: int | None = None) -> bytes:
    """Download a file."""
    async with console.link.files.download(path, offset, length) as download:
        return b"".join([bytes(chunk) async for chunk in download])


class FileSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    async def test_there_and_back(self, console: Console) -> None:
        data = os.urandom(3_000_001)
        await put(console, "data.bin", data)
        assert await get(console, "/workspace/data.bin") == data
        assert await get(console, "data.bin", offset=3_000_000) == data[-1:]
        assert await get(console, "data.bin", offset=10, length=100_000) == data[10:100_010]
        assert await get(console, "data.bin", offset=4_000_000) == b""
        assert await console.output("sha256sum < data.bin") == (
            hashlib.sha256(data).hexdigest() + "  -"
        )

    async def test_an_empty_file(self, console: Console) -> None:
        await put(console, "empty", b"")
        assert await get(console, "empty") == b""
        assert (await console.link.files.stat("empty")).size_bytes == 0

    async def test_modes_and_parents(self, console: Console) -> None:
        await put(console, "deep/er/script", b"#!/bin/sh\necho ran\n", mode=0o755, parents=True)
        assert await console.output("deep/er/script") == "ran"
        await put(console, "deep/er/script", b"#!/bin/sh\necho again\n")
        assert await console.output("deep/er/script") == "again"
        assert (await console.link.files.stat("deep/er/script")).mode == 0o755
        await put(console, "setuid", b"", mode=0o4777)
        assert (await console.link.files.stat("setuid")).mode == 0o777

    async def test_an_upload_that_is_not_right_leaves_nothing(self, console: Console) -> None:
        await put(console, "kept", b"old")
        async with console.link.files.upload("kept") as upload:
            await upload.write(b"new")
            with pytest.raises(FileRefused) as refused:
                await upload.commit(3, hashlib.sha256(b"other").hexdigest())
        assert refused.value.code == "DIGEST_MISMATCH"
        async with console.link.files.upload("kept") as upload:
            await upload.write(b"new")
        await console.link.ping(5)
        assert await get(console, "kept") == b"old"
        assert ".part" not in await console.output("ls -A")

    async def test_an_upload_through_a_link_changes_its_target(self, console: Console) -> None:
        await console.output("mkdir -p a b; echo old > a/real; ln -sf ../a/real b/link")
        await put(console, "b/link", b"new")
        assert await console.output("cat a/real; readlink b/link") == "new../a/real"

    async def test_an_upload_over_a_hard_link_changes_only_its_own_name(
        self, console: Console
    ) -> None:
        await console.output("echo kept > first; ln first second")
        await put(console, "second", b"new")
        assert await console.output("cat first second") == "kept\nnew"

    async def test_what_can_be_looked_at(self, console: Console) -> None:
        await console.output("mkdir -p look; echo 12345 > look/file; ln -sf file look/link")
        files = console.link.files
        assert (await files.stat("look")).type == "directory"
        assert (await files.stat("look/file")).size_bytes == 6
        link = await files.stat("look/link")
        assert (link.type, link.target) == ("symlink", "file")
        assert (await files.stat("look/link", follow=True)).type == "file"
        assert (await files.stat("/")).type == "directory"
        assert (await files.stat("/dev/null")).type == "other"

    async def test_folders_page_by_page(self, console: Console) -> None:
        await console.output(
            f"mkdir -p many; cd many; i=0; while [ $i -lt {MANY} ]; do : > f$i; i=$((i+1)); done"
        )
        names: list[str] = []
        page = await console.link.files.list_directory("many", limit=400)
        pages = 1
        while True:
            names += [entry.name for entry in page.entries]
            if not page.more:
                break
            page = await console.link.files.list_directory("many", after=names[-1])
            pages += 1
        assert names == sorted(f"f{i}" for i in range(MANY))
        assert pages > 2
        await console.link.files.remove("many", recursive=True)

    async def test_moving(self, console: Console) -> None:
        files = console.link.files
        await put(console, "from", b"1")
        await put(console, "taken", b"2")
        with pytest.raises(FileRefused) as refused:
            await files.move("from", "taken")
        assert refused.value.code == "ALREADY_EXISTS"
        await files.move("from", "taken", overwrite=True)
        assert await get(console, "taken") == b"1"
        await console.output("mkdir -p some/where")
        await files.move("taken", "some/where/else")
        assert await get(console, "some/where/else") == b"1"

    async def test_removing(self, console: Console) -> None:
        files = console.link.files
        await console.output("mkdir -p tree/a/b/c keep; touch tree/x tree/a/y keep/z")
        await console.output("ln -sfn ../../keep tree/a/link")
        with pytest.raises(FileRefused) as refused:
            await files.remove("tree")
        assert refused.value.code == "NOT_EMPTY"
        await files.remove("tree", recursive=True)
        assert await console.output("ls; ls keep") != ""
        assert "z" in await console.output("ls keep")
        with pytest.raises(FileRefused) as refused:
            await files.remove("tree")
        assert refused.value.code == "NOT_FOUND"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("missing", "NOT_FOUND"),
            ("/etc", "IS_A_DIRECTORY"),
            ("/etc/passwd/x", "NOT_A_DIRECTORY"),
            ("/dev/zero", "NOT_A_FILE"),
            ("fifo", "NOT_A_FILE"),
            ("socket", "NOT_A_FILE"),
            ("nul\0byte", "INVALID_PATH"),
            ("", "INVALID_PATH"),
            ("n" * 256, "NAME_TOO_LONG"),
            ("d/" * 2100, "NAME_TOO_LONG"),
            ("loop", "LINK_REFUSED"),
            ("/proc/self/fd/0", "LINK_REFUSED"),
            ("/proc/self/root/etc/passwd", "LINK_REFUSED"),
            ("/proc/self/exe", "LINK_REFUSED"),
            ("to-magic", "LINK_REFUSED"),
            ("/proc/1/environ", "PERMISSION_DENIED"),
            ("\ud800", "INVALID_PATH"),
        ],
    )
    async def test_what_cannot_be_read(
        self, console: Console, yard: Yard, path: str, code: str
    ) -> None:
        await console.output(
            "test -e fifo || { mkfifo fifo; ln -s loop loop; ln -s /proc/self/fd/0 to-magic; "
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'; }"
        )
        is_userspace = yard.capabilities.isolation is Isolation.USERSPACE_KERNEL
        if path == "/proc/1/environ" and is_userspace:
            # gVisor's kernel shows these to the same user, and there is nothing to hide.
            names = await console.output(f"tr '\\0' '\\n' 2>/dev/null < {path} | cut -d= -f1")
            assert set(names.split()) <= {"HOME", "HOSTNAME", "LANG", "PATH"}
            return
        with pytest.raises(FileRefused) as refused:
            await get(console, path)
        assert refused.value.code == code

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("/etc/hermes", None),
            ("/usr/bin/hermes", None),
            ("/workspace", None),
            ("..", "INVALID_PATH"),
            ("/", "INVALID_PATH"),
            ("missing/file", "NOT_FOUND"),
            ("fifo2", "NOT_A_FILE"),
            ("/proc/self/fd/x", None),
            ("/proc/self/cwd/x", "LINK_REFUSED"),
        ],
    )
    async def test_what_cannot_be_written(
        self, console: Console, path: str, code: str | None
    ) -> None:
        await console.output("test -e fifo2 || mkfifo fifo2")
        with pytest.raises(FileRefused) as refused:
            await put(console, path, b"x" * 100_000)
        if code is not None:
            assert refused.value.code == code

    async def test_a_full_disk_is_an_answer(self, console: Console, yard: Yard) -> None:
        folder = await console.output("echo ${TMPDIR:-/tmp}")
        too_much = b"x" * (SMALL.tmp_bytes + (8 << 20))
        if yard.capabilities.limits.tmp is Enforcement.NONE:
            await put(console, f"{folder}/big", too_much)
            await console.link.files.remove(f"{folder}/big")
        else:
            with pytest.raises(FileRefused) as refused:
                await put(console, f"{folder}/big", too_much)
            assert refused.value.code == "NO_SPACE"
        assert await console.output(f"ls -A {folder}") == ""

    async def test_a_link_that_is_swapped_all_the_time(self, console: Console) -> None:
        """Whatever is read is one of the two files, and never by way of a magic link."""
        await console.output("mkdir -p s/a s/b; echo a > s/a/f; echo b > s/b/f")
        swapper = await console.shell(
            "cd s; while :; do ln -sfn a now; ln -sfn b now; ln -sfn /proc/self/root/etc now; done"
        )
        seen: set[bytes] = set()
        refused = 0
        for _ in range(300):
            try:
                seen.add(await get(console, "s/now/f"))
            except FileRefused:
                refused += 1
        swapper.command.cancel(grace_s=0)
        await swapper.exit()
        assert seen
        assert seen <= {b"a\n", b"b\n"}
        assert refused

    async def test_leaving_a_download_early(self, console: Console) -> None:
        await console.output("head -c 8000000 /dev/zero > zeros")
        async with console.link.files.download("zeros") as download:
            async for chunk in download:
                assert len(chunk) > 0
                break
        assert await console.output("echo fine") == "fine"
        async with console.link.files.download("zeros") as download:
            assert sum([len(chunk) async for chunk in download]) == 8_000_000
            assert download.info is not None
            assert download.info.size_bytes == 8_000_000
