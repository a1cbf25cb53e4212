"""Real speech: made by espeak-ng, encoded by ffmpeg, and understood by pocketsphinx."""

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pocketsphinx  # pyright: ignore[reportMissingTypeStubs]

from tests.support.requirements import require

SENTENCES = (
    "the garden is yellow again",
    "my house is blue tomorrow",
    "the window is red today",
    "my river is green again",
)
"""What can be said so that it is understood."""
_GRAMMAR = """#JSGF V1.0;
grammar sentences;
public <sentence> = (the | my) (house | river | garden | window) is
  (red | green | blue | yellow) (today | tomorrow | again);
"""
RATE = 16_000


async def need_sound() -> None:
    """Skip where the programs are missing."""
    for program in ("espeak-ng", "ffmpeg"):
        found = await asyncio.to_thread(shutil.which, program)
        require("sound", found is not None, f"{program} is not installed")


async def spoken(text: str, container: str = "ogg") -> bytes:
    """A text as speech, such as in ogg or mp3."""
    said = await _run(b"", "espeak-ng", "-v", "en-us", "-s", "140", "--stdout", text)
    codec = _OPUS if container == "ogg" else ("-write_xing", "0", "-b:a", "64k")
    return await _run(said, *_FFMPEG, *codec, "-f", container, "-")


async def understood(sound: bytes) -> str:
    """Which of the sentences is said in a file of any format; empty for something else."""
    samples = await _run(sound, *_FFMPEG, "-ar", str(RATE), "-ac", "1", "-f", "s16le", "-")
    return await asyncio.to_thread(_understood, samples)


async def container_of(sound: bytes) -> str:
    """The format of a file and its codec, such as `ogg opus`."""
    asked = ("-show_entries", "format=format_name:stream=codec_name", "-of", "csv=p=0")
    said = await _run(sound, "ffprobe", "-loglevel", "error", *asked, "-")
    codec, container = said.decode().split()
    return f"{container} {codec}"


_OPUS = ("-c:a", "libopus", "-b:a", "32k")
_FFMPEG = ("ffmpeg", "-loglevel", "error", "-i", "-")


async def _run(given: bytes, *argv: str) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    out, _ = await process.communicate(given)
    assert process.returncode == 0, argv
    return out


def _understood(samples: bytes) -> str:
    decoder = _decoder()
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()
    found = decoder.hyp()
    return "" if found is None else found.hypstr


def _decoder() -> Any:
    with TemporaryDirectory() as folder:
        grammar = Path(folder) / "sentences.gram"
        grammar.write_text(_GRAMMAR)
        sphinx: Any = pocketsphinx
        return sphinx.Decoder(samprate=RATE, loglevel="FATAL", lm=None, jsgf=str(grammar))
