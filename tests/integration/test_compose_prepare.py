"""What the compose stack mounts of a home, and whose engine it takes."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values

from tests.architecture.source import ROOT
from tests.support.requirements import require

MODEL_KEY = "OPENROUTER_API_KEY"
TOKEN = "TELEGRAM_BOT_TOKEN"
SERVICES = ("agent", "executor", "gateway", "scheduler")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody gets through, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="hermes-test-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def engine(place: Path) -> Iterator[Path]:
    """The socket of a user's engine."""
    path = place / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        if os.geteuid() == 0:
            os.chown(path, 1000, 1000)
        yield path


@pytest.fixture
def home(place: Path) -> Path:
    """A home with a key, a token, and one that the config names."""
    made = place / "home"
    made.mkdir(mode=0o711)
    (made / ".env").write_text(f"{MODEL_KEY}='a \"b\" $c'\n{TOKEN}=1:two\nMY_KEY=three\n")
    (made / "config.yaml").write_text("model:\n  default: scripted\n")
    return made


def prepare(home: Path, engine: Path) -> subprocess.CompletedProcess[str]:
    """Run the program."""
    return subprocess.run(
        [sys.executable, ROOT / "docker/compose-prepare", "--home", home, "--engine", engine],
        check=False,
        capture_output=True,
        text=True,
    )


def settings_of(home: Path) -> dict[str, str]:
    """What Compose is told."""
    lines = (home / "compose/settings").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def env_of(home: Path, service: str) -> dict[str, str | None]:
    """The .env of a service."""
    return dotenv_values(home / f"compose/{service}.env", interpolate=False)


def test_each_service_gets_its_own_secrets(home: Path, engine: Path) -> None:
    done = prepare(home, engine)
    assert done.returncode == 0, done.stderr
    folder = home / "compose"
    assert done.stdout == f"{folder / 'settings'}\n"
    assert env_of(home, "gateway") == {TOKEN: "1:two"}
    assert env_of(home, "agent") == {MODEL_KEY: 'a "b" $c', "MY_KEY": "three"}
    assert env_of(home, "executor") == env_of(home, "scheduler") == {}
    assert (folder / "config.yaml").read_text() == (home / "config.yaml").read_text()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    settings = settings_of(home)
    owner = engine.stat()
    assert settings["HERMES_EXECUTOR_USER"] == f"{owner.st_uid}:{owner.st_gid}"
    assert Path(settings["HERMES_EXECUTOR_HOME"]).stat().st_uid == owner.st_uid


def test_secrets_that_all_services_would_get_are_refused(home: Path, engine: Path) -> None:
    secret = {
        "providers": {"mine": {"base_url": "http://a.test", "api_key": "hidden-1"}},
        "platforms": {"telegram": {"token": "hidden-2"}},
        "services": {
            "tracing": {"headers": "authorization=hidden-3"},
            "database": {"url": "postgresql://hermes:hidden-4@db/hermes"},
            "tls": {"key": "/a/path/of.key"},
        },
        "executor": {"secrets": {"A_TOKEN": {"hosts": ["a.test"]}}},
    }
    (home / "config.yaml").write_text(yaml.safe_dump(secret))
    done = prepare(home, engine)
    assert (done.returncode, done.stdout) == (1, "")
    told = done.stderr.partition("its own: ")[2].partition(";")[0]
    assert sorted(told.split(", ")) == [
        "platforms.telegram.token (as TELEGRAM_BOT_TOKEN)",
        "providers.mine.api_key (as MINE_API_KEY)",
        "services.database.url (as HERMES_DATABASE_URL)",
        "services.tracing.headers (as HERMES_TRACING_HEADERS)",
    ]
    assert "hidden" not in done.stderr
    assert not (home / "compose").exists()


def test_a_change_of_the_home_changes_the_services_that_it_concerns(
    home: Path, engine: Path
) -> None:
    prepare(home, engine)
    first = settings_of(home)
    prepare(home, engine)
    assert settings_of(home) == first

    with (home / "compose/gateway.env").open(encoding="utf-8") as mounted:
        with (home / ".env").open("a") as env:
            env.write("TELEGRAM_ADMINS=4\n")
        prepare(home, engine)
        # What runs has the file itself mounted, and not its name.
        assert dotenv_values(stream=mounted) == {TOKEN: "1:two", "TELEGRAM_ADMINS": "4"}
    second = settings_of(home)
    assert {name for name in first if first[name] != second[name]} == {"HERMES_GATEWAY_HASH"}

    (home / "config.yaml").write_text("model:\n  default: another\n")
    prepare(home, engine)
    third = settings_of(home)
    assert {name for name in first if second[name] != third[name]} == {
        f"HERMES_{service.upper()}_HASH" for service in SERVICES
    }


def test_the_stack_is_told_what_was_made(home: Path, engine: Path) -> None:
    prepare(home, engine)
    settings = settings_of(home)
    text = (ROOT / "docker/compose.yaml").read_text()
    assert {name for name in settings if f"${{{name}" not in text} == set()
    stack = yaml.safe_load(text)
    for service in SERVICES:
        hashed = stack["services"][service]["labels"]["org.hermes.settings"]
        assert f"${{HERMES_{service.upper()}_HASH:?" in hashed
        mounted = {one["source"] for one in stack["services"][service]["secrets"][-1:]}
        assert mounted == {f"{service}-env"}
        file = stack["secrets"][f"{service}-env"]["file"]
        assert file == f"${{HERMES_COMPOSE}}/{service}.env"


def test_the_stack_pulls_none_of_our_images_and_makes_no_folder_for_a_socket() -> None:
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    ours = {name for name, one in services.items() if one["image"].startswith("hermes/")}
    assert ours == {*SERVICES, "certificates", "operator"}
    assert {services[name].get("pull_policy") for name in ours} == {"never"}
    of_the_machine = [one for one in services["executor"]["volumes"] if "${" in str(one)]
    assert len(of_the_machine) == 2
    for mount in of_the_machine:
        assert mount["bind"] == {"create_host_path": False}, mount


@pytest.mark.parametrize("given", ["another user's home", "an engine of root", "no engine"])
def test_what_confines_nothing_is_refused(home: Path, engine: Path, given: str) -> None:
    told = {
        "another user's home": f"cannot enter {home}: chmod o+x {home}",
        "an engine of root": "whoever reaches",
        "no engine": "no engine listens",
    }[given]
    if given != "no engine":
        require("root", os.geteuid() == 0, "only root can make what is another user's")
    if given == "another user's home":
        home.chmod(0o700)
    elif given == "an engine of root":
        os.chown(engine, 0, 0)
    else:
        engine.unlink()
    done = prepare(home, engine)
    assert done.returncode == 1
    assert told in done.stderr
    assert not (home / "compose").exists()


@pytest.mark.parametrize("file", [".env", "config.yaml"])
def test_an_engine_elsewhere_is_refused(home: Path, engine: Path, file: str) -> None:
    host = "tcp://10.0.0.7:2376"
    config = f"executor: {{docker: {{host: {host}}}}}"
    (home / file).write_text(config if file == "config.yaml" else f"DOCKER_HOST={host}")
    done = prepare(home, engine)
    assert done.returncode == 1
    assert f"is {host}, and the stack takes an engine of this machine" in done.stderr
    assert not (home / "compose").exists()
