"""Secrets planted wherever Hermes has some come out nowhere, also where work goes wrong."""

import asyncio
import base64
import json
import re
import secrets
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from services.redaction.redactor import MASK
from tests.e2e.backends import need_backend, sandboxed
from tests.e2e.deployment import Deployment, beside, four_processes, one_process, running
from tests.e2e.model import TELL, calls, rule, terminal_call, tool_call
from tests.e2e.processes import users_of
from tests.fakes.model import FakeModel, fake_model
from tests.fakes.otlp import Receiver, receiving
from tests.fakes.search import SearchApis
from tests.fakes.telegram import fake_telegram
from tests.fakes.web import site
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

LAYOUTS = ("one-process", "one-process with SQLite", "four-processes")
LOOK_AROUND = """
{ cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env; cat /proc/mounts
  find / -xdev -newermt '-10 minutes' -type f -not -path '/proc/*' -exec cat {} + ; } 2>/dev/null |
tr '\\0' '\\n' | head -c 40000
echo looked around
"""
IN_VARIABLES = (
    "HERMES_API_KEY",
    "OPENROUTER_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "BRAVE_API_KEY",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
    "NOUS_API_KEY",
    "DISCORD_BOT_TOKEN",
    "SLACK_BOT_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AZURE_CLIENT_SECRET",
    "HF_TOKEN",
    "NPM_TOKEN",
    "STRIPE_SECRET_KEY",
)
"""The last five are the user's own and nothing of Hermes; so are the first two of the next."""
IN_ENV_FILE = (
    "GITHUB_TOKEN",
    "SMTP_PASSWORD",
    "TAVILY_API_KEY",
    "HASS_TOKEN",
    "HONCHO_API_KEY",
    "MATRIX_ACCESS_TOKEN",
    "SIGNAL_PASSWORD",
    "TWILIO_AUTH_TOKEN",
    "WHATSAPP_APP_SECRET",
    "PAGERDUTY_TOKEN",
)
IN_AUTH_FILE = ("nous_token", "nous_refresh_token", "codex_access_token", "codex_refresh_token")
AT_LEAST = 30
SHAPED = {
    "of OpenAI": f"sk-proj-a1{secrets.token_hex(16)}",
    "of GitHub": f"ghp_a1{secrets.token_hex(16)}",
    "of AWS": f"AKIA1{secrets.token_hex(8)[:15].upper()}",
    "of SSH": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{secrets.token_hex(32)}\n",
}
"""Secrets that nobody has told Hermes, and that are told by what they look like."""
ENCODERS = ("base64", "base64 -w 20", "xxd -p", "od -An -t x1 -w1000")


def canary(name: str) -> str:
    """A secret of no known shape, so that only its value tells it."""
    return f"canary.{re.sub('[ _]', '.', name.lower())}.{secrets.token_hex(12)}"


def spelled(value: str) -> list[str]:
    """A secret as it is, and as programs and protocols write it."""
    data = value.encode()
    # Where it stands in something longer, the letters at its ends have bits of others.
    inside = [base64.b64encode(bytes(before) + data).decode()[4:-4] for before in range(3)]
    urlsafe = base64.urlsafe_b64encode(data).decode()[4:-4]
    in_url = "".join(f"%{byte:02X}" if chr(byte) in ":/+@" else chr(byte) for byte in data)
    every = "".join(f"%{byte:02x}" for byte in data)
    apart = [data.hex(":"), data.hex(" ")]
    return [value, data.hex(), data.hex().upper(), in_url, every, urlsafe, *inside, *apart]


