"""What a TLS listener refuses by default: a scan of all versions and cipher suites, by hand and with openssl."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.budget import patient
from tests.support.certificates import Authority
from tests.support.tls_scanner import SSL_3_0, TLS_1_0, TLS_1_1, TLS_1_2, accepted_suites
from twisted_kafka import Broker
from twisted_kafka.broker.broker import StartError

pytestmark = pytest.mark.medium

SUITES = {
    0x002F: "RSA_WITH_AES_128_CBC_SHA",
    0x0035: "RSA_WITH_AES_256_CBC_SHA",
    0x003C: "RSA_WITH_AES_128_CBC_SHA256",
    0x003D: "RSA_WITH_AES_256_CBC_SHA256",
    0x009C: "RSA_WITH_AES_128_GCM_SHA256",
    0x009D: "RSA_WITH_AES_256_GCM_SHA384",
    0x0033: "DHE_RSA_WITH_AES_128_CBC_SHA",
    0x0039: "DHE_RSA_WITH_AES_256_CBC_SHA",
    0x0067: "DHE_RSA_WITH_AES_128_CBC_SHA256",
    0x006B: "DHE_RSA_WITH_AES_256_CBC_SHA256",
    0x009E: "DHE_RSA_WITH_AES_128_GCM_SHA256",
    0x009F: "DHE_RSA_WITH_AES_256_GCM_SHA384",
    0xCCAA: "DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xC013: "ECDHE_RSA_WITH_AES_128_CBC_SHA",
    0xC014: "ECDHE_RSA_WITH_AES_256_CBC_SHA",
    0xC027: "ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    0xC028: "ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    0xC02F: "ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    0xC030: "ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    0xCCA8: "ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xC009: "ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    0xC00A: "ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    0xC023: "ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC024: "ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    0xC02B: "ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02C: "ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    0xCCA9: "ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
}
"""What may be accepted with TLS 1.2: as Java's defaults, AES or ChaCha20, and an exchange that authenticates the broker.

Whatever has NULL, EXPORT, RC4, DES, 3DES or no authentication has other numbers.
"""

WEAK = re.compile(r"NULL|EXP|RC4|DES|ADH|AECDH|PSK|SRP|IDEA|SEED|CAMELLIA|ARIA|CCM8")
AUTHORITY = Authority()


@pytest.fixture(scope="module", params=["RSA", "ECDSA"])
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("tls")
    identity = AUTHORITY.issue("CN=broker", ["localhost"], is_rsa=request.param == "RSA")
    with Broker(settings(identity.write_pem(folder / "broker.pem")), data_dir=folder / "data") as broker:
        yield broker.listeners[0].port


def settings(store: Path) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.pem.replace("\n", " "),
    }


@pytest.mark.parametrize("version", [SSL_3_0, TLS_1_0, TLS_1_1])
def test_old_versions_are_refused_with_every_suite(port: int, version: int) -> None:
    assert accepted_suites(port, version) == set()


def test_weak_suites_are_refused(port: int) -> None:
    accepted = accepted_suites(port, TLS_1_2)
    assert {hex(suite) for suite in accepted - SUITES.keys()} == set()
    assert len(accepted) > 5


def connects(port: int, *options: str) -> bool:
    """Whether ``openssl s_client`` gets a session."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=patient(30), check=False)
    text = (done.stdout + done.stderr).decode(errors="replace")
    assert "CONNECTED" in text, text
    return re.search(r"^New, TLS.*Cipher is (?!\(NONE\))", text, re.MULTILINE) is not None


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program")
def test_openssl_gets_no_session_with_what_is_weak(port: int) -> None:
    options = subprocess.run(["openssl", "s_client", "-help"], capture_output=True, text=True, check=True).stderr
    anything = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"
    assert connects(port, "-tls1_2")
    assert connects(port, "-tls1_3")
    for version in ("-ssl3", "-tls1", "-tls1_1"):
        if re.search(rf"^ *{version} ", options, re.MULTILINE):
            assert not connects(port, version, "-cipher", anything), version
    listed = subprocess.run(["openssl", "ciphers", anything], capture_output=True, text=True, check=True).stdout
    weak = [name for name in listed.strip().split(":") if WEAK.search(name)]
    assert len(weak) > 10
    assert not connects(port, "-tls1_2", "-cipher", f"{':'.join(weak)}:@SECLEVEL=0")


WEAK_NAMES = (
    "NULL-SHA256",
    "ECDHE-RSA-NULL-SHA",
    "AECDH-AES256-SHA",
    "ADH-AES128-SHA",
    "RC4-SHA",
    "DES-CBC3-SHA",
    "PSK-AES128-GCM",
)


@pytest.mark.parametrize("suite", WEAK_NAMES)
def test_weak_suites_cannot_be_enabled(suite: str, tmp_path: Path) -> None:
    store = AUTHORITY.issue("CN=broker", ["localhost"], is_rsa=True).write_pem(tmp_path / "broker.pem")
    with (
        pytest.raises(StartError, match=f"^Invalid value '{suite}' for ssl.cipher.suites: unknown or weak"),
        Broker(settings(store) | {"ssl.cipher.suites": suite}, data_dir=tmp_path / "data"),
    ):
        pass
