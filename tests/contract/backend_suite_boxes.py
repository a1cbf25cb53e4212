"""What every backend promises of boxes: made, found, reached again, gone when destroyed."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from executor_service.backends.base import WorkspacePlace
from executor_service.errors import BackendError, BoxCreateFailed, BoxLost, LinkClosed, LinkRefused
from executor_service.link.exec_handle import ExecHandle
from executor_service.link.link import Hello, open_link
from executor_service.supervisor.frames import MAX_DATA_BYTES, WINDOW_BYTES
from tests.support.boxes import SECRET, Recorder, Yard, odd_seconds, open_console, refuse


class BoxSuite:
    """Run against each backend by tests/contract/test_backends.py."""

    async def test_the_probe_says_what_it_is(self, yard: Yard) -> None:
        capabilities = await yard.backend.probe()
        assert capabilities.available
        assert capabilities.name
        assert capabilities.reason
        assert capabilities.pty

    async def test_a_box_is_as_it_was_ordered(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            assert box.pool == "test"
            assert box.backend == (await yard.backend.probe()).name
            folder = await console.output("pwd")
            assert folder == (await console.output("pwd", cwd="/workspace"))
            if yard.is_apart:
                assert folder == "/workspace"
            else:
                assert Path(folder).name == box.workspace.name
            assert await console.output("echo hello > made-inside; cat made-inside") == "hello"

    async def test_a_workspace_is_the_folder_where_it_is_said_to_be_here(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            await asyncio.to_thread((box.workspace / "made-outside").write_text, "hello")
            await console.output("echo back > made-inside")
            seen_inside = await console.output("ls")
            seen_outside = await asyncio.to_thread(_names_in, box.workspace)
        both = ["made-inside", "made-outside"]
        assert (seen_inside.split() == both) == yard.has_folders
        assert (seen_outside == both) == yard.has_folders

    async def test_a_workspace_outlives_its_box_where_it_is_said_to(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box) as console:
            await console.output("echo kept > file; mkdir -p some/folder")
        is_kept = yard.capabilities.workspaces is not WorkspacePlace.IN_BOX
        async with (
            yard.box(workspace=box.workspace) as later,
            open_console(yard.backend, later) as console,
        ):
            left = await console.output("find . -mindepth 1 | sort; cat file 2>&1 || true")
            assert (left.split() == ["./file", "./some", "./some/folder", "kept"]) == is_kept

    async def test_a_missing_folder_is_an_error_where_it_would_be_the_workspace(
        self, yard: Yard
    ) -> None:
        spec = await asyncio.to_thread(yard.spec)
        await asyncio.to_thread(spec.workspace.rmdir)
        if yard.has_folders:
            with pytest.raises(BoxCreateFailed):
                await yard.backend.create(spec)
        else:
            await yard.backend.destroy(await yard.backend.create(spec))
        assert not [box for box in await yard.backend.list_boxes() if box.key == spec.box_key]

    async def test_boxes_are_listed_by_another_process_s_backend(
        self, yard: Yard, other: Yard
    ) -> None:
        async with yard.box() as box:
            found = {one.key: one for one in await other.backend.list_boxes()}[box.key]
            assert (found.pool, found.workspace) == (box.pool, box.workspace)
            async with open_console(other.backend, found) as console:
                assert await console.output("echo adopted") == "adopted"

    async def test_another_owner_neither_sees_nor_ends_a_box(self, yard: Yard) -> None:
        # An owner elsewhere has notes of its own; here a home may have got another owner.
        place = yard.folder / ("backend" if yard.has_folders else "theirs")
        stranger = await asyncio.to_thread(yard.make, "somebody-else", place)
        async with yard.box() as box, open_console(yard.backend, box) as console:
            assert box.key not in [one.key for one in await stranger.list_boxes()]
            with suppress(BackendError):
                await stranger.destroy(box)
            assert await console.output("echo unharmed") == "unharmed"
            assert box.key in [one.key for one in await yard.backend.list_boxes()]
        await stranger.close()

    async def test_destroyed_means_gone(self, yard: Yard) -> None:
        async with yard.box() as box:
            async with open_console(yard.backend, box) as console:
                recorder = await console.shell("setsid sleep 12345 & sleep 12345")
                await yard.backend.destroy(box)
                assert isinstance(await console.link.wait_ended(), LinkClosed)
            assert isinstance(recorder.errors[0], LinkClosed)
            assert box.key not in [one.key for one in await yard.backend.list_boxes()]
            with pytest.raises(BoxLost):
                await yard.backend.connect(box)
            await yard.backend.destroy(box)

    async def test_a_link_with_a_wrong_secret_is_refused(self, yard: Yard) -> None:
        async with yard.box() as box:
            hello = Hello(box.key, "guessed", 99)
            with pytest.raises(LinkRefused, match="WRONG_SECRET"):
                async with open_link(await yard.backend.connect(box), hello, refuse):
                    pass
            hello = Hello("another_box", SECRET, 99)
            with pytest.raises(LinkRefused, match="WRONG_BOX"):
                async with open_link(await yard.backend.connect(box), hello, refuse):
                    pass

    async def test_the_highest_epoch_wins(self, yard: Yard) -> None:
        async with yard.box() as box, open_console(yard.backend, box, epoch=5) as first:
            with pytest.raises(LinkRefused, match="STALE_EPOCH"):
                async with open_console(yard.backend, box, epoch=4):
                    pass
            assert await first.output("echo still here") == "still here"
            async with open_console(yard.backend, box, epoch=6) as second:
                assert isinstance(await first.link.wait_ended(), LinkClosed)
                assert await second.output("echo mine") == "mine"
            with pytest.raises(LinkRefused, match="STALE_EPOCH"):
                async with open_console(yard.backend, box, epoch=5):
                    pass

    async def test_commands_outlive_the_link_and_lose_no_output(self, yard: Yard) -> None:
        """The link dies three times while numbers are counted; each number comes exactly once."""
        async with yard.box() as box:
            async with open_console(yard.backend, box) as console:
                script = "i=0; while [ $i -lt 60000 ]; do echo $i; i=$((i+1)); done; echo end >&2"
                recorder = await console.shell(script, exec_id="exc_count")
                await recorder.until(lambda r: len(r.received[1]) > 2000)
            for _ in range(3):
                kept = recorder
                recorder = await self._resumed(yard, box.key, kept)
                kept.received[1] += recorder.received[1]
                kept.received[2] += recorder.received[2]
                recorder.received = kept.received
            assert recorder.command.exit is not None
            assert recorder.stdout == "".join(f"{n}\n" for n in range(60000))
            assert recorder.stderr == "end\n"

    async def _resumed(self, yard: Yard, key: str, before: Recorder) -> Recorder:
        """One more link, cut soon unless the command has ended; begins where the last one ended."""
        adopted: list[Recorder] = []

        def adopt(command: ExecHandle) -> Recorder:
            adopted.append(Recorder(command))
            return adopted[0]

        box = {one.key: one for one in await yard.backend.list_boxes()}[key]
        acked = {"exc_count": (len(before.received[1]), len(before.received[2]))}
        async with open_console(yard.backend, box, adopt=adopt, acked=acked) as console:
            assert list(console.link.commands) == ["exc_count"]
            resumed = adopted[0]
            assert resumed.command.state.acked[0] == acked["exc_count"][0]
            enough = len(before.received[1]) + 50_000
            await resumed.until(
                lambda r: r.command.exit is not None or len(r.received[1]) > enough, timeout_s=30
            )
        return resumed

    @pytest.mark.parametrize("windows", [1, 3], ids=["has ended", "runs"])
    async def test_what_is_safe_already_makes_room_for_the_rest(
        self, yard: Yard, windows: int
    ) -> None:
        """The first executor has stored all that it got, and died before it could say so."""
        size = windows * WINDOW_BYTES
        adopted: list[Recorder] = []

        def adopt(command: ExecHandle) -> Recorder:
            adopted.append(Recorder(command))
            return adopted[0]

        async with yard.box() as box:
            async with open_console(yard.backend, box) as console:
                script = f"head -c {size} /dev/zero; sleep 0.1; echo end >&2"
                first = await console.shell(script, exec_id="exc_a", acknowledges=False)
                await first.until(lambda r: r.received_bytes >= WINDOW_BYTES - MAX_DATA_BYTES)
                await asyncio.sleep(0.3)
                assert (first.command.exit, first.stderr) == (None, "")
            stored = first.received_bytes
            acked = {"exc_a": (stored, 0)}
            async with open_console(yard.backend, box, adopt=adopt, acked=acked):
                exit_ = await adopted[0].exit(timeout_s=10)
                assert (exit_.code, exit_.totals[0]) == (0, size)
                assert len(adopted[0].received[1]) == size - stored
                assert adopted[0].stderr == "end\n"

    async def test_the_exit_of_a_command_that_ended_unwatched_is_kept(self, yard: Yard) -> None:
        async with yard.box() as box:
            async with open_console(yard.backend, box) as console:
                await console.shell("echo early; read line; exit 7", exec_id="exc_a", stdin=True)
            recorders: list[Recorder] = []

            def adopt(command: ExecHandle) -> Recorder:
                recorders.append(Recorder(command))
                return recorders[-1]

            async with open_console(yard.backend, box, adopt=adopt) as console:
                recorder = recorders[0]
                await recorder.command.write_stdin(0, b"go\n")
                exit_ = await recorder.exit()
                assert (exit_.code, recorder.stdout) == (7, "early\n")
            async with open_console(yard.backend, box, adopt=adopt) as console:
                again = await recorders[1].exit()
                assert again.code == 7
                recorders[1].command.forget()
                await console.link.ping(5)
            async with open_console(yard.backend, box, adopt=adopt) as console:
                assert not console.link.commands

    async def test_a_command_that_nobody_adopts_is_ended(self, yard: Yard) -> None:
        seconds = odd_seconds()
        async with yard.box() as box:
            async with open_console(yard.backend, box) as console:
                await console.shell(f"sleep {seconds}", exec_id="exc_orphan")
            async with open_console(yard.backend, box) as console:
                for _ in range(200):
                    if "exc_orphan" not in console.link.commands:
                        break
                    await asyncio.sleep(0.05)
                else:
                    pytest.fail("the command runs on")
                assert seconds not in await console.output("cat /proc/*/cmdline | tr '\\0' ' '")

    async def test_boxes_do_not_see_each_other(self, yard: Yard) -> None:
        async with (
            yard.box() as one,
            yard.box() as other,
            open_console(yard.backend, one) as first,
            open_console(yard.backend, other) as second,
        ):
            seconds = odd_seconds()
            await first.output("echo secret > ${TMPDIR:-/tmp}/mark; echo secret > mark")
            await first.shell(f"exec sleep {seconds}")
            assert "mark" not in await second.output("ls ${TMPDIR:-/tmp} .")
            seen = await second.output("cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '")
            assert (seconds not in seen) == yard.is_apart

    async def test_the_executor_s_environment_is_not_in_the_box(
        self, yard: Yard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HERMES_PLANTED_SECRET", "canary-7f3a")
        async with yard.box() as box, open_console(yard.backend, box) as console:
            script = "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; env"
            recorder = await console.run(script)
            assert "PATH=" in recorder.stdout
            assert "canary" not in recorder.stdout

    async def test_many_boxes_at_a_time(self, yard: Yard) -> None:
        async def one() -> str:
            async with yard.box() as box, open_console(yard.backend, box) as console:
                return await console.output("hostname > name; echo $$ done")

        results = await asyncio.gather(*(one() for _ in range(6)))
        assert [result.split()[1] for result in results] == ["done"] * 6


def _names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
