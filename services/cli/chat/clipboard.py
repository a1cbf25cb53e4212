"""The picture in the clipboard, by the program that the desktop has for it."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from services.home.message_files import Attachment
from services.ids import new_id

PROGRAMS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
NO_PICTURE = "The clipboard has no picture."
NO_PROGRAM = "Pasting pictures needs wl-paste, xclip or pngpaste. You can drop a file here as well."
LIMIT_S = 5.0


async def paste_picture(
    folder: Path, insert: Callable[[str], object], tell: Callable[[str, str], object]
) -> None:
    """Save the clipboard's picture in a folder and insert its name, or tell why there is none."""
    programs = [argv for argv in PROGRAMS if shutil.which(argv[0])]
    for argv in programs:
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                data, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            continue
        if Attachment("", data).is_picture:
            path = folder / f"{new_id('pasted')}.png"
            await asyncio.to_thread(_write, path, data)
            insert(f'@"{path}" ')
            return
    tell(NO_PICTURE if programs else NO_PROGRAM, "dim")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
