"""Ports of loopback for servers that a test starts, ends and starts again."""

import random
import socket

_CHOICES = range(20_000, 32_000)
"""Below those that Linux gives to whoever asks for any, such as each connection that goes out."""


def free_port() -> int:
    """Return a port on loopback that nobody listens on."""
    while True:
        port = random.SystemRandom().choice(_CHOICES)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
