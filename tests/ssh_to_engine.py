"""The Docker engine of this machine behind a real OpenSSH server, as if it were another's."""

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port
from tests.requirements import require

_SERVER = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/id_ed25519.pub
PidFile none
StrictModes no
UsePAM no
"""
_CLIENT = """
IdentityFile {folder}/id_ed25519
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
"""


@dataclass(frozen=True, slots=True)
class SshToEngine:
    """The server, and a folder with what its client needs."""

    folder: Path
    """Has config, id_ed25519 and known_hosts, as an account's .ssh."""
    ssh: str
    port: int

    @property
    def url(self) -> str:
        """What `executor.docker.host` is."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}"


@contextmanager
def ssh_to_engine() -> Generator[SshToEngine]:
    """A server that lets this user in with a key of its own."""
    programs = [shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("sshd", "ssh")]
    require("ssh", all(programs), "openssh-server is not installed")
    sshd, ssh = map(str, programs)
    folder, port = Path(tempfile.mkdtemp(prefix="hermes-test-")), free_port()
    for name in ("host_key", "id_ed25519"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
        )
    host_key = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (folder / "sshd.conf").write_text(_SERVER.format(folder=folder, port=port))
    (folder / "config").write_text(_CLIENT.format(folder=folder))
    with suppress(PermissionError):
        Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([sshd, "-D", "-f", str(folder / "sshd.conf")])
    try:
        _wait_for(port)
        yield SshToEngine(folder, ssh, port)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


def _wait_for(port: int) -> None:
    for _ in range(100):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError("sshd does not listen")
