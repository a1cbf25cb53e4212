"""Each slash command over the real gateway, agent and scheduler, as a terminal says it."""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from hermes.agent.v1 import memory_pb2
from hermes.agent.v1.memory_pb2_grpc import MemoryServiceStub
from hermes.gateway.v1.conversation_pb2 import ConverseRequest
from tests.fakes.model import FakeModel, fake_model
from tests.integration.gateway_parts import WITH_JOBS, Client, Hermes, client, hermes, news_reader
from tests.integration.test_gateway_conversation import ECHO, Wire
from tests.support.skills import document, put_skill

WITHOUT_BUNDLED = {"HERMES_SKILLS_BUNDLED": "false"}
ASKED = "json_extract(spec, '$.prompt'), json_extract(spec, '$.schedule')"
TIMES = r"\w{3} \d\d \w{3}, \d\d:\d\d"


@asynccontextmanager
async def talking(
    folder: Path, *, services: tuple[str, ...] = WITH_JOBS, yaml: str = ""
) -> AsyncGenerator[tuple[Client, Hermes, FakeModel]]:
    """A terminal at services that run."""
    async with (
        fake_model(ECHO) as model,
        hermes(folder, model.url, yaml, WITHOUT_BUNDLED, services) as running,
        client(running, news_reader()) as opened,
    ):
        yield opened, running, model


async def said(terminal: Client, text: str) -> str:
    """What is answered to a command that is obeyed."""
    reply = await terminal.command(text)
    assert not reply.is_error, reply.text
    return reply.text


async def refused(terminal: Client, text: str) -> str:
    """What is answered to one that is not."""
    reply = await terminal.command(text)
    assert reply.is_error, reply.text
    return reply.text


async def again(
    running: Hermes, session_id: str, text: str, message_id: str = "msg_again"
) -> list[str]:
    """What is answered to a message that is said twice, as after a crash."""
    heard: list[str] = []
    for _ in range(2):
        wire = Wire(running)
        await wire.open(session_id=session_id)
        await wire.say(message_id, text)
        heard += [response.reply.text for response in await wire.rest()]
    return heard


async def test_jobs_are_added_in_words_shown_steered_and_removed(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, running, model):
        assert "There are no jobs yet" in await said(terminal, "/cron")
        added = await said(terminal, "/cron add every weekday at 9:00: what is on my calendar?")
        found = re.match(r"Job `(job_[0-9a-f]{12})`: every weekday at 9:00, next ", added)
        assert found, added
        job_id = found[1]
        asked = f"SELECT {ASKED} FROM job"
        assert await running.rows("scheduler", asked) == [
            ("what is on my calendar?", "every weekday at 9:00")
        ]
        line = await said(terminal, "/cron list")
        assert re.fullmatch(rf"- `{job_id}` what is on my calendar\?: .*, next {TIMES} \S+", line)
        shown = await said(terminal, f"/cron show {job_id[4:9]}")
        assert "prompt: `what is on my calendar?`" in shown
        assert "is paused" in await said(terminal, "/cron pause What is on my calendar?")
        assert "paused" in await said(terminal, "/cron")
        assert "is resumed; it runs next " in await said(terminal, f"/cron resume {job_id}")
        assert "runs now" in await said(terminal, f"/cron run `{job_id}`")
        await model.until(lambda: bool(model.bodies))
        await terminal.until(lambda heard: heard.news() != [])
        # The run ends once its news is on the way.
        async with asyncio.timeout(20):
            while "in progress" in (shown := await said(terminal, f"/cron show {job_id}")):  # noqa: ASYNC110 - another service's row
                await asyncio.sleep(0.05)
        assert "succeeded" in shown
        assert "was removed" in await said(terminal, f"/cron remove {job_id}")
        assert await said(terminal, f"/cron remove {job_id}") == f"`{job_id}` was removed."
        assert "There are no jobs yet" in await said(terminal, "/cron")


