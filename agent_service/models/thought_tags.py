"""Separates reasoning that a model writes between tags in its text from its answer.

Recalled memory that a model repeats with its tags is taken out of the answer in the same way.
"""

import re

_NAME = (
    r"(?:[a-z]+[:_]){0,2}(?:ant)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|monologue"
    r"|cot)(?:_process|_scratchpad|_fast(?:er)?)?|analysis|recalled_memory"
)
_TAG = re.compile(
    rf"(?P<opening><\|?(?!end_)(?:{_NAME})(?: [^<>]*)?\|?>|\[think(?:ing)?\]|◁think▷"
    r"|<\|channel\|>(?:analysis|commentary)<\|message\|>|<\|channel>thought\b|<\|inner_prefix\|>)"
    rf"|<\|?(?:/|end_)(?:{_NAME}) ?\|?>|\[/think(?:ing)?\]|◁/think▷"
    r"|(?P<mark><\|(?:end|return|(?:begin_of|start|end_of|end)_(?:solution|response))\|>"
    r"|<\|start\|>assistant)|<\|channel\|>final<\|message\|>|<channel\|>|<\|inner_suffix\|>",
    re.IGNORECASE,
)
_BEGUN_TAG = re.compile(
    r"[<\[◁][a-z:/_|]{0,24}$|<[a-z:/_|]{5,24} [^<>\n]{0,40}$"
    r"|<\|(?:channel\|?>?|start\|>)[a-z]*(?:<\|?[a-z]*\|?)?$",
    re.IGNORECASE,
)
_QUOTES = ('"', "'", "“")


class ThoughtTags:
    """Reads the text of one answer.

    An opening tag counts at the start of a line, outside code. A closing tag without one ends
    reasoning that the model's template began, unless it is a word in a sentence.
    """

    def __init__(self, *, begun: bool = False) -> None:
        """`begun`: the template begins the reasoning, as an earlier answer showed."""
        self.found = False
        """Whether the text had such tags."""
        self.ends_alone = False
        """Whether a closing tag showed that the template begins the reasoning."""
        self._rest = ""
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._is_thinking = self._begun = begun
        self._strips = self._speaks_of_tags = False

    @property
    def text(self) -> str:
        return "".join(self._text).lstrip() if self.found else "".join(self._text)

    @property
    def thoughts(self) -> str:
        return "".join(self._thoughts).strip()

    def feed(self, piece: str, is_last: bool = False) -> tuple[str, str]:
        """Take in a piece of text; return what it adds to the answer and to the reasoning."""
        self._rest += piece
        added: list[tuple[str, str]] = []
        while tag := _TAG.search(self._rest):
            added.append(self._take(self._rest[: tag.start()]))
            self._rest = self._rest[tag.end() :]
            if not self._counts(tag):
                added.append(self._take(tag.group()))
        begun = None if is_last else _BEGUN_TAG.search(self._rest)
        end = begun.start() if begun else len(self._rest)
        added.append(self._take(self._rest[:end]))
        self._rest = self._rest[end:]
        if is_last and self._begun and not self.found:
            # It has answered without reasoning.
            self._text, self._thoughts, self._begun = self._thoughts, [], False
            return self.text, ""
        return "".join(text for text, _ in added), "".join(thought for _, thought in added)

    def _take(self, piece: str) -> tuple[str, str]:
        if self._is_thinking:
            self._thoughts.append(piece)
            return "", piece
        if self._strips:
            piece = piece.lstrip()
            self._strips = not piece
        self._text.append(piece)
        return piece, ""

    def _counts(self, tag: re.Match[str]) -> bool:
        """Whether a tag is one; if so, go on behind it."""
        opens = bool(tag["opening"])
        if tag["mark"] and not self.found:
            return False
        if not self._is_thinking:
            before = "".join(self._text)
            line = before.rpartition("\n")[2]
            is_quoted = before.count("```") % 2 or line.count("`") % 2 or line.endswith(_QUOTES)
            is_in_prose = line.strip() and (opens or line[-1].isspace())
            # Answers have such elements of their own, but they do not begin with them.
            is_element = "analysis>" in tag.group().lower() and (before.strip() or not opens)
            if is_quoted or self._speaks_of_tags or is_in_prose or is_element:
                self._speaks_of_tags = self._speaks_of_tags or opens
                return False
            if not opens and not self.found:
                self.ends_alone = bool(before.strip())
                self._thoughts.append(before)
                self._text.clear()
        self.found, self._is_thinking, self._strips = True, opens, not opens
        return True
