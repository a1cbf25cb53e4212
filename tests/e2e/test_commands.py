"""Every command as a person or a script runs it, where no server runs."""

import re
from pathlib import Path

import pytest

from executor_service.backends import BACKENDS
from executor_service.servicer.checks import ADVICE
from gateway_service.servicer.wire import MAX_TEXT_BYTES
from services.cli.chat.command import MAX_QUESTION_BYTES
from tests.e2e.backends import sandboxed
from tests.e2e.deployment import four_processes, one_process, running
from tests.e2e.home import Home, check_complaint
from tests.e2e.model import ModelProcess
from tests.e2e.processes import check_nothing_left, wait_until
from tests.e2e.terminal import CTRL_C, CTRL_D, terminal
from tests.support.ports import free_port


@pytest.fixture
def empty(tmp_path: Path) -> Home:
    """A home in which nothing is set."""
    return Home.make(tmp_path)


def test_one_question_starts_what_it_needs_and_stops_it(home: Home, backend: str) -> None:
    answered = home.ask("who are you")
    (call,) = answered["tool_calls"]
    assert (call["backend"], call["isolation"]) == (backend, "namespace")
    assert call["sandbox_id"].startswith("sbx_")
    check_nothing_left(home.path)
    again = home.ask("hello again", "--continue")
    assert again["session_id"] == answered["session_id"]
    assert list((home.path / "run").glob("*.sock")) == []


def test_the_current_folder_is_the_workspace_where_that_is_asked_for(home: Home) -> None:
    project = home.path.parent / "project"
    project.mkdir()
    result = home.run("chat", "-q", "touch a file", "--json", "--here", cwd=project)
    assert result.json["tool_calls"][0]["exit_code"] == 0, result
    assert [path.name for path in project.iterdir()] == ["made"]


@pytest.mark.slow
def test_a_session_has_the_sandbox_that_it_asks_for(home: Home, backend: str) -> None:
    templates = {"walled": {"backend": "bubblewrap"}}
    home.configure({**sandboxed(backend), "executor": {"templates": templates}})
    named = home.ask("who are you", "--sandbox", "walled")
    assert named["tool_calls"][0]["backend"] == "bubblewrap"
    again = home.ask("who are you", "--resume", named["session_id"])
    assert again["tool_calls"][0]["backend"] == "bubblewrap"
    assert home.ask("who are you")["tool_calls"][0]["backend"] == backend
    unknown = home.run("chat", "-q", "who are you", "--sandbox", "unheard-of")
    check_complaint(unknown, "unheard-of", "default, walled")
    by_policy = home.set(HERMES_SANDBOX_TEMPLATE="walled").ask("who are you")
    assert by_policy["tool_calls"][0]["backend"] == "bubblewrap"


def test_what_is_piped_in_is_part_of_the_question(home: Home) -> None:
    piped = home.run("chat", "-q", "what is this?", "--json", text="some data\n")
    assert piped.json["answer"] == "You said: some data\n\nwhat is this?"


def test_a_command_answers_with_its_output_and_exits_with_its_status(home: Home) -> None:
    ran = home.run("chat", "-q", "!echo hi; exit 3")
    assert (ran.status, ran.out, ran.err) == (3, "hi\n", "")
    ran = home.run("chat", "-q", "!echo hi", "--json")
    assert (ran.status, ran.json["answer"]) == (0, "hi")
    assert (home.run("chat", "-q", "!true").out, home.run("chat", "-q", "!false").status) == ("", 1)
    refused = home.run("chat", "-q", "!rm -rf /")
    check_complaint(refused, "refused and not run")
    assert (refused.status, refused.out) == (1, "")


