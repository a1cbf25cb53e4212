"""How much memory another process takes."""

from pathlib import Path


class Memory:
    """How much memory a process takes more than before, at its highest."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        (self._folder / "clear_refs").write_text("5")  # forgets the peak
        self._before_kib = self._kib("VmRSS")

    def grown_mib(self) -> float:
        """The peak since then, over what it was."""
        return (self._kib("VmHWM") - self._before_kib) / 1024

    def _kib(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
