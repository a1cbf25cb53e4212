"""`hermes setup`: each step with an option, and all of them in a terminal."""

import json
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs

import pytest
from ruamel.yaml import YAML

from tests.e2e.home import Home
from tests.e2e.model import SCENARIOS, model_process
from tests.e2e.terminal import terminal

DOWN, ENTER = "\x1b[B", "\r"
CTRL_A, CTRL_C, CTRL_D = "\x01", "\x03", "\x04"


@pytest.fixture
def url(tmp_path: Path) -> Generator[str]:
    """An endpoint with two models."""
    with model_process(tmp_path, SCENARIOS, models=["alpha", "beta"], window=8_192) as model:
        yield model.url


def configured(home: Home) -> Any:
    return YAML(typ="safe").load((home.path / "config.yaml").read_text())


def test_every_step_has_an_option(tmp_path: Path, url: str) -> None:
    home = Home.make(tmp_path, OPENROUTER_BASE_URL=url)
    made = home.run(
        *("setup", "--provider", "openrouter", "--key-file", "-", "--model-id", "beta"),
        *("--sandbox", "bubblewrap", "--tools", "lean", "--no-platforms"),
        text="sk-or-v1-secret\n",
    )
    assert made.status == 0, made.err
    assert configured(home) == {
        "model": {"provider": "openrouter", "default": "beta"},
        "terminal": {"backend": "bubblewrap"},
        "tools": {"preset": "lean"},
    }
    assert (home.path / ".env").read_text() == "OPENROUTER_API_KEY=sk-or-v1-secret\n"
    assert "model.default = beta in " in made.out
    assert "secret" not in made.out


def test_an_endpoint_takes_the_place_of_what_was_chosen_before(tmp_path: Path, url: str) -> None:
    home = Home.make(
        tmp_path, {"model": {"provider": "openai", "max_tokens": 100, "api": "responses"}}
    )
    (home.path / ".env").write_text("HERMES_MODEL=old\n")
    made = home.run("setup", "--url", url)
    assert "alpha has 8,192 tokens of context there" in made.out
    told = home.run("chat", "-q", "hello", "--json")
    assert told.status == 0, told.err
    chosen = {"provider": "custom", "base_url": url, "default": "alpha"}
    assert configured(home) == {"model": {"max_tokens": 100, "api": "", **chosen}}


