"""An executor that makes a box, starts a command in it, and is killed."""

import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
IMPORTS = (str(REPOSITORY), str(REPOSITORY / "protos" / "gen"), sysconfig.get_path("purelib"))
COUNT = "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.03; done; exit 5"

# Makes a box, starts a command that counts, prints what was made, and waits to be killed.
PROGRAM = """
import asyncio, hashlib, sys
from pathlib import Path
sys.path[:0] = sys.argv[1].split(":")
from executor_service.backends.base import MIB, BoxSpec, Limits
from executor_service.link.link import Hello, open_link
from executor_service.link.messages import StartCommand
from executor_service.backends.supervisor_zipapp import build_zipapp
exec(sys.argv[5])

class Sink:
    def __init__(self, command): self.command, self.data = command, b""
    def output(self, fd, offset, data):
        self.data += data
        if self.data.count(b"\\n") >= 3: print("counted", flush=True)

async def main(folder, owner):
    workspace = folder / "workspace"
    workspace.mkdir()
    backend = Backend(owner, folder / "backend", build_zipapp())
    capabilities = await backend.probe()
    print(capabilities, flush=True)
    limits = Limits(memory_bytes=256 * MIB, pids=40, tmp_bytes=MIB)
    digest = hashlib.sha256(b"secret").hexdigest()
    spec = BoxSpec(
        "box_of_the_dead", owner, "p", workspace, limits, secret_sha256=digest
    )
    box = await backend.create(spec)
    hello = Hello(box.key, "secret", 1)
    async with open_link(await backend.connect(box), hello, lambda command: None) as link:
        script = sys.argv[4]
        await link.start(StartCommand("exc_1", ("/bin/sh", "-c", script)), Sink)
        await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[2]), sys.argv[3]))
"""


@dataclass(frozen=True, slots=True)
class DyingExecutor:
    """One process; its box is box_of_the_dead and its command exc_1."""

    backend: str
    """Python that makes Backend a class, or what is called like one."""
    folder: Path
    owner: str
    python: str = sys.executable
    user: int | None = None
    through: tuple[str, ...] = ()
    """A program that runs it."""

    def run(self, script: str = COUNT, last: str = "counted", after_s: float = 0.0) -> str:
        """Run it until it says so, usually that its command has counted to three, and then
        kill -9 after a while; what it printed."""
        arguments = (":".join(IMPORTS), str(self.folder), self.owner, script, self.backend)
        process = subprocess.Popen(
            [*self.through, self.python, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user is not None else None,
        )
        assert process.stdout is not None
        printed = ""
        try:
            for line in process.stdout:
                printed += line
                if line.startswith(last):
                    break
            time.sleep(after_s)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        assert last in printed, printed
        return printed
