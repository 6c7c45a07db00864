"""``twisted-kafka completion``: scripts that complete commands, actions and options in bash, zsh and fish."""

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "twisted-kafka"


class Node(NamedTuple):
    """A command or an action: the words that follow it."""

    path: tuple[str, ...]
    commands: dict[str, str]
    """Commands or actions with their help texts."""
    options: dict[str, str]
    values: dict[str, tuple[str, ...]]
    """The choices of options, by option."""
    words: tuple[str, ...]
    """The choices of the first positional argument."""


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        f"{parser.description} For bash: source <(twisted-kafka completion bash) in ~/.bashrc. For zsh: the same with zsh in "
        "~/.zshrc. For fish: twisted-kafka completion fish > ~/.config/fish/completions/twisted-kafka.fish."
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from twisted_kafka.tools.main import make_parser

    nodes = list(_nodes((), make_parser()))
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](nodes)
    print(script, end="")
    return 0


def _nodes(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Node]:
    commands: dict[str, str] = {}
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    words: tuple[str, ...] = ()
    children = []
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            commands = {choice.dest: choice.help or "" for choice in each._choices_actions}
            children = list(each.choices.items())
        elif not each.option_strings:
            words = words or tuple(map(str, each.choices or ()))
        for option in each.option_strings:
            if option.startswith("--"):
                options[option] = _text(each.help or "")
            if each.choices:
                values[option] = tuple(map(str, each.choices))
    yield Node(path, commands, options, values, words)
    for name, child in children:
        yield from _nodes((*path, name), child)


def _text(text: str) -> str:
    """Return the beginning of a help text, in one line without formats."""
    return " ".join(text.split("[default")[0].split("(default")[0].split("%(")[0].split()).rstrip(" :;,")


def _words(node: Node) -> str:
    return " ".join((*node.commands, *node.words, *node.options))


def _bash(nodes: list[Node]) -> str:
    lines = [
        f"# bash completion of {_PROGRAM}",
        "_twisted_kafka() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path="" each',
        '    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        case "$path $each" in',
        *(
            f'            "{_joined(node.path[:-1])} {node.path[-1]}") path="{_joined(node.path)}" ;;'
            for node in nodes
            if node.path
        ),
        "        esac",
        "    done",
        '    case "$path $previous" in',
        *(
            f'        "{_joined(node.path)} {option}") COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$word")); return ;;'
            for node in nodes
            for option, values in node.values.items()
        ),
        '        *" --command-config") COMPREPLY=($(compgen -f -- "$word")); return ;;',
        "    esac",
        '    case "$path" in',
        *(f'        "{_joined(node.path)}") COMPREPLY=($(compgen -W "{_words(node)}" -- "$word")) ;;' for node in nodes),
        "    esac",
        "}",
        f"complete -o default -F _twisted_kafka {_PROGRAM}",
    ]
    return "\n".join(lines) + "\n"


def _joined(path: tuple[str, ...]) -> str:
    return "/".join(path)


def _zsh(nodes: list[Node]) -> str:
    lines = [
        f"#compdef {_PROGRAM}",
        "_twisted_kafka() {",
        '    local previous="${words[CURRENT-1]}" here="" each',
        "    local -a found",
        '    for each in "${(@)words[2,CURRENT-1]}"; do',
        '        case "$here $each" in',
        *(
            f'            "{_joined(node.path[:-1])} {node.path[-1]}") here="{_joined(node.path)}" ;;'
            for node in nodes
            if node.path
        ),
        "        esac",
        "    done",
        '    case "$here $previous" in',
        *(
            f'        "{_joined(node.path)} {option}") compadd -- {" ".join(values)}; return ;;'
            for node in nodes
            for option, values in node.values.items()
        ),
        '        *" --command-config") _files; return ;;',
        "    esac",
        '    case "$here" in',
        *(f'        "{_joined(node.path)}") found=({" ".join(_described(node))}) ;;' for node in nodes),
        "    esac",
        f"    _describe {_PROGRAM} found || _files",
        "}",
        f'if [ "$funcstack[1]" = _twisted_kafka ]; then _twisted_kafka "$@"; else compdef _twisted_kafka {_PROGRAM}; fi',
    ]
    return "\n".join(lines) + "\n"


def _described(node: Node) -> Iterator[str]:
    for name, text in {**node.commands, **dict.fromkeys(node.words, ""), **node.options}.items():
        shown = f":{text}" if text else ""
        yield _quoted(f"{name}{shown}")


def _fish(nodes: list[Node]) -> str:
    lines = [
        f"# fish completion of {_PROGRAM}",
        "function __twisted_kafka_at",
        "    set -l here ''",
        "    for each in (commandline -opc)[2..-1]",
        '        switch "$here $each"',
        *(
            f"            case '{_joined(node.path[:-1])} {node.path[-1]}'\n                set here '{_joined(node.path)}'"
            for node in nodes
            if node.path
        ),
        "        end",
        "    end",
        '    test "$here" = "$argv[1]"',
        "end",
        f"complete -c {_PROGRAM} -f",
    ]
    for node in nodes:
        start = f"complete -c {_PROGRAM} -n \"__twisted_kafka_at '{_joined(node.path)}'\""
        lines += [f"{start} -a {name} -d {_quoted(text)}" for name, text in node.commands.items()]
        lines += [f"{start} -a {name}" for name in node.words]
        for option, text in node.options.items():
            values = (
                f" -xa '{' '.join(node.values[option])}'"
                if option in node.values
                else " -rF"
                if option == "--command-config"
                else ""
            )
            lines.append(f"{start} -l {option.removeprefix('--')}{values} -d {_quoted(text)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("'", "") + "'"