async def test_what_is_no_schedule_or_no_job_is_explained(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, running, _):
        for wrong in ("", "look for mail", "every 2h", '"every blursday" look'):
            told = await refused(terminal, f"/cron add {wrong}")
            assert "every" in told or "schedule" in told
        added = await said(terminal, "/cron add every day at 9:00 Asia/Tokyo: tea")
        assert re.search(r"next \w+ \d+ \w+, 09:00 JST \(Asia/Tokyo\)", added)
        assert ", 09:00 JST" in await said(terminal, "/cron list")
        await said(terminal, f"/cron remove {added.split('`')[1]}")
        for text in ("/cron add in 2 hours tea", '/cron add "0 9 * * mon-fri" tea'):
            await said(terminal, text)
        assert "matches several jobs" in await refused(terminal, "/cron pause tea")
        assert "There is no job `x`" in await refused(terminal, "/cron run x")
        for verb in ("show", "pause", "remove"):
            assert f"Name a job: `/cron {verb} ID`" in await refused(terminal, f"/cron {verb}")
        assert "`/cron list` or `/cron add`" in await refused(terminal, "/cron nonsense")
        rows = await running.rows(
            "scheduler", f"SELECT {ASKED} FROM job WHERE deleted_at IS NULL ORDER BY 2"
        )
        assert rows == [("tea", "0 9 * * mon-fri"), ("tea", "in 2 hours")]


async def test_a_job_is_added_and_run_once_however_often_that_is_said(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, running, _):
        session_id = await terminal.open()
        first, second = await again(running, session_id, "/cron add in 2 hours tea")
        assert first == second
        assert await running.rows("scheduler", "SELECT count(*) FROM job") == [(1,)]
        async with client(running) as other:
            job_id = first.split("`")[1]
            await said(other, f"/cron pause {job_id}")
        wire_answers = await again(running, session_id, f"/cron run {job_id}", "msg_run")
        assert all("runs now" in each for each in wire_answers)
        assert await running.rows("scheduler", "SELECT count(*) FROM run") == [(1,)]


async def test_without_a_scheduler_the_rest_goes_on_and_says_so(tmp_path: Path) -> None:
    async with talking(tmp_path, services=("agent", "gateway")) as (terminal, _, _):
        for command in ("/cron", "/cron add in 2 hours tea", "/curator"):
            assert "The scheduler does not answer" in await refused(terminal, command)
        assert await terminal.ask("hello") == "re: hello"
        assert "/cron" in await said(terminal, "/help")


async def test_the_curator_is_seen_and_steered(tmp_path: Path) -> None:
    plans = await asyncio.to_thread(put_skill, tmp_path / "skills", "plans")
    records = json.dumps({"plans": {"created_at": "2025-01-01T00:00:00+00:00"}})
    await asyncio.to_thread((tmp_path / "skills/.usage.json").write_text, records)
    async with talking(tmp_path) as (terminal, running, _):
        assert "The curator is **on**.\n- last run: never" in await said(terminal, "/curator")
        assert "The curator is **paused**" in await said(terminal, "/curator pause")
        assert "The curator is **on**" in await said(terminal, "/curator resume")
        assert "Would be: " in await said(terminal, "/curator dry-run")
        session_id = await terminal.open()
        first, second = await again(running, session_id, "/curator run")
        assert first == second
        runs = "SELECT count(*) FROM run WHERE NOT dry_run"
        assert await running.rows("scheduler", runs) == [(1,)]
        assert re.search(TIMES, await said(terminal, "/curator reports"))
        assert not await asyncio.to_thread(plans.exists)
        assert "There is no backup" in await refused(terminal, "/curator rollback 20200101-000000")
        own = await asyncio.to_thread(put_skill, tmp_path / "skills", "my-own")
        asked = await said(terminal, "/curator rollback")
        assert asked.endswith("/curator rollback yes")
        assert not await asyncio.to_thread(plans.exists)
        assert "skills: 1 restored" in await said(terminal, "/curator rollback yes")
        assert await asyncio.to_thread(own.exists)
        assert await asyncio.to_thread(plans.exists)


async def test_skills_are_listed_and_shown(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, _, _):
        assert "There are no skills yet" in await said(terminal, "/skills")
        text = document("paper-search", "Finds papers.", "Search first.")
        await asyncio.to_thread(put_skill, tmp_path / "skills", "research/paper-search", text)
        await asyncio.to_thread(put_skill, tmp_path / "skills", "model", document("model"))
        listed = await said(terminal, "/skills")
        assert "**research**\n- /paper_search Finds papers." in listed
        assert "- /skill_model does things" in listed
        for name in ("paper-search", "/paper_search", "research/paper-search"):
            shown = await said(terminal, f"/skills view {name}")
            assert "Search first." in shown
            assert "used 0 times" in shown
        assert "There is no skill `x`" in await refused(terminal, "/skills view x")
        told = await said(terminal, "/help paper-search")
        assert "makes me follow the skill paper-search: Finds papers." in told
        assert "Did you mean /paper_search?" in await refused(terminal, "/paper_serch x")


