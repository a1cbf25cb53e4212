"""The wheel of the product, and a virtual environment with it alone."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel without a network."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, ROOT], check=True)
    return next(folder.glob("hermes_services-*.whl"))


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment; return its `hermes`.

    What the wheel depends on is that of this environment, as there may be no network.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    dependencies = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(dependencies))
    own = ["--python", folder / "bin" / "python"]
    options = ["--quiet", "--no-deps", "--no-index", "--ignore-installed"]
    subprocess.run([sys.executable, "-m", "pip", *own, "install", *options, wheel], check=True)
    return folder / "bin" / "hermes"
