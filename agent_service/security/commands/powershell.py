"""Reads the text of PowerShell as shell text, as far as what it deletes, stops and runs goes."""

import re
from collections.abc import Sequence

_NAMES = {
    "Remove-Item": "remove-item ri rm rd rmdir del erase",
    "Get-ChildItem": "get-childitem gci dir ls",
    "Stop-Computer": "stop-computer",
    "Restart-Computer": "restart-computer",
    "Stop-Process": "stop-process spps kill",
    "Start-Process": "start-process saps start",
    "Invoke-Expression": "invoke-expression iex",
    "Invoke-WebRequest": "invoke-webrequest iwr",
    "Set-Content": "set-content sc out-file",
    "Format-Volume": "format-volume",
    "Clear-Disk": "clear-disk",
}
_CANONICAL = {name: canonical for canonical, names in _NAMES.items() for name in names.split()}
_CALLED = re.compile(r"(^|[|;{(&\n]\s*)([A-Za-z]+(?:-[A-Za-z]+)?)(?![\w.:/-])")
_EACH = re.compile(r"(?:%|\bforeach-object|\bforeach)\s*\{([^{}]*)\}", re.IGNORECASE)
_ENVIRONMENT = re.compile(r"\$env:(\w+)", re.IGNORECASE)


def texts_of(args: Sequence[str]) -> list[str]:
    """The texts that the arguments give PowerShell to run."""
    for number, arg in enumerate(args):
        option = arg.lower()
        if option[:1] in "-/" and len(option) > 1 and "command".startswith(option[1:]):
            return [" ".join(args[number + 1 :])]
    return [arg for arg in args if " " in arg]


def as_shell(text: str) -> str:
    """The text with its commands by their full names, and loops over a pipeline as subshells."""
    text = _ENVIRONMENT.sub(r"${\1}", _EACH.sub(r"(\1)", text))
    return _CALLED.sub(_named, text)


def _named(match: re.Match[str]) -> str:
    return match[1] + _CANONICAL.get(match[2].lower(), match[2])
