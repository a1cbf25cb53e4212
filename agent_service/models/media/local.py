"""Speech and transcripts in this process, by packages that are optional and have no types."""
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import io
from typing import Any

from agent_service.models.media.failures import MediaFailed

OPUS, MP3 = ".ogg", ".mp3"


class Whisper:
    """Models of Whisper, which stay loaded; every method blocks."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def transcribe(self, name: str, sound: bytes) -> tuple[str, float]:
        """What is said in a sound, and its seconds; `name` is a size or a folder."""
        from faster_whisper import WhisperModel

        try:
            if name not in self._loaded:
                self._loaded[name] = WhisperModel(name, device="auto", compute_type="int8")
            model: Any = self._loaded[name]
            segments, info = model.transcribe(io.BytesIO(sound))
            return "".join(segment.text for segment in segments), info.duration
        except (OSError, RuntimeError, ValueError) as error:
            raise MediaFailed(f"Whisper {name} did not listen: {error}") from error


class Piper:
    """A voice of Piper, which stays loaded; every method blocks."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._loaded: Any = None

    def speak(self, text: str, suffix: str) -> bytes:
        """A text as sound in the format of OPUS or MP3."""
        from piper import PiperVoice

        try:
            voice: Any = self._loaded or PiperVoice.load(self._path)
        except (OSError, RuntimeError, ValueError) as error:
            raise MediaFailed(f"The voice {self._path} cannot be loaded: {error}") from error
        self._loaded = voice
        pieces = list[Any](voice.synthesize(text))
        if not pieces:
            raise MediaFailed("There is nothing to say in this text.")
        samples = b"".join(piece.audio_int16_bytes for piece in pieces)
        return _encode(samples, pieces[0].sample_rate, suffix)


def _encode(samples: bytes, rate: int, suffix: str) -> bytes:
    """Samples of 16 bits, in one channel, as a file."""
    import av

    frame: Any = av.AudioFrame(format="s16", layout="mono", samples=len(samples) // 2)
    frame.planes[0].update(samples)
    frame.sample_rate = rate
    file: Any = io.BytesIO()
    container, codec = ("ogg", "libopus") if suffix == OPUS else ("mp3", "libmp3lame")
    output: Any
    with av.open(file, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48_000, layout="mono")
        for packet in (*stream.encode(frame), *stream.encode(None)):
            output.mux(packet)
    return file.getvalue()
