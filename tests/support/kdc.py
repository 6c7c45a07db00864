"""A Kerberos realm for tests: MIT's KDC as an ordinary process in a directory of its own."""

import functools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.budget import patient
from tests.support.eventually import WAIT_S
from tests.support.ports import free_port
from tests.support.processes import start_tied

REALM = "TEST.EXAMPLE"
TICKET_LIFETIME_S = 3600
START_TIMEOUT_S = patient(30)
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")

_CLIENT_CONF = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    dns_uri_lookup = false
    rdns = false
    udp_preference_limit = 1
    clockskew = {clock_skew_s}
    ticket_lifetime = {lifetime_s}
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    localhost = {realm}
"""

_KDC_CONF = """\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        max_life = 1d
        max_renewable_life = 0
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""


@functools.cache
def missing() -> str | None:
    """Return what a test with Kerberos lacks here, None if nothing."""
    absent = [tool for tool in _TOOLS if shutil.which(tool, path=_PATH) is None]
    if absent:
        return f"needs {', '.join(absent)} (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
    try:
        import gssapi  # noqa: F401
    except ImportError as error:
        return f"needs python-gssapi ({error})"
    return None


class Kdc:
    """One realm, with the principals that a test adds to it."""

    def __init__(self, folder: Path, clock_skew_s: int = 300) -> None:
        self.folder = folder
        self.port = free_port()
        self.krb5_conf = folder / "krb5.conf"
        self._kdc_conf = folder / "kdc.conf"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"realm": REALM, "port": self.port, "folder": folder, "lifetime_s": TICKET_LIFETIME_S}
        self.krb5_conf.write_text(_CLIENT_CONF.format(clock_skew_s=clock_skew_s, **settings))
        self._kdc_conf.write_text(_KDC_CONF.format(**settings))

    @property
    def environment(self) -> dict[str, str]:
        """What clients and servers of the realm need, but for Java's; their credentials and replays are kept in the folder."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5CCNAME": f"FILE:{self.folder / 'ccache'}",
            "KRB5RCACHEDIR": str(self.folder),
            "KRB5_KTNAME": f"FILE:{self.folder / 'none.keytab'}",
            "KRB5_CLIENT_KTNAME": f"FILE:{self.folder / 'none.keytab'}",
        }

    def start(self) -> None:
        """Make the realm and start the KDC."""
        self._run("kdb5_util", "create", "-s", "-W", "-r", REALM, "-P", "master")
        self.run()

    def run(self) -> None:
        """Start the KDC, for the first time or again."""
        command = [_tool("krb5kdc"), "-n", "-r", REALM, "-P", str(self.folder / "kdc.pid")]
        output = (self.folder / "kdc.out").open("ab")
        with output:
            self._process = start_tied(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=self._environment())
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the KDC did not start:\n{(self.folder / 'kdc.out').read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the KDC; the realm stays."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(START_TIMEOUT_S)

    def add(self, *principals: str, lifetime: str = "1h") -> Path:
        """Add principals with random keys; return a keytab that has those of all of them."""
        keytab = self.folder / f"{principals[0].replace('/', '.')}.keytab"
        commands = [f'addprinc -randkey -maxlife "{lifetime}" {each}' for each in principals]
        self.administer(*commands, f"ktadd -k {keytab} {' '.join(principals)}")
        return keytab

    def administer(self, *commands: str) -> None:
        """Run commands of kadmin."""
        self._run("kadmin.local", "-r", REALM, stdin="\n".join(commands))

    def log_in(self, keytab: Path, principal: str, lifetime: str = "1h") -> str:
        """Return the name of a cache with a ticket of the principal's."""
        cache = f"FILE:{self.folder / principal.replace('/', '.')}.ccache"
        self._run("kinit", "-l", lifetime, "-k", "-t", str(keytab), "-c", cache, principal)
        return cache

    def _run(self, *command: str, stdin: str = "") -> None:
        words = [_tool(command[0]), *command[1:]]
        done = subprocess.run(
            words, input=stdin.encode(), capture_output=True, timeout=patient(60), check=False, env=self._environment()
        )
        told = (done.stdout + done.stderr).decode()
        # kadmin.local ends with 0 whatever fails.
        has_failed = done.returncode != 0 or any(word in told for word in _failures(command[0]))
        assert not has_failed, f"{command[0]}: {told}"

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self._kdc_conf)}


def _failures(tool: str) -> Sequence[str]:
    return (" while ", "rror:") if tool == "kadmin.local" else ()


def _tool(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    assert found is not None, name
    return found


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S).close()
    except OSError:
        return False
    return True