@dataclass(frozen=True, slots=True)
class Planted:
    """Running services, the model that they ask, and all that is secret by where it is."""

    deployment: Deployment
    model: FakeModel
    database_url: str
    metrics_url: str
    values: Mapping[str, str]
    known: Mapping[str, str]
    """Those of them that Hermes is told as secrets, and a person may say."""
    receiver: Receiver
    """Where their traces go, with what people and models say."""

    @property
    def questions(self) -> tuple[str, ...]:
        """What a person asks, who says every secret herself."""
        asked = ("hello", "look around", "a file", "search", "read secrets", "go wrong")
        keeping = (f"keep them: {told(self.known)}", "repeat them", "print them")
        return (*asked, *keeping, "refuse my key", "break")

    def found_in(self, text: str) -> set[str]:
        """Names of the secrets that are in a text, however they are spelled."""
        # As in a text whose lines are as long as that of base64, or of a dump, or not at all.
        dumped = re.sub(r"[\n ]+(?:0[0-9a-f]{6,7}:? ?)?", " ", text)
        text = "\n".join((text, dumped, re.sub(r"\s+", "", text)))
        return {
            name
            for name, value in (SHAPED | dict(self.values)).items()
            if any(spelling in text for spelling in spelled(value.splitlines()[-1]))
        }


def told(values: Mapping[str, str]) -> str:
    """All secrets as somebody may say them."""
    return " and ".join(f"{name} is {value}" for name, value in (SHAPED | dict(values)).items())


def printing(values: Mapping[str, str]) -> str:
    """A command that is told no secret, as it has them from behind, and prints them encoded."""
    behind = "\n".join(value[::-1] for value in values.values())
    plain = f"printf %s {shlex.quote(behind)} | rev"
    return "\n".join([*(f"{plain} | {each} 2>/dev/null" for each in ENCODERS), "echo printed all"])


def repeating(values: Mapping[str, str]) -> tuple[object, ...]:
    """What a model does that says every secret wherever it can, a few letters at a time."""
    said, pieces = told(values), {"chunk_chars": 3}
    noting = tool_call("todo", todos=[{"id": "1", "content": said, "status": "pending"}])
    asked = calls(terminal_call(f"echo {shlex.quote(said)}"), noting, text=said)
    telling = {"text": f"repeated all: {said}", "reasoning": said, **pieces}
    return (
        rule("repeat them", {**asked, "reasoning": said, **pieces}, telling),
        rule("print them", calls(terminal_call(printing(values))), TELL),
        rule("keep them", {"text": "kept them"}),
    )


def rules(values: Mapping[str, str]) -> Mapping[str, object]:
    """The main job, and what goes wrong; a provider may repeat the key that it refuses."""
    key = values["HERMES_API_KEY"]
    refused = {"error": {"message": f"Incorrect API key provided: {repeated(key)}"}}
    job = (
        *repeating(values),
        rule("look around", calls(terminal_call(LOOK_AROUND)), TELL),
        rule("a file", calls(tool_call("write_file", path="a.txt", content="a\n")), TELL),
        rule("search", calls(tool_call("web_search", query="otters")), TELL),
        rule("read secrets", calls(tool_call("read_file", path="/proc/self/environ")), TELL),
        rule("go wrong", calls(terminal_call("echo wrong >&2; exit 3")), TELL),
        rule("refuse my key", {"status": 401, "error": refused}),
        rule("break", {"status": 400, "error": refused}),
        rule("", {"text": "You said: {user}"}),
    )
    return {"rules": list(job)}


def repeated(key: str) -> str:
    """What a server may answer that repeats the key it was given."""
    data = key.encode()
    basic = base64.b64encode(b"user:" + data).decode()
    return " ".join((key, data.hex(), base64.urlsafe_b64encode(data).decode(), basic))


