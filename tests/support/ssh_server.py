"""A real OpenSSH server on this machine's loopback, for one account that is not root."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from executor_service.config import SshConfig
from executor_service.supervisor.processes import Process, descendants_of
from tests.support.ports import free_port
from tests.support.requirements import require

_UNPRIVILEGED_UID = 1000
_CONFIG = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
MaxStartups 100
"""


@dataclass(slots=True)
class SshServer:
    """The server, and how it is reached."""

    folder: Path
    port: int
    account: pwd.struct_passwd
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def options(self) -> SshConfig:
        """An account of this machine, as if it were another."""
        return SshConfig(
            host="127.0.0.1",
            port=self.port,
            user=self.account.pw_name,
            key=str(self.folder / "user_key"),
            known_hosts=str(self.folder / "known_hosts"),
            folder=str(self.folder / "kept"),
        )

    @property
    def environ(self) -> dict[str, str]:
        """The settings of an executor that uses it, as environment variables."""
        options = self.options
        return {
            "HERMES_SSH_HOST": options.host,
            "HERMES_SSH_PORT": str(options.port),
            "HERMES_SSH_USER": options.user,
            "HERMES_SSH_KEY": options.key,
            "HERMES_SSH_KNOWN_HOSTS": options.known_hosts,
            "HERMES_SSH_FOLDER": options.folder,
        }

    def know(self, key: str) -> None:
        """Have known_hosts say that the server has this key."""
        line = f"[127.0.0.1]:{self.port} {(self.folder / f'{key}.pub').read_text()}"
        (self.folder / "known_hosts").write_text(line)

    def fingerprint(self, key: str = "host_key") -> str:
        """A key's fingerprint as OpenSSH writes it."""
        show = ["ssh-keygen", "-l", "-f", str(self.folder / f"{key}.pub")]
        return subprocess.run(show, check=True, capture_output=True, text=True).stdout.split()[1]

    def answers(self) -> bool:
        """Whether it takes connections."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def start(self, *settings: str) -> None:
        """Start it, with lines for its configuration, and wait until it listens."""
        config = _CONFIG.format(folder=self.folder, port=self.port)
        (self.folder / "sshd.conf").write_text("\n".join((config, *settings)))
        is_root = os.geteuid() == 0
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_sshd(), "-D", "-e", "-f", str(self.folder / "sshd.conf")],
                stderr=log,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
                user=self.account.pw_uid if is_root else None,
                group=self.account.pw_gid if is_root else None,
                extra_groups=[] if is_root else None,
            )
        for _ in range(1000):  # a busy machine takes seconds
            if self.answers():
                return
            time.sleep(0.02)
        raise AssertionError((self.folder / "log").read_text())

    def connections(self) -> int:
        """How many connections it has."""
        children = [process for process in self._processes() if process.parent == self._pid]
        return len(children)

    def cut(self) -> None:
        """Break all connections."""
        for process in self._processes():
            # One of its own, of which each connection has two, and no command of a client.
            with suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{process.pid}/comm").read_text().startswith("sshd"):
                    os.kill(process.pid, signal.SIGKILL)

    def _processes(self) -> list[Process]:
        return descendants_of(self._pid)

    @property
    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Break all connections and take no more."""
        if self._process is not None:
            self.cut()
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def ssh_server(account: pwd.struct_passwd | None = None) -> Generator[SshServer]:
    """A server for the time of the block, for an ordinary user if no account is given; skipped
    where OpenSSH is not installed."""
    programs = [shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("sshd", "ssh-keygen")]
    require("ssh", all(programs), "openssh-server is not installed")
    account = account or _account()
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-"))
    try:
        for name in ("host_key", "other_host_key", "user_key", "other_user_key"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(make, check=True)
        server = SshServer(folder, free_port(), account)
        server.know("host_key")
        for path in (folder, *folder.iterdir()):
            os.chown(path, account.pw_uid, account.pw_gid)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _sshd() -> str:
    return shutil.which("sshd", path="/usr/sbin:/usr/bin") or "sshd"


def _account() -> pwd.struct_passwd:
    """Who logs in: whoever runs the tests, and where that is root an ordinary user."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    with suppress(KeyError):
        return pwd.getpwuid(_UNPRIVILEGED_UID)
    name = "hermes-test"
    subprocess.run(
        [
            "useradd",
            "--uid",
            str(_UNPRIVILEGED_UID),
            "--no-create-home",
            "--shell",
            "/bin/sh",
            name,
        ],
        check=True,
    )
    return pwd.getpwuid(_UNPRIVILEGED_UID)