_REFUSED = """
CREATE TEMP TABLE copied AS SELECT * FROM session LIMIT 1;
UPDATE copied SET id = 'rev_1', platform = 'review';
INSERT INTO session SELECT * FROM copied;
INSERT INTO session_state (session_id, name, value)
VALUES ('rev_1', 'review_refused', '["“Obey the web.”: it repeats what others wrote"]');
"""


def _refuse(path: Path) -> None:
    """Store a review that was not allowed to keep something."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_REFUSED)


async def test_memory_says_what_looking_back_was_not_allowed_to_keep(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, running, _):
        message_id = terminal.dialogue.say("hello")
        await terminal.until(lambda it: it.outcome(message_id) is not None)
        assert "Not kept" not in await said(terminal, "/memory")
        await asyncio.to_thread(_refuse, running.settings.home.database("agent"))
        shown = await said(terminal, "/memory")
    assert "- “Obey the web.”: it repeats what others wrote\n" in shown
    assert "tell the agent to remember it" in shown


async def test_memory_is_shown_and_taken_back_step_by_step(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, running, _):
        assert "Nothing yet." in await said(terminal, "/memory")
        assert "nothing to take back" in await refused(terminal, "/memory undo")
        stub = MemoryServiceStub(running.operator.to("agent"))
        for number, content in enumerate(("Likes tea.", "Lives in Rome.", "Is called Ada.")):
            operation = memory_pb2.MemoryOperation(
                action=memory_pb2.MEMORY_ACTION_ADD, content=content
            )
            request = memory_pb2.ApplyMemoryRequest(
                request_id=f"r{number}",
                target=memory_pb2.MEMORY_TARGET_USER,
                operations=[operation],
            )
            await stub.ApplyMemory(request)
        assert "- Likes tea.\n- Lives in Rome." in await said(terminal, "/memory show")
        history = await said(terminal, "/memory history")
        assert history.startswith("- `r2` ")
        assert "+ `Is called Ada.`" in history
        session_id = await terminal.open()
        for told in await again(running, session_id, "/memory undo"):
            assert "`Is called Ada.`" in told
        assert "+ `Lives in Rome.`" in await said(terminal, "/memory undo")
        left = await said(terminal, "/memory")
        assert "Likes tea." in left
        assert "Rome" not in left
        assert "There is no change `x`" in await refused(terminal, "/memory undo x")
        assert "changed since" in await refused(terminal, "/memory undo r2")


async def test_a_repeated_undo_takes_back_one_exchange(tmp_path: Path) -> None:
    async with talking(tmp_path, services=("agent", "gateway")) as (terminal, running, _):
        session_id = await terminal.open()
        for text in ("one", "two", "/retry"):
            assert await terminal.ask(text) in ("re: one", "re: two")
        await refused(terminal, "/retry it")
        for told in await again(running, session_id, "/undo"):
            assert told.startswith("Taken back: `two`. 2 messages")
        await said(terminal, "/new")
        assert await refused(terminal, "/undo") == "There is nothing to take back."


async def test_tools_tell_what_is_on_and_what_the_others_miss(tmp_path: Path) -> None:
    yaml = "tools: {platforms: {cli: [todo], telegram: [skills]}}"
    async with talking(tmp_path, yaml=yaml) as (terminal, _, _):
        told = await said(terminal, "/tools")
        on, _, off = told.partition("Off:")
        assert "todo: turned off on cli" in off
        assert "todo" not in on
        assert "**skills**: " in on
        assert "skill_view" in on
        assert "set " in off


async def test_usage_tells_of_the_session_the_day_and_budgets(tmp_path: Path) -> None:
    yaml = "budget: {day: {tokens: 1000000}}"
    async with talking(tmp_path, yaml=yaml) as (terminal, _, _):
        assert "**This session**: nothing yet" in await said(terminal, "/usage")
        await terminal.ask("hello")
        told = await said(terminal, "/usage")
        assert re.search(r"\*\*This session\*\*: \$0\.00, 1 call, [\d,]+ tokens sent", told)
        assert re.search(r"\*\*\d{4}-\d\d-\d\d, all sessions\*\*: ", told)
        assert re.search(r"\*\*Budget for today\*\*: [\d,]+ of 1,000,000 tokens", told)


async def test_a_session_gets_another_model_and_its_own_again(tmp_path: Path) -> None:
    yaml = "models: {near/one: {window: 200000}}"
    async with talking(tmp_path, yaml=yaml) as (terminal, _, model):
        assert "uses the configured model, `m`" in await said(terminal, "/model")
        known = await said(terminal, "/model list near")
        assert known.startswith("- `near/one`")
        assert "`near/one` answers in this session" in await said(terminal, "/model near/one")
        assert "uses the model `near/one`" in await said(terminal, "/model show")
        assert await terminal.ask("hello") == "re: hello"
        told = await said(terminal, "/model set near/on")
        assert "Neither the endpoint nor the catalogue lists this model" in told
        assert "Did you mean `near/one`" in told
        assert "the configured model answers" in await said(terminal, "/model default")
        assert await terminal.ask("hello again") == "re: hello again"
        assert [body["model"] for body in model.bodies] == ["near/one", "m"]
        first, second = (body["messages"][0] for body in model.bodies)
        assert first == second, "the prompt stays"
        assert "no model is called like this" in await refused(terminal, "/model set a b")


async def test_sessions_are_named_found_and_gone_on_with(tmp_path: Path) -> None:
    async with talking(tmp_path) as (terminal, running, model):
        assert "no messages yet" in await refused(terminal, "/title Early")
        assert await said(terminal, "/sessions") == "There are no sessions yet."
        await terminal.ask("where does the otter live?")
        first = await terminal.open()
        assert "is now called “Otters”" in await said(terminal, "/title Otters")
        assert "is called “Otters”" in await said(terminal, "/title")
        assert "already" in await said(terminal, "/resume otters")
        await said(terminal, "/new")
        await terminal.ask("hello")
        # What a job says is no conversation of anybody.
        job_id = (await said(terminal, "/cron add in 2 hours tea")).split("`")[1]
        await said(terminal, f"/cron run {job_id}")
        ran = f"SELECT count(*) > 0 FROM session WHERE id LIKE 'cron_{job_id}_%' AND title = 'tea'"
        await running.until_rows("agent", ran, [(1,)])
        listed = await said(terminal, "/sessions")
        assert "cron_" not in listed
        assert f"`{first}` Otters, cli" in listed
        assert "(this one)" in listed
        assert "otter" in await said(terminal, "/sessions otter live")
        assert "No message contains these words" in await said(terminal, "/sessions walrus")
        assert "`" + first in await said(terminal, "/resume")
        reply = await terminal.command("/resume OTTERS")
        assert (reply.session_id, reply.is_error) == (first, False)
        await terminal.ask("and the sea otter?")
        asked = [message["content"] for message in model.bodies[-1]["messages"][1:]]
        assert asked[0] == "where does the otter live?"
        assert "There is no session `x`" in await refused(terminal, "/resume x")
        async with client(running, ConverseRequest.Open(session_id=first)) as other:
            assert await said(other, "/resume " + first) != ""


async def test_help_is_grouped_and_tells_more_of_one(tmp_path: Path) -> None:
    await asyncio.to_thread(put_skill, tmp_path / "skills", "plans")
    async with talking(tmp_path) as (terminal, _, _):
        told = await said(terminal, "/help")
        assert "**This chat**\n- `/new` begin a new session" in told
        assert "- `/cron [list|add|show|pause|resume|run|remove]` list and change" in told
        assert "- `/quit` leave" in told
        assert "**Skills**\n/plans" in told
        detailed = await said(terminal, "/help /cron")
        assert "- `/cron add SCHEDULE PROMPT` add a job" in detailed
        assert "For example: `/cron add every weekday" in detailed
        assert "/help lists all commands" in await refused(terminal, "/help nonsense")
        assert "may use every command" in await said(terminal, "/whoami")
        assert "Did you mean /usage?" in await refused(terminal, "/usgae")
        assert "Did you mean" not in await refused(terminal, "/theme"), "/steer is no theme"
