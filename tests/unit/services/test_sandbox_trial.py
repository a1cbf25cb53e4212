"""What a sandbox is asked to reach, in `hermes sandboxes try --network-denied`."""

import socket
import subprocess
import sys

from services.cli.sandboxes.trial import PROBE


def test_what_is_reached_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # without listening
        port, silent = there.getsockname()[1], nobody.getsockname()[1]
        places = [f"127.0.0.1 {port}", f"127.0.0.1 {silent}"]
        command = [sys.executable, "-c", PROBE, *places]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == places[:1]
