"""Schedulers and an agent as processes of their own, with a model that answers at once."""

import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.hermes import home_at
from tests.e2e.deployment import Server, make_certificates, tls_of
from tests.fakes.model_script import Script
from tests.fakes.model_server import Exchange, ModelServer
from tests.support.ports import free_port

POSTGRES = {
    # What a server has where nobody says otherwise, and the times of its commits.
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "128MB",
    "track_commit_timestamp": "on",
}

_INSTANT = {"rules": [{"steps": [{"text": "That is done."}]}]}
_ASKED = re.compile(rb"This is ([a-z]+[0-9]+)\.")


def prompt_of(job_id: str) -> str:
    """What a job asks, by which the model counts who has asked it."""
    return f"This is {job_id}."


@dataclass(frozen=True, slots=True)
class Site:
    """What the services of a bench share; each is started with its defaults, by its instance."""

    folder: Path
    database_url: str
    model_url: str
    agent_address: str = field(default_factory=lambda: f"127.0.0.1:{free_port()}")

    def issue(self) -> None:
        """Make the certificates by which the services know each other."""
        self.folder.mkdir()
        make_certificates(self.folder, ("agent", "scheduler"))

    def agent(self) -> Server:
        """The agent."""
        return self._service("agent", "agent", self.agent_address)

    def scheduler(self, instance: str) -> Server:
        """A scheduler."""
        return self._service("scheduler", instance, "127.0.0.1:0")

    def _service(self, service: str, instance: str, address: str) -> Server:
        variables = {
            "HERMES_LISTEN": address,
            "HERMES_INSTANCE": instance,
            "HERMES_DATABASE_URL": self.database_url,
            "HERMES_AGENT_ADDRESS": self.agent_address,
            "HERMES_METRICS_PORT": "0",
            "HERMES_LOG_LEVEL": "warning",
            **tls_of(self.folder / "certs", service),
        }
        home = home_at(self.folder / instance, self.model_url, **variables)
        return Server(instance, home, "serve", service)


@asynccontextmanager
async def instant_model() -> AsyncGenerator[tuple[str, Counter[str]]]:
    """Run a model that answers at once; gives its URL, and how often it was asked by which job."""
    asked: Counter[str] = Counter()

    def observe(exchange: Exchange) -> None:
        # What the user has said comes last, behind instructions and tools.
        if exchange.method == "POST" and not exchange.outcome:
            asked.update(found.decode() for found in set(_ASKED.findall(exchange.body)))

    async with ModelServer(Script.parse(_INSTANT), observe).listen() as url:
        yield url, asked
