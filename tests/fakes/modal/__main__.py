"""The server as a program: prints where it listens, then does what each line of input says.

    python -m tests.fakes.modal FOLDER

A line is a JSON object, answered by one: {"fail": "SandboxCreateV2", "status": "INTERNAL",
"times": 9}, {"end": "sb-…"}, {"kill_commands": true}, {"cut": true},
{"look": "sb-…"}. At the end of the input it ends every sandbox and itself.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

from grpclib import Status
from grpclib.events import RecvRequest, listen
from grpclib.server import Server
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.fakes.modal.cloud import Cloud, Fault
from tests.fakes.modal.control_plane import ControlPlane
from tests.fakes.modal.machine import obstacle
from tests.fakes.modal.played import Played
from tests.fakes.modal.router import Router


async def main(folder: Path) -> None:
    """Serve until the input ends."""
    cloud = Cloud(folder)
    router = Router(cloud)
    services = [Played(ModalClientBase, ControlPlane(cloud)), Played(TaskCommandRouterBase, router)]
    server = Server(services)
    listen(server, RecvRequest, cloud.check)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(sock=listener)
    cloud.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    _say({"url": cloud.url, "obstacle": obstacle()})
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    try:
        while line := await lines.readline():
            _say(await _obey(json.loads(line), cloud, router))
    finally:
        for one in cloud.living():
            await one.machine.end()
        server.close()


async def _obey(wish: dict[str, Any], cloud: Cloud, router: Router) -> dict[str, Any]:
    if name := wish.get("fail"):
        status = Status[wish["status"]]
        cloud.faults[name] = Fault(status, wish["times"], bool(wish.get("after")))
    if ident := wish.get("end"):
        await cloud.find(ident).machine.end()
    if wish.get("kill_commands"):
        for one in cloud.living():
            for command in one.machine.commands.values():
                command.kill()
    if wish.get("cut"):
        router.cut += 1
    return {
        "living": {one.machine.ident: one.tags for one in cloud.living()},
        "made": len(cloud.sandboxes),
        "called": cloud.called,
        "wanted": cloud.find(wish["look"]).machine.wanted() if "look" in wish else None,
    }


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
