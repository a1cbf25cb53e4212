"""Processes that are forked with their imports done, for tests that wait without an event loop."""

import os
import select
import subprocess
from collections.abc import Sequence
from typing import Any

from services.cli.main import COMMANDS, module_of
from tests.support.forks import Program, Request, ask

_EARLY = (
    *map(module_of, COMMANDS),
    "services.cli.failures",
    *(f"{name}_service.app" for name in ("agent", "executor", "gateway", "scheduler")),
    "agent_service.assembly.checks",
    "executor_service.servicer.checks",
    "gateway_service.accounts.checks",
    # What they import when they first need it.
    "aiohttp",
    "apscheduler.triggers.cron",
    "executor_service.backends.bubblewrap.backend",
    "executor_service.backends.docker.backend",
    "httpx2",
    "rich.progress",
    "rich.syntax",
    "services.rpc.certs",
    "telegram.ext",
)


def hermes(arguments: Sequence[object]) -> Program:
    """The `hermes` command, with all imported that its subcommands do."""
    return Program("services.cli.main", tuple(map(str, arguments)), early=_EARLY)


class ForkedPopen(subprocess.Popen[str]):
    """A `subprocess.Popen` of a program of ours, with a working directory and an environment.

    The process is a child of the one that forks, which tells of its end: the three methods
    below are those in which Popen makes a child of its own and waits for it.
    """

    def __init__(self, program: Program, **options: Any) -> None:
        command: Any = program
        super().__init__(command, **options)

    def _execute_child(self, program: Program, *options: Any) -> None:
        folder, environ, leads_session = options[4], options[5], options[20]
        stdin, _, _, stdout, _, stderr = ends = options[9:15]
        reading, writing = os.pipe()
        given = [fd if fd >= 0 else standard for standard, fd in enumerate((stdin, stdout, stderr))]
        request = Request(program, dict(environ), str(folder), leads_session)
        ask(request, (given[0], given[1], given[2], writing))
        os.close(writing)
        itself: Any = self
        itself._close_pipe_fds(*ends)
        self._told = os.fdopen(reading, "rb", 0)
        self.pid = int(self._told.readline())
        self._child_created = True

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        itself: Any = self
        if self.returncode is None and itself._waitpid_lock.acquire(blocking=False):
            try:
                ended, status = self._try_wait(os.WNOHANG)
                if ended:
                    itself._handle_exitstatus(status)
            finally:
                itself._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """Its id and what waitpid says of its end; zeros while it runs."""
        if flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        code = int(self._told.readline())
        self._told.close()
        return self.pid, -code if code < 0 else code << 8
