"""How much memory other processes take."""

from pathlib import Path


class Memory:
    """How much memory processes take more than before, each at its highest."""

    def __init__(self, *pids: int) -> None:
        self._before_kib: dict[Path, int] = {}
        for folder in [Path(f"/proc/{pid}") for pid in pids]:
            (folder / "clear_refs").write_text("5")  # forgets the peak
            self._before_kib[folder] = _kib(folder, "VmRSS")

    def grown_mib(self) -> float:
        """The peaks since then, over what they were."""
        grown = (_kib(folder, "VmHWM") - before for folder, before in self._before_kib.items())
        return sum(grown) / 1024


def _kib(process: Path, name: str) -> int:
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
