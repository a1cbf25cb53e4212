"""The Docker engine of this machine behind a real OpenSSH server, as if it were another's."""

import os
import pwd
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.requirements import require
from tests.support.ssh_server import ssh_server

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
    url: str
    """What `executor.docker.host` is."""


@contextmanager
def ssh_to_engine() -> Generator[SshToEngine]:
    """A server that lets this user in with a key of its own."""
    account, ssh = pwd.getpwuid(os.geteuid()), shutil.which("ssh")
    require("ssh", ssh is not None, "openssh-client is not installed")
    with suppress(PermissionError):
        Path("/run/sshd").mkdir(exist_ok=True)
    with ssh_server(account) as server:
        folder = server.folder
        (folder / "user_key").rename(folder / "id_ed25519")
        (folder / "config").write_text(_CLIENT.format(folder=folder))
        yield SshToEngine(folder, str(ssh), f"ssh://{account.pw_name}@127.0.0.1:{server.port}")