@pytest.fixture(
    params=[*(pytest.param(name, marks=pytest.mark.slow) for name in LAYOUTS[:-1]), LAYOUTS[-1]]
)
async def planted(
    request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path
) -> AsyncGenerator[Planted]:
    await asyncio.to_thread(need_backend, "bubblewrap", tmp_path / "probe")
    values = {name: canary(name) for name in (*IN_VARIABLES, *IN_ENV_FILE, *IN_AUTH_FILE)}
    on_server = "SQLite" not in request.param
    if on_server:
        values["database"] = canary("database")
    values["TELEGRAM_BOT_TOKEN"] = f"424242:{secrets.token_hex(18)}"
    values["DISCORD_BOT_TOKEN"] = f"NDI0MjQy.a1.{secrets.token_hex(18)}"
    values["SLACK_BOT_TOKEN"] = f"xoxb-{secrets.token_hex(18)}"
    assert len(values) >= AT_LEAST
    search = SearchApis(status=401, body=f"no such key: {repeated(values['BRAVE_API_KEY'])}")
    async with (
        fake_model(rules(values)) as model,
        fake_telegram() as telegram,
        site(search.handle) as searched,
        beside(receiving()) as receiver,
    ):
        with postgres.database() as plain_url:
            url = plain_url.replace("postgres@", f"postgres:{values.get('database')}@")
            port = free_port()
            settings = {
                **({"HERMES_DATABASE_URL": url} if on_server else {}),
                "TELEGRAM_BASE_URL": telegram.url,
                **{f"{name}_ENABLED": "false" for name in ("DISCORD", "HASS", "SLACK")},
                "BRAVE_BASE_URL": searched.url("127.0.0.1"),
                "HERMES_TRACING_ENDPOINT": receiver.url,
                "HERMES_TRACING_TEXT": "true",
                "OTEL_BSP_SCHEDULE_DELAY": "200",
            }
            one = request.param != "four-processes"
            if one:
                settings["HERMES_METRICS_PORT"] = f"{port}"
            make = one_process if one else four_processes
            made = await asyncio.to_thread(deploy, make, tmp_path, model.url, settings, values)
            known = dict(values)
            async with beside(running(made)):
                values |= await asyncio.to_thread(lambda: dict(kept_by(tmp_path)))
                shown = f"http://127.0.0.1:{port}/metrics" if one else ""
                stored_at = plain_url if on_server else ""
                yield Planted(made, model, stored_at, shown, values, known, receiver)


def deploy(
    make: Callable[..., Deployment],
    folder: Path,
    model_url: str,
    settings: Mapping[str, str],
    values: Mapping[str, str],
) -> Deployment:
    """Services with secrets in their variables and files."""
    variables = {name: values[name] for name in (*IN_VARIABLES, "TELEGRAM_BOT_TOKEN")}
    made = make(folder, model_url, sandboxed("bubblewrap"), **{**settings, **variables})
    for server in made.servers.values():
        server.home = replace(server.home, forks=False)  # else its environment is not its own
        lines = [f"{name}={values[name]}\n" for name in IN_ENV_FILE]
        write_private(server.home.path / ".env", "".join(lines))
        kept = {name: values[name] for name in IN_AUTH_FILE}
        write_private(server.home.path / "auth.json", json.dumps(kept))
    return made


