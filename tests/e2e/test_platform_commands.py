"""Commands about platforms where no gateway runs."""

from pathlib import Path

from tests.e2e.home import Home


def test_without_a_gateway_there_is_an_empty_directory_and_no_status(tmp_path: Path) -> None:
    home = Home.make(tmp_path)
    assert "Nobody waits to be let in" in home.run("pairing", "list").out
    assert home.run("gateway", "directory", "--json").json == []
    status = home.run("gateway", "status")
    assert status.status == 1
    assert status.err == "hermes: the gateway is not running; start it with: hermes up\n"
    sent = home.run("send", "cli", "-", text="from a pipe\n")
    assert sent.out == "to be sent to cli:terminal\n"
    refused = home.run("send", "telegram", "hello")
    assert refused.status == 1
    assert "telegram is not connected here" in refused.err