def test_files_go_with_the_question(home: Home, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Buy milk.")
    said = home.run("chat", "-q", "read it", "--json", "--file", str(tmp_path / "note.txt"))
    assert "Buy milk." in said.json["answer"]
    missing = home.run("chat", "-q", "read it", "--file", str(tmp_path / "none"))
    check_complaint(missing, "none cannot be read")
    mistyped = home.run("chat", "-q", "explain @src/mian.py")
    check_complaint(mistyped, "there is no file src/mian.py")
    assert mistyped.status == 2


def test_more_than_a_message_can_have_is_not_sent(home: Home) -> None:
    assert MAX_QUESTION_BYTES == MAX_TEXT_BYTES
    for text in ("é" * MAX_TEXT_BYTES, "x" * (MAX_TEXT_BYTES - 5)):
        check_complaint(home.run("chat", "-q", "what is this?", text=text), "1 MiB")
    assert not list((home.path / "state").glob("*")), "nothing was started for it"


def test_a_slash_commands_reply_is_the_answer(home: Home) -> None:
    asked = home.ask("hello")
    told = home.run("chat", "-q", "/status", "--continue")
    assert (told.status, told.err) == (0, "")
    assert told.out.startswith(f"Session `{asked['session_id']}`")
    status = home.ask("/status", "--continue")
    assert (status["answer"], status["session_id"]) == (told.out.strip(), asked["session_id"])
    assert home.ask("/new", "--continue")["session_id"] != asked["session_id"]
    for options in ([], ["--json"]):
        unknown = home.run("chat", "-q", "/nonsense", *options)
        check_complaint(unknown, "/nonsense")
        assert unknown.json["answer"] == "" if options else unknown.out == ""


def test_what_led_to_the_answer_is_for_the_terminal(home: Home, backend: str) -> None:
    with terminal(home, "chat", "-q", "who are you", piped=True) as asking:
        assert asking.wait_end() == 0
        assert asking.read_piped().endswith("\n/workspace\n")
        lines = asking.screen.splitlines()
    assert lines[0] == "▸ terminal  id; hostname; pwd"
    assert re.fullmatch(rf"  ✓ exit 0 · {backend} · \d\.\d s", lines[-1])
    assert all(line.startswith("  │ ") for line in lines[1:-1]), "the answer is there too"


@pytest.mark.slow
def test_notices_are_no_part_of_the_answer(home: Home) -> None:
    away = home.set(HERMES_BASE_URL=f"http://127.0.0.1:{free_port()}/v1")
    asked = away.run("chat", "-q", "hello")
    check_complaint(asked, "Cannot reach")
    assert asked.out == ""
    with terminal(away, "chat", "-q", "hello", piped=True) as asking:
        assert asking.wait_end() == 1
        assert asking.read_piped() == ""
        told = " ".join(asking.screen.split())
        assert len(re.findall(r"Trying again (?:now|in [1-9]\d* s)\.", told)) == 3


def test_doctor_says_what_works(home: Home, backend: str) -> None:
    result = home.run("doctor", "--json")
    assert (result.status, result.err) == (0, "")
    found = {check["check"]: check for check in result.json}
    assert {"python", "config", "model", "approvals", "sandbox", "services"} <= set(found)
    assert found["model"]["verdict"] == "ok"
    assert found["approvals"]["verdict"] == "ok"
    assert "dangerous commands" in found["approvals"]["message"]
    used = [check for check in result.json if " — used:" in check["message"]]
    assert [check["message"].split(",")[0] for check in used] == [backend]
    assert [check["verdict"] for check in result.json].count("off") >= len(ADVICE) - 1
    told = " ".join(check["message"] for check in result.json if check["check"] == "sandbox")
    assert [name for name in BACKENDS if name not in told] == []
    plain = home.run("doctor")
    assert plain.status == 0
    assert "✓ model" in plain.out


def test_tools_that_are_off_say_how_to_get_them(empty: Home) -> None:
    told = " ".join(empty.run("tools").out.split())
    assert "browser browser.template is not set (or browser.cdp_url likewise); type: " in told
    assert "web_search BRAVE_API_KEY is not set" in told
    assert "rl tools.rl is not set; type: hermes config set tools.rl true" in told
    assert "mcp no MCP server is added; type: hermes mcp add NAME" in told
    with terminal(empty, "tools") as shown:
        assert shown.wait_end() == 0
        lines = shown.screen.splitlines()
    assert max(map(len, lines)) <= 100


@pytest.mark.usefixtures("usual_ports")
def test_doctor_names_a_browser_that_does_not_answer(empty: Home) -> None:
    away = empty.set(BROWSER_CDP_URL=f"http://127.0.0.1:{free_port()}/?token=secret")
    (browser,) = [it for it in away.run("doctor", "--json").json if it["check"] == "browser"]
    assert browser["verdict"] == "failed"
    assert "does not answer; start it there with --remote-debugging-port=" in browser["message"]
    assert "secret" not in browser["message"]


@pytest.mark.usefixtures("usual_ports")
def test_doctor_fails_where_something_is_missing(empty: Home) -> None:
    result = empty.run("doctor", "--json")
    assert result.status == 1
    (model,) = [check for check in result.json if check["check"] == "model"]
    assert model["verdict"] == "failed"
    assert "OPENROUTER_API_KEY" in model["message"]


@pytest.mark.slow
def test_who_only_knows_the_gateway_needs_no_model(model: ModelProcess, tmp_path: Path) -> None:
    with running(four_processes(tmp_path, model.url, sandboxed("bubblewrap"))) as deployment:
        elsewhere = {f"HERMES_{name}_ADDRESS": "" for name in ("AGENT", "EXECUTOR", "SCHEDULER")}
        remote = deployment.client.set(**elsewhere)
        assert remote.ask("hello again")["answer"] == deployment.client.ask("hello again")["answer"]
        assert not list((remote.path / "state").iterdir()), "nothing was started here"


@pytest.mark.slow
def test_a_job_has_the_sandbox_that_it_asks_for(model: ModelProcess, tmp_path: Path) -> None:
    templates = {"walled": {"backend": "bubblewrap"}}
    config = {**sandboxed("bubblewrap"), "executor": {"templates": templates}}
    made = one_process(tmp_path, model.url, config)
    add = ("jobs", "add", "in 1 second", "who are you", "--json", "--sandbox")
    early = made.client.run(*add, "unheard-of")
    assert "cannot check the template unheard-of" in early.err
    with running(made) as deployment:
        client = deployment.client
        check_complaint(client.run(*add, "unheard-of"), "unheard-of", "default, walled")
        job = client.run(*add, "walled").json
        assert job["sandbox"] == "walled"

        def templates_of_runs() -> list[str]:
            session, listed = f"cron_{job['job_id']}_", client.run("sandboxes", "list", "--json")
            return [it["template"] for it in listed.json if it["session_id"].startswith(session)]

        wait_until(lambda: templates_of_runs() == ["walled"], "its run has such a sandbox")
        errors = [one["last_error"] or "" for one in client.run("jobs", "list", "--json").json]
        (why,) = filter(None, errors)
        assert "no template 'unheard-of'" in why
        assert "choose of: default, walled" in why


def test_a_session_whose_turns_are_undone_is_not_exported(home: Home, tmp_path: Path) -> None:
    asked, folder = home.ask("hello"), tmp_path / "exported"
    undone = home.run("sessions", "undo", asked["session_id"])
    assert undone.out.startswith("removed 1 turn; 0 messages are left\n")
    assert "exported 0 sessions" in home.run("sessions", "export", "--all", "--to", folder).out
    assert not list(folder.iterdir())


def test_what_is_not_there_is_named(empty: Home) -> None:
    listed = empty.run("skills", "list", "--category", "zzz")
    assert listed.out == "There are no skills in the category zzz.\n"
    check_complaint(empty.run("usage", "--since", "soon"), "--since 'soon' is no day")


def test_ctrl_c_ends_a_command_that_reads_the_terminal(empty: Home) -> None:
    with terminal(empty, "jobs", "import", "-") as reading:
        wait_until((empty.path / "logs").exists, "it has begun")
        reading.press(CTRL_C)
        assert reading.wait_end() == 130


def test_options_without_effect_are_told(home: Home) -> None:
    with terminal(home, "up") as up:
        up.wait_for("Ctrl-D leaves")
        asked = home.run("chat", "-q", "hello", "--model", "another")
        assert asked.status == 0
        assert "hermes is already running, so --model and --base-url have no effect" in asked.err
        up.press(CTRL_D)
        assert up.wait_end() == 0
