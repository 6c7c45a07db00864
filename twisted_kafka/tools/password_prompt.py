"""Asks for a password, twice at a terminal, or reads it from standard input."""

import sys


def ask_password(user: str) -> str:
    """Return a new password; raise ValueError if it is empty, or if the two differ."""
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        import getpass

        password = getpass.getpass(f"Password of {user}: ")
        if getpass.getpass("Again: ") != password:
            raise ValueError("the two passwords differ: run the command again")
    if not password:
        raise ValueError("the password is empty: type one at the prompt, or write it to the standard input")
    return password
