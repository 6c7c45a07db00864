"""One-line messages of Spark's errors, with what to do about the usual ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PYTHON_ERROR = re.compile(r"[\w.]*(Error|Exception|Invalid|NotImplemented): ")
_TRACEBACK = "Traceback (most recent call last):"
"""Java's line about an error in Python ends so, and looks like one of Python's own."""
_UNREAD = "FAILED_READ_FILE"
"""Spark's error condition for a file that is gone, damaged or not readable, with the file's path as a parameter."""
_CALL = re.compile(r"An error occurred while calling ")
_LIBRARIES = ("pyspark.", "py4j.")
_NO_CLASS = r"(Class(NotFoundException)?:? |NoClassDefFoundError)"
_NO_SCHEME = "No FileSystem for scheme"
_JAR = "add its jar: --conf spark.jars.packages={}"
_ADVICE = (
    (
        rf"{_NO_CLASS}.*[./](kafka|pool2)[./]",
        "a jar of Spark's connector for Kafka is missing; without --jars Spark downloads all of them",
    ),
    (rf"{_NO_CLASS}.*[./]s3a[./]", _JAR.format("org.apache.hadoop:hadoop-aws:VERSION, of the version of Spark's Hadoop")),
    (rf'{_NO_CLASS}.*[./]azure|{_NO_SCHEME} "(abfs|wasb)', _JAR.format("org.apache.hadoop:hadoop-azure:VERSION")),
    (rf"{_NO_CLASS}.*[./]gs[./]", _JAR.format("com.google.cloud.bigdataoss:gcs-connector:VERSION")),
    (rf'{_NO_SCHEME} "s3n?"', "S3 is s3a:// in Hadoop"),
    (rf"{_NO_CLASS}|{_NO_SCHEME}", _JAR.format("GROUP:ARTIFACT:VERSION")),
    (r"No module named", "the workers' Python lacks it: install it there, or name another Python with PYSPARK_PYTHON"),
    (r"Cannot run program", "the workers do not have this Python: set PYSPARK_PYTHON to one that they have"),
    (r"PYTHON_VERSION_MISMATCH|different version .*than that in driver", "set PYSPARK_PYTHON to a Python of the driver's version"),
    (
        r"All masters are unresponsive|stopped SparkContext|SparkContext was shut down|Master removed our application",
        "check the address in --master, and whether the master runs",
    ),
    (r"Answer from Java side is empty|Error while sending or receiving", "Java has ended; perhaps the machine had no memory left"),
    (r"OutOfMemoryError|Java heap space", "give it more memory: --conf spark.driver.memory=4g, or spark.executor.memory"),
    (r"UnknownTopicOrPartitionException", "check --topic"),
    (
        r"kafka\.common\.errors\.TimeoutException|SslAuthenticationException",
        "check the address in --bootstrap-servers, and security.protocol and the ssl settings in --command-config",
    ),
    (r"SaslAuthenticationException|AuthorizationException", "check the credentials in --command-config and their permissions"),
    (
        r"AccessDenied|AccessControlException|[Pp]ermission denied|Forbidden|[Ss]tatus ?[Cc]ode:? 403",
        "check the credentials and their permissions",
    ),
    (r"UnknownStore|NoSuchBucket|bucket does not exist", "check the name of the bucket"),
    (r"UnknownHostException|ConnectException|Connection refused", "check the address and the network"),
    (r"No space left on device", "free space, or set spark.local.dir to another disk"),
)


@contextmanager
def in_one_line(*, is_verbose: bool = False) -> Iterator[None]:
    """Turn errors of Spark into RuntimeErrors with a message of one line, unless `is_verbose`."""
    try:
        yield
    except Exception as error:
        if is_verbose or not type(error).__module__.startswith(_LIBRARIES):
            raise
        raise RuntimeError(explained(error)) from None


def unread_file(error: BaseException) -> tuple[str, str] | None:
    """Return the path of the file that Spark could not read, and why, if the error says so by its condition."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        reason = cause.getCause()
        if _condition(cause).startswith(_UNREAD):
            text = "" if reason is None else str(reason.getMessage() or reason.getClass().getName())
            return str(cause.getMessageParameters()["path"]), "".join(text.splitlines()[:1])
        cause = reason
    return None


def _condition(throwable: Any) -> str:
    """Return the error condition of a Java exception; only Spark's have one."""
    from py4j.protocol import Py4JError

    try:
        return str(throwable.getCondition())
    except Py4JError:
        return ""


def explained(error: BaseException) -> str:
    """Return the message of a Spark error in one line, with advice if there is any."""
    message, whole = first_line(error), str(error)
    advice = next((advice for cause, advice in _ADVICE if re.search(cause, message) or re.search(cause, whole)), "")
    return f"{message.rstrip('.')}: {advice}" if advice else f"{message} (--verbose shows more)"


def first_line(error: BaseException) -> str:
    """Return the message of a Spark error without plans and stack traces; for an error in a Python process, Python's message."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not _CALL.match(line)] or lines
    raised = [line for line in lines if _PYTHON_ERROR.match(line) and not line.endswith(_TRACEBACK)]
    return next(iter([*raised[:1], *lines]), type(error).__name__)
