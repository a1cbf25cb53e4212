"""Try Hermes with a scripted model: services, a sandbox, tools and a job.

The model is a script, but the commands and files are real. The demo uses a temporary home and
removes it at the end."""

import asyncio
import tempfile
from contextlib import aclosing
from pathlib import Path

from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from hermes.scheduler.v1 import job_pb2
from hermes.scheduler.v1.job_pb2_grpc import JobServiceStub
from services.cli import process
from services.cli.chat.dialogue import Dialogue
from services.cli.chat.one_shot import OneShot
from services.cli.chat.screen import can_talk, standard_screen
from services.cli.chat.talk import Talk
from services.cli.chat.turn_view import TurnView
from services.cli.command import Command, arg
from services.cli.connection import connected
from services.cli.console import complain, printable, say, tell
from services.cli.demo_model import MODEL, demo_model
from services.cli.jobs.changes import terminal
from services.cli.startup import logged
from services.config.settings import Settings, load_settings
from services.errors import ServiceUnavailable
from services.ids import new_id
from services.rpc.channels import Channels

EXAMPLES = """\
examples:
  hermes demo                 open a chat; try: what system are you on?
  hermes demo </dev/null      show a short tour without input"""

INTRODUCTION = (
    "DEMO: the model is a script that matches words. The services, the sandbox and the commands "
    "are real. The demo has added a job, which reports soon."
)
TOUR = ("what system are you on?", "write a file", "run four in parallel")
JOB_DELAY = "in 10 seconds"
REPORT_WAIT_S = 60.0


def demonstrate(job: str = JOB_DELAY) -> int:
    """Run the demo until the user leaves, or the tour without a terminal."""
    with tempfile.TemporaryDirectory(prefix="hermes-demo-") as folder:
        return asyncio.run(_run(Path(folder), job))


async def _run(folder: Path, job: str) -> int:
    async with demo_model() as url:
        settings = load_settings(
            {
                "home": str(folder),
                "base_url": url,
                "model": MODEL,
                "metrics_port": 0,
                "keep_on_exit": False,
            }
        )
        settings.home.create()
        with logged(settings, "hermes", settings.home.logs / "hermes.log"):
            async with connected(settings, process.ALL) as channels:
                return await _show(settings, channels, job)


async def _show(settings: Settings, channels: Channels, job: str) -> int:
    tell(INTRODUCTION)
    await _add_job(channels, job)
    if can_talk(settings.environ):
        tell(f"Try: {' · '.join(TOUR)} · something slow")
        return await Talk(channels, ConverseRequest.Open(), settings).run()
    return await _tour(settings, channels)


async def _tour(settings: Settings, channels: Channels) -> int:
    dialogue = Dialogue(channels.to("gateway"), ConverseRequest.Open())
    screen = standard_screen(settings.environ, whole=True)
    for question in TOUR:
        say(f"\n> {question}")
        once = OneShot(TurnView(screen, tells_failure=False))
        await once.ask(dialogue, question)
        if failure := once.failure:
            complain(failure)
            return 1
    say("\n(the job reports)")
    say(await _report(channels))
    return 0


async def _report(channels: Channels) -> str:
    dialogue = Dialogue(channels.to("gateway"), ConverseRequest.Open(takes_news=True))
    try:
        async with asyncio.timeout(REPORT_WAIT_S), aclosing(dialogue.responses()) as responses:
            async for response in responses:
                if response.HasField("reply"):
                    return printable(response.reply.text)
    except TimeoutError:
        pass
    raise ServiceUnavailable(f"the job did not report within {REPORT_WAIT_S:g} s")


async def _add_job(channels: Channels, when: str) -> None:
    await JobServiceStub(channels.to("scheduler")).CreateJob(
        job_pb2.CreateJobRequest(
            job=job_pb2.Job(
                job_id=new_id("job"),
                schedule=when,
                prompt="What system are you on?",
                name="demo",
                origin=terminal(),
            )
        )
    )


COMMAND = Command(
    EXAMPLES,
    function=lambda context: demonstrate(context.given.job),
    arguments=(arg("--job WHEN", f"schedule of the demo's job ({JOB_DELAY})", default=JOB_DELAY),),
    has_home=False,
)
