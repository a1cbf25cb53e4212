"""A chat says that its home was moved away."""

from pathlib import Path

from services.cli.chat.talk import watch_home


async def test_it_is_told_once(tmp_path: Path) -> None:
    home, told = tmp_path / "home", list[str]()
    await watch_home(home, lambda text, _style: told.append(text), every_s=0.01)
    (line,) = told
    assert line.startswith(f"{home} is gone, ")
    assert "--home" in line