def write_private(path: Path, text: str) -> None:
    """A file for its owner alone."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def kept_by(folder: Path) -> Iterator[tuple[str, str]]:
    """The keys and tokens that were made for the services: a line of each is enough."""
    for path in folder.rglob("*"):
        if path.suffix == ".key":
            yield str(path), path.read_text(encoding="ascii").splitlines()[1]
        elif path.name == "operator.token":
            yield str(path), path.read_text(encoding="ascii").strip()


@pytest.mark.timeout(240)
async def test_no_secret_comes_out(planted: Planted) -> None:
    said = await asyncio.to_thread(converse, planted)
    assert "looked around" in said
    assert "refused the key" in said
    assert "rejected the key" in said
    assert f"repeated all: of OpenAI is {MASK}" in said
    assert "printed all" in said
    sinks = {
        "answers, errors and exports": said,
        "logs": await asyncio.to_thread(planted.deployment.logs),
        "model requests": b"\n".join(one.body for one in planted.model.requests).decode(),
        "database": await asyncio.to_thread(stored, planted.database_url),
        "metrics": await metrics(planted.metrics_url),
        "traces": await asyncio.to_thread(traces, planted),
        "command lines": await asyncio.to_thread(command_lines, planted.deployment.folder),
        "files": await asyncio.to_thread(files, planted.deployment.folder),
    }
    assert sinks["model requests"]
    assert "You said: hello" in sinks["database" if planted.database_url else "files"]
    assert "You said: hello" in sinks["traces"]
    if planted.metrics_url:
        counted = r'hermes_secrets_redacted_total\{service="(agent|gateway|scheduler)"\} [1-9]'
        assert len(set(re.findall(counted, sinks["metrics"]))) == 3
    found = {sink: planted.found_in(text) for sink, text in sinks.items()}
    assert found == {sink: set() for sink in sinks}


def converse(planted: Planted) -> str:
    """Ask everything of one person, who says every secret herself wherever she can; returns all
    that she sees, with the session as exported."""
    deployment, values = planted.deployment, told(planted.known)
    shown: list[str] = []
    session_id = ""
    for question in planted.questions:
        resumed = ("--resume", session_id) if session_id else ()
        result = deployment.client.run("chat", "-q", question, "--json", *resumed)
        shown += (result.out, result.err)
        session_id = session_id or result.json["session_id"]
    name, job = planted.values["STRIPE_SECRET_KEY"], f"every day keep {values}"
    for command in (
        ("sessions", "rename", session_id, f"about {name}"),
        ("sessions", "list"),
        ("sessions", "search", "canary"),
        ("jobs", "add", "every 1h", job, "--name", f"daily {name}"),
        ("jobs", "list"),
    ):
        result = deployment.client.run(*command)
        assert result.status == 0, result.err
        shown += (result.out, result.err)
    exported = deployment.client.run("sessions", "export", session_id)
    assert exported.status == 0, exported.err
    shown.append(exported.out)
    return "\n".join(shown)


def stored(url: str) -> str:
    """Every row of every table of every schema; SQLite's are in files."""
    if not url:
        return ""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    every = (
        "SELECT table_schema, table_name FROM information_schema.tables "
        "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
    )
    rows: list[str] = []
    with engine.connect() as connection:
        for schema, name in connection.exec_driver_sql(every).all():
            table = sa.table(name, schema=schema)
            text = sa.cast(sa.literal_column(f'"{name}"'), sa.Text)
            rows += connection.execute(sa.select(text).select_from(table)).scalars()
    engine.dispose()
    return "\n".join(row + unhexed(row) for row in rows)


def unhexed(row: str) -> str:
    """What the bytes of a row say, which PostgreSQL shows as hexadecimal digits."""
    found = re.findall(r"\\x((?:[0-9a-f]{2})+)", row)
    return "".join(bytes.fromhex(digits).decode(errors="replace") for digits in found)


async def metrics(url: str) -> str:
    """What Prometheus would read, where the services show it at a known port."""
    if not url:
        return ""
    async with httpx.AsyncClient() as client:
        shown = (await client.get(url)).raise_for_status().text
    assert "hermes_" in shown
    return shown


def traces(planted: Planted) -> str:
    """What the spans of all that was asked say."""
    spans = planted.receiver.wait_for_several("invoke_agent hermes", len(planted.questions))
    return "\n".join(each.span.SerializeToString().decode(errors="replace") for each in spans)


def command_lines(folder: Path) -> str:
    """The arguments of all processes of the deployment, sandboxes too."""
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in users_of(folder)]
    assert lines
    return b"\n".join(lines).decode(errors="replace")


def files(folder: Path) -> str:
    """What all files say but those that are there to keep secrets, the output of commands, which
    stays in its sandbox as it was, and the copy of the machine's /etc, which is large."""
    keepers = {".env", "auth.json", "operator.token"}
    kept = [
        path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and path.name not in keepers
        and path.suffix != ".key"
        and "spool" not in path.parts
        and not any(part.startswith("etc-") for part in path.parts)
    ]
    return b"\n".join(kept).decode(errors="replace")
