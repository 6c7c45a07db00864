"""A parser of command lines whose errors are one line each, with the most similar word or the help to read."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from typing_extensions import override

_STATUS: Final = 2
"""The exit status for an error in the command line, as argparse has it."""


class Parser(argparse.ArgumentParser):
    """argparse's parser, and that of each command and action below it."""

    @override
    def error(self, message: str) -> NoReturn:
        """End the program with one line and status 2."""
        advice = "" if "did you mean" in message else f"; see {self.prog} --help"
        self.exit(_STATUS, f"{self.prog}: {' '.join(message.split())}{advice}\n")

    def refuse(self, rest: Sequence[str], arguments: Iterable[str]) -> NoReturn:
        """End the program for the arguments ``rest``, which the command in ``arguments`` does not have."""
        parser = self._chosen(arguments)
        wrong = next((each.partition("=")[0] for each in rest if each.startswith("-")), None)
        if wrong is None:
            parser.error(f"there is an argument too many: {rest[0]!r}")
        parser.error(f"there is no option {wrong}{_similar_option(wrong, parser._option_string_actions)}")

    def _chosen(self, arguments: Iterable[str]) -> "Parser":
        """Return the parser of the command and action among the arguments."""
        parser = self
        for each in arguments:
            below = next((action for action in parser._actions if isinstance(action, argparse._SubParsersAction)), None)
            if below is None:
                break
            parser = below.choices.get(each, parser)
        return parser

    @override
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError:
            near = _similar(str(value), map(str, action.choices or ()))
            if near is None:
                raise
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}: did you mean {near!r}?") from None


def _similar_option(wrong: str, known: Iterable[str]) -> str:
    """Return ``: did you mean --partitions?`` for the most similar option, or an empty text."""
    near = _similar(wrong.lstrip("-"), [each.lstrip("-") for each in known if each.startswith("--")])
    return f": did you mean --{near}?" if near else ""


def _similar(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), 1)), None)
