"""The executor's end of the program that starts boxes."""

import marshal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from executor_service.backends.bubblewrap import launch


class Launcher:
    """Runs the program from the first box on. All methods block for a moment."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._program: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self, request: dict[str, Any], fds: Sequence[int]) -> int:
        """Start the process of a box and return its id, or raise OSError."""
        words = marshal.dumps(request)
        with self._asking:
            try:
                asked = self._socket or self._open()
                socket.send_fds(asked, [words], fds)
            except OSError:  # the program was killed
                self._end()
                asked = self._open()
                socket.send_fds(asked, [words], fds)
            # Without an answer, the box may have begun: a second one would share its sockets.
            answer = asked.recv(16)
            if not answer:
                raise OSError("the program that starts boxes has ended")
            return int(answer)

    def close(self) -> None:
        """End the program; the boxes live on."""
        with self._asking:
            self._end()

    def _open(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._program = subprocess.Popen(
                [sys.executable, "-I", "-S", launch.__file__],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={},
            )
        return self._socket

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._program is not None:
            self._program.wait()
        self._socket = self._program = None
