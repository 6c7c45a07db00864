"""JAAS configurations as Kafka writes them: login modules with a flag and options, each ended by a semicolon.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" user_alice="alice-secret";

Words, quotes, escapes and comments are those of Java's StreamTokenizer, which Kafka's JaasConfig reads them with. Values that begin
with a digit have to be quoted. The errors name neither values nor options: both may be secrets.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from typing_extensions import override

FLAGS: Final = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")

_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"
_END: Final = ";"
_EQUALS: Final = "="


class JaasError(ValueError):
    """A configuration that does not parse; the text says why in one line."""


class JaasEntry(NamedTuple):
    """A login module with its options."""

    login_module: str
    flag: str
    options: Mapping[str, str]

    @override
    def __repr__(self) -> str:
        return f"JaasEntry({self.login_module}, {self.flag}, {len(self.options)} options)"

    @property
    def module_name(self) -> str:
        """The class name without its package: ``PlainLoginModule``."""
        return self.login_module.rpartition(".")[2]


class _Token(NamedTuple):
    text: str
    is_word: bool


def parse_jaas(text: str) -> tuple[JaasEntry, ...]:
    """Return the entries, at least one; raise JaasError."""
    tokens = list(_tokens(text))
    entries = []
    position = 0
    while position < len(tokens):
        entry, position = _entry(tokens, position)
        entries.append(entry)
    if not entries:
        raise JaasError("it names no login module")
    return tuple(entries)


def options_of(entries: Iterable[JaasEntry], module_name: str) -> dict[str, str]:
    """Return the options of a login module; those of its last entry count."""
    return {name: text for entry in entries if entry.module_name == module_name for name, text in entry.options.items()}


def _entry(tokens: list[_Token], position: int) -> tuple[JaasEntry, int]:
    module = tokens[position]
    if not module.is_word:
        raise JaasError("it must begin with the name of a login module")
    if position + 1 >= len(tokens):
        raise JaasError("the login module has no control flag")
    flag = tokens[position + 1]
    if not flag.is_word or flag.text.upper() not in FLAGS:
        raise JaasError(f"the control flag must be one of {', '.join(FLAGS)}")
    position += 2
    options: dict[str, str] = {}
    while position < len(tokens) and tokens[position] != (_END, False):
        key, equals, value = _option(tokens, position)
        if not (key.is_word and equals == (_EQUALS, False) and value is not None and value.is_word):
            raise JaasError(f"option {len(options) + 1} of the login module is not of the form name=value")
        options[key.text] = value.text
        position += 3
    if position >= len(tokens):
        raise JaasError("the entry of a login module must end with a semicolon")
    return JaasEntry(module.text, flag.text.upper(), options), position + 1


def _option(tokens: list[_Token], position: int) -> tuple[_Token, _Token | None, _Token | None]:
    rest: list[_Token | None] = [*tokens[position + 1 : position + 3], None, None]
    return tokens[position], rest[0], rest[1]


def _tokens(text: str) -> Iterator[_Token]:
    position, end = 0, len(text)
    while position < end:
        char = text[position]
        if char <= " ":
            position += 1
        elif char == "/":
            position = _after_comment(text, position)
        elif char in "\"'":
            value, position = _quoted(text, position)
            yield _Token(value, True)
        elif _is_number(text, position):
            start = position
            position += 1
            while position < end and text[position] in "0123456789.":
                position += 1
            yield _Token(text[start:position], False)  # Java has read a number: no word
        elif _is_word(char):
            start = position
            while position < end and (_is_word(text[position]) or text[position] in "0123456789.-"):
                position += 1
            yield _Token(text[start:position], True)
        else:
            yield _Token(char, False)
            position += 1


def _after_comment(text: str, position: int) -> int:
    """Return where a comment ends: ``/* */``, or the rest of the line after ``//`` and, as in Java, after a single slash."""
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _quoted(text: str, position: int) -> tuple[str, int]:
    """Return a quoted value and the position after it. Like in Java, the end of the line ends it too."""
    quote = text[position]
    position += 1
    found = []
    while position < len(text) and text[position] not in (quote, "\n", "\r"):
        char = text[position]
        position += 1
        if char == "\\" and position < len(text):
            char = text[position]
            if char in _OCTAL:
                char, position = _octal(text, position)
            else:
                char = _ESCAPES.get(char, char)
                position += 1
        found.append(char)
    if position < len(text) and text[position] == quote:
        position += 1
    return "".join(found), position


def _octal(text: str, position: int) -> tuple[str, int]:
    longest = 3 if text[position] in "0123" else 2
    end = position
    while end < len(text) and end - position < longest and text[end] in _OCTAL:
        end += 1
    return chr(int(text[position:end], 8)), end


def _is_number(text: str, position: int) -> bool:
    char = text[position]
    if char == "-":
        return text[position + 1 : position + 2] in tuple("0123456789.")
    return char in "0123456789."


def _is_word(char: str) -> bool:
    return ("a" <= char <= "z") or ("A" <= char <= "Z") or char in "_$" or char >= "\xa0"