def test_what_is_not_chosen_stays_as_it_was(tmp_path: Path, url: str) -> None:
    before = {
        "model": {"provider": "custom", "base_url": url, "default": "beta"},
        "terminal": {"backend": "bubblewrap"},
        "tools": {"preset": "full"},
    }
    home = Home.make(tmp_path, before)
    made = home.run("setup", "--url", url)
    assert made.status == 0, made.err
    assert configured(home) == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--provider", "openai"), "give the key with --key-file, or set OPENAI_API_KEY"),
        (("--provider", "custom"), "name the endpoint with --url"),
        (("--url", "http://127.0.0.1:9/v1"), "Cannot reach the model endpoint"),
        (("--provider", "anthropic", "--key-file", "/nowhere"), "cannot read the key"),
    ],
)
def test_what_does_not_work_is_not_written(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    home = Home.make(tmp_path)
    made = home.run("setup", *options)
    assert made.status == (1 if "Cannot reach" in told else 2)
    assert told in made.err
    assert not (home.path / "config.yaml").exists()


class Refusing(BaseHTTPRequestHandler):
    """Accepts no key."""

    def do_GET(self) -> None:
        self.send_error(401)

    def do_POST(self) -> None:
        _answer(self, 401, {"ok": False, "error_code": 401, "description": "Unauthorized"})


def test_a_refused_key_is_not_written(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        home = Home.make(tmp_path, OPENROUTER_BASE_URL=f"http://127.0.0.1:{server.server_port}/v1")
        asked = ("setup", "--provider", "openrouter", "--key-file", "-")
        made = home.run(*asked, text="sk-wrong\n")
        server.shutdown()
    assert made.status == 1
    assert "refused the key: check OPENROUTER_API_KEY" in made.err
    assert not (home.path / ".env").exists()


def test_a_refused_token_is_not_written(tmp_path: Path, url: str) -> None:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        bots = f"http://127.0.0.1:{server.server_port}/bot"
        home = Home.make(tmp_path, {"platforms": {"telegram": {"extra": {"base_url": bots}}}})
        home = home.set(TELEGRAM_BOT_TOKEN="123456:wrong")
        made = home.run("setup", "--url", url, "--platform", "telegram")
        server.shutdown()
    assert made.status == 1
    assert "telegram does not know this bot; check TELEGRAM_BOT_TOKEN" in made.err
    assert not (home.path / ".env").exists()


def test_a_platform_is_checked_and_written(tmp_path: Path, url: str) -> None:
    with HTTPServer(("127.0.0.1", 0), Bots) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        bots = f"http://127.0.0.1:{server.server_port}/bot"
        home = Home.make(tmp_path, {"platforms": {"telegram": {"extra": {"base_url": bots}}}})
        named = home.set(TELEGRAM_BOT_TOKEN="123456:right")
        made = named.run("setup", "--url", url, "--platform", "telegram", "--users", "7")
        unknown = named.run("setup", "--platform", "telegraph")
        again = named.run("setup", "--platform", "telegram")
        server.shutdown()
    assert made.status == 0, made.err
    assert (again.status, "model.default" in again.out) == (0, False), again.err
    assert "telegram: @hermes_bot" in made.out
    assert "telegram: 7 has got a first message" in made.out
    assert [(to, "I am Hermes" in text) for to, text in Bots.sent] == [("7", True)] * 2
    assert "123456:right" not in made.out
    written = (home.path / ".env").read_text()
    assert "TELEGRAM_BOT_TOKEN=123456:right" in written
    assert "TELEGRAM_ALLOWED_USERS=7" in written
    assert "there is no platform telegraph; use" in unknown.err


class Bots(BaseHTTPRequestHandler):
    """A Bot API with one bot."""

    sent: ClassVar = list[tuple[str, str]]()

    def do_POST(self) -> None:
        me = {"id": 123456, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if self.path.endswith("/sendMessage"):
            self.sent.append((body["chat_id"][0], body["text"][0]))
            chat = {"id": 7, "type": "private"}
            me = {"message_id": 1, "date": 1, "chat": chat}
        _answer(self, 200, {"ok": True, "result": me})


def _answer(request: BaseHTTPRequestHandler, status: int, document: object) -> None:
    request.send_response(status)
    request.end_headers()
    request.wfile.write(json.dumps(document).encode())


def test_it_asks_in_a_terminal_and_only_if_needed_where_that_is_said(
    tmp_path: Path, url: str
) -> None:
    home = Home.make(tmp_path)
    _answer_all(home, url)
    found = configured(home)
    assert found["model"] == {"provider": "custom", "base_url": url, "default": "beta"}
    assert found["tools"] == {"preset": "lean"}
    again = home.run("setup", "--if-needed")
    assert (again.status, again.out) == (0, "")


def _answer_all(home: Home, url: str) -> None:
    with terminal(home, "setup") as screen:
        screen.wait_for("Where do your models run")
        screen.press(DOWN * 8 + ENTER)
        screen.wait_for("Base URL")
        screen.press(url + ENTER)
        screen.wait_for("Key")
        screen.press(ENTER)
        screen.wait_for("Which model")
        screen.press(DOWN + ENTER)
        screen.wait_for("Where do commands run")
        screen.press(ENTER)
        screen.wait_for("Which tools")
        screen.press(DOWN * 2 + ENTER)
        screen.wait_for("Talk through a platform")
        screen.press(ENTER)
        screen.wait_for("Start Hermes with: hermes up")
        assert screen.wait_end() == 0


class Strict(BaseHTTPRequestHandler):
    """Accepts one key, and lists more models than fit on a screen."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer sk-right":
            self.send_error(401)
            return
        listed = {"data": [{"id": f"maker/model-{number}"} for number in range(30)]}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(listed).encode())


def test_a_saved_key_that_is_refused_can_be_replaced_and_a_long_list_is_searched(
    tmp_path: Path,
) -> None:
    with HTTPServer(("127.0.0.1", 0), Strict) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        home = Home.make(tmp_path, OPENROUTER_BASE_URL=f"http://127.0.0.1:{server.server_port}/v1")
        (home.path / ".env").write_text("OPENROUTER_API_KEY=sk-old\n")
        with terminal(home, "setup", "--provider", "openrouter") as screen:
            screen.wait_for("Enter keeps OPENROUTER_API_KEY")
            screen.press(ENTER)
            screen.wait_for("refused the key")
            screen.press("sk-right" + ENTER)
            screen.wait_for("Type to search 30 models")
            screen.press("model-2" + ENTER)
            screen.wait_for("not in the list")
            screen.press("7" + CTRL_A + "maker/" + ENTER)
            screen.wait_for("Where do commands run")
            screen.press(CTRL_C)
            assert screen.wait_end() == 130
        server.shutdown()
    assert configured(home)["model"]["default"] == "maker/model-27"
    assert (home.path / ".env").read_text() == "OPENROUTER_API_KEY=sk-right\n"


def test_ctrl_d_ends_it_without_a_traceback(tmp_path: Path, url: str) -> None:
    home = Home.make(tmp_path)
    with terminal(home, "setup", "--provider", "custom", "--url", url) as screen:
        screen.wait_for("Key")
        screen.press(CTRL_D)
        assert screen.wait_end() == 130
    assert not (home.path / "config.yaml").exists()
