import base64

import pytest

from twisted_kafka.tls.der import DerError
from twisted_kafka.tls.distinguished_name import java_name

# What Java 17's X500Principal.getName() makes of these names.
JAVA = [
    ("MB4xHDAaBgNVBAMME2EsYitjImRcZTxmPmc7aD1pI2o=", r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i\#j"),
    ("MBExDzANBgNVBAMMBnRyYWlsIA==", r"CN=trail\ "),
    ("MBIxEDAOBgNVBAMMByAgdHdvICA=", r"CN=\ \ two\ \ "),
    ("MAwxCjAIBgNVBAMMASA=", r"CN=\ "),
    ("MAsxCTAHBgNVBAMMAA==", "CN="),
    ("MBQxEjAQBgNVBAMMCcOp5ryi8J+YgA==", "CN=é漢😀"),
    ("MA4xDDAKBgNVBAMMA2EAYg==", r"CN=a\00b"),
    ("MA8xDTALBgNVBAMUBGNhZuk=", "CN=caf\ufffd"),
    ("MA8xDTALBgNVBAMeBABoAOk=", "CN=\\00h\\00\ufffd"),
    ("MBMxETAPBgNVBAMcCAAAAGgAAADp", "CN=#1c0800000068000000e9"),
    ("MBAxDjAMBgNVBAMSBTEyMw==", None),
    ("MBUxEzARBgoJkiaJk/IsZAEZFgN2YWw=", "DC=val"),
    ("MBUxEzARBgoJkiaJk/IsZAEBDAN2YWw=", "UID=val"),
    ("MBUxEzARBgorBgEEASoCCwIBDAN2YWw=", "1.3.6.1.4.1.42.2.11.2.1=#0c0376616c"),
    ("MBQxEjAQBgkqhkiG9w0BCQEMA3ZhbA==", "1.2.840.113549.1.9.1=#0c0376616c"),
    ("MCMxITAJBgNVBAMMAnp6MAkGA1UECwwCYWEwCQYDVQQEDAJzbg==", "CN=zz+OU=aa+2.5.4.4=#0c02736e"),
    ("MAA=", ""),
]


@pytest.mark.parametrize(("name", "expected"), JAVA)
def test_names_are_written_as_java_writes_them(name: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(DerError):
            java_name(base64.b64decode(name))
    else:
        assert java_name(base64.b64decode(name)) == expected


def test_the_last_component_comes_first() -> None:
    name = bytes.fromhex("301e310b3009060355040613024445310f300d060355040a0c064f72672c20 49".replace(" ", ""))
    assert java_name(name) == r"O=Org\, I,C=DE"
