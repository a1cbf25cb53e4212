"""What program text deletes: which of its literals name what is removed, or walked and removed."""

import re
from collections.abc import Iterator, Sequence

from agent_service.security.commands.marks import UNKNOWN
from agent_service.security.commands.paths import HOME, Place, place
from agent_service.security.commands.scene import Finding, Reach

_HOME_SAID = (
    r"(?:(?:os\.path\.)?expand(?:user|_path)\(\s?[\"']~[\"']\s?\)"
    r"|(?:(?:Posix)?Path|Dir)\.home(?:\(\))?|(?:\w+\.){0,2}(?:homedir|UserHomeDir)\(\)"
    r"|\$?(?:\w+\.){0,2}(?:environ|ENV|env|_SERVER|_ENV|getenv|Getenv|getProperty)(?:\.get|\.fetch)?"
    r"\s?[\[({]\s?[\"']?(?:HOME|user\.home)[\"']?[^\])}\n]{0,80}[\])}]"
    r"|(?:process|Bun)\.env\.HOME|\$(?:env:)?\{?HOME\}?\b)"
)
_HOME_INSIDE = re.compile(rf"[$#]?\{{\s?{_HOME_SAID}\s?\}}|(?<=[\"']){_HOME_SAID}(?=[/\"'])")
_HOME = re.compile(rf"{_HOME_SAID}(?:\s?([+./])\s?([\"']))?")
_TILDE = re.compile(r"([\"'])~(?=[/\"'])")
_JOINS = re.compile(r"\b(join|Join|resolve)\(\s?([\"'])([^\"'\n]*)\2\s?,\s?([\"']?)")
_BEGINS = re.compile(r"([\"'])(/[^\"'\n]*)\1(?=\s?\+\s?[\w$]|\s?\.\s?\$)")
# A slash between names says nothing of what is deleted.
_SEPARATES = re.compile(
    r"(?:\.\w*(?:[sS]plit|join|[sS]trip|[rR]eplace\w*|partition|[wW]ith\??|[iI]ndex\w*|count"
    r"|[pP]refix|[sS]uffix)|\b(?:ex|im)plode)\(\s?([\"'])/\1(?:\s?\)|(?=\s?,))"
    r"|([\"'])/\2\s?(?:\.join|\bin\b)|(?<=[+.])\s?([\"'])/\3\s?(?=[+.])|[!=]==?\s?([\"'])/\4"
)
_DELETES = re.compile(
    r"rmtree|rm_rf|rm_r\b|remove_dir|remove_tree|rimraf|rmSync|fs\.rm\b|rmdirSync|rmdir\b|"
    r"remove_entry|secure_rm"
    r"|deltree|File::Path|removeSync|emptyDir|RemoveAll|DirectoryNotEmpty|Remove-Item|"
    r"\bremovedirs\b|Directory\]?(?:::|\.)Delete"
    r"|unlink\s*\(?\s*(?:glob|<)|Deno\.remove|FileUtils\.remove|file\.remove|Dir\.delete|rm_tree|"
    r"delete_recursive|deleteDirectory|recursive\s*[=:]\s*(?:true|TRUE|True)"
)
_DELETES_ONE = re.compile(
    r"\b[uU]nlink|os\.[rR]emove\b|File\.delete|rmSync|Deno\.remove|\bremove_file|File\.Delete"
)
# Every file of a folder, one by one.
_WALKS_HERE = re.compile(
    r"(?:glob|Dir)\w*\s*[(\[]\s*[\"'](?:\*\*?/?)+[\"']|listdir|iterdir|os\.walk|scandir|readdir"
    r"|each_child|Dir\.children|DirectoryIterator|\brglob|Find\.find|File::Find|WalkDir"
)
_WALKED = re.compile(
    r"(?:walk\w*|Walk\w*|r?glob\w*|iglob|listdir|scandir|readdir\w*|opendir|DirectoryIterator"
    r"|\bfind|children|each_child|\bentries|\bDir|EnumerateFiles|GetFiles)"
    r"\s?[(\[ ]\s?[\"']([^\"'\n]*)[\"']"
    r"|Path\w*(?:\.new)?\(\s?[\"']([^\"'\n]*)[\"']\s?\)\.(?:r?glob|iterdir|walk|children|find)"
    r"|(?<![\w.])[\"'](/[^\"'\n]*)[\"']\.(?:r?glob|iterdir|walk)"
    r"|\b(?:find|finddepth)\s?\(?\s?(?:sub\b|\\?&|\{)[^\n]{0,200}?,\s?[\"']([^\"'\n]*)[\"']\s?\)?\s?;?\s?$",
    re.MULTILINE,
)


def with_home(code: str) -> str:
    """The text with the expressions that stand for the home written as what they are."""
    if "ome" in code or "HOME" in code or "~" in code:
        code = _HOME_INSIDE.sub(HOME, code)
        code = _HOME.sub(_quoted_home, code)
    if "~" in code:
        code = _TILDE.sub(rf"\1{HOME}", code)
    return code


def _quoted_home(match: re.Match[str]) -> str:
    operator, quote = match[1], match[2]
    if not quote:
        return f'"{HOME}"'
    return f"{quote}{HOME}{'/' if operator == '/' else ''}"


def deletes(code: str, paths: Sequence[str]) -> Iterator[Finding]:
    """What is deleted of the paths that the text names."""
    if _DELETES.search(code):
        found = {place(path) for path in paths}
        if Place.ROOT in found:
            yield Finding("delete-root")
        yield Finding("recursive-delete", Reach.OUTSIDE if Place.TMP not in found else None)
    elif _DELETES_ONE.search(code) and (_WALKS_HERE.search(code) or _WALKED.search(code)):
        walked = (next(filter(None, match.groups()), "") for match in _WALKED.finditer(code))
        if any(place(path) is Place.ROOT for path in walked):
            yield Finding("delete-root")
        yield Finding("workspace-delete")


def without_separators(code: str) -> str:
    """The text with the parts of paths put together, and without slashes that only part names."""
    for _ in range(4):
        joined = _JOINS.sub(_joined, code)
        if joined == code:
            break
        code = joined
    return _BEGINS.sub(rf"\1\2{UNKNOWN}\1", _SEPARATES.sub(" ", code))


def _joined(match: re.Match[str]) -> str:
    call, quote, path, following = match.groups()
    start = f"{call}({following or quote}{path.rstrip('/')}/"
    return start if following else f"{start}{UNKNOWN}{quote} "
