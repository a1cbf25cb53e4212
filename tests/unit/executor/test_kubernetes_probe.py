"""Asking a cluster that fails while it is asked, over a real socket."""

import asyncio
from pathlib import Path

from executor_service.backends.kubernetes.api import Cluster
from executor_service.backends.kubernetes.probe import probe
from executor_service.config import KubernetesConfig

CONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: here}}}}]
users: [{{name: here, user: {{}}}}]
clusters: [{{name: here, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
"""
JSON = "Content-Type: application/json\r\nConnection: close\r\n"
VERSION = f'HTTP/1.1 200 OK\r\n{JSON}Content-Length: 18\r\n\r\n{{"gitVersion":"1"}}'
FAILED = f"HTTP/1.1 500 Oops\r\n{JSON}Content-Length: 2\r\n\r\n{{}}"


async def test_a_question_that_fails_leaves_no_others_waiting(tmp_path: Path) -> None:
    others, over = asyncio.Event(), asyncio.Event()
    reviews, ended = 0, list[asyncio.Future[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = asyncio.get_running_loop().create_future()
        ended.append(mine)
        try:
            await answer_one(reader, writer)
        except ConnectionError:
            pass  # who asked has gone
        finally:
            writer.close()
            mine.set_result(None)

    async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal reviews
        head = await reader.readuntil(b"\r\n\r\n")
        answer = VERSION
        if b"selfsubjectaccessreviews" in head:
            reviews, answer = reviews + 1, FAILED
            if reviews > 1:
                others.set()
                await over.wait()
            await others.wait()
        writer.write(answer.encode())
        await writer.drain()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        config = tmp_path / "kubeconfig"
        port = server.sockets[0].getsockname()[1]
        await asyncio.to_thread(config.write_text, CONFIG.format(port=port))
        cluster = Cluster(KubernetesConfig(kubeconfig=str(config)))
        found = await probe(cluster, KubernetesConfig(), "test")
        left = [task for task in asyncio.all_tasks() if "_has_right" in repr(task.get_coro())]
        over.set()
        await cluster.close()
        await asyncio.gather(*ended)
    assert (found.available, left) == (False, [])
    assert "the cluster refuses" in found.reason
