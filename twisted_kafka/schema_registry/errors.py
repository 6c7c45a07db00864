"""Errors of the registry, with Confluent's codes."""

from typing import Final

UNPROCESSABLE: Final = 422
CONFLICT: Final = 409
SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
SUBJECT_SOFT_DELETED: Final = 40404
SUBJECT_NOT_SOFT_DELETED: Final = 40405
VERSION_SOFT_DELETED: Final = 40406
VERSION_NOT_SOFT_DELETED: Final = 40407
NO_SUBJECT_CONFIG: Final = 40408
NO_SUBJECT_MODE: Final = 40409
INVALID_SCHEMA: Final = 42201
INVALID_VERSION: Final = 42202
INVALID_COMPATIBILITY: Final = 42203
INVALID_MODE: Final = 42204
NOT_PERMITTED: Final = 42205
REFERENCE_EXISTS: Final = 42206
INVALID_SUBJECT: Final = 42208
SCHEMA_TOO_LARGE: Final = 42209
STORE_ERROR: Final = 50001
STORE_TIMEOUT: Final = 50002

_LAST_STATUS: Final = 999


class RegistryError(Exception):
    """An error answer: a code, Confluent's or an HTTP status, and one line."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status: the first three digits of the code."""
        return status_of(self.code)


def status_of(code: int) -> int:
    """Return the HTTP status of an error code."""
    return code if code <= _LAST_STATUS else code // 100


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(VERSION_NOT_FOUND, f"Version {version} not found.")


def schema_not_found(which: object = None) -> RegistryError:
    return RegistryError(SCHEMA_NOT_FOUND, "Schema not found" if which is None else f"Schema {which} not found")


def invalid_version(version: str) -> RegistryError:
    text = (
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"'
    )
    return RegistryError(INVALID_VERSION, text)


def invalid_schema(why: str) -> RegistryError:
    return RegistryError(INVALID_SCHEMA, why)


def not_permitted(why: str) -> RegistryError:
    return RegistryError(NOT_PERMITTED, why)
