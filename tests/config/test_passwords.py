"""Encoded passwords; the first two were created by Apache Kafka 3.9's EncryptingPasswordEncoder."""

import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.dynamic.passwords import PasswordEncoder
from twisted_kafka.config.errors import ConfigError

CBC = (
    "initializationVector:UT0HiSmlYkyfItjrLg5+IA==,keyLength:128,salt:1pJKEqmA8L4dvUDsoT3bYD7/KUh1bXqWka2RUksj6BMu7OU0hhngLamyzYkgwJ"
    "iuxVTtXzeghT94El6QgBgKZYt/dfFpdRhfbhLMAzW6UfyB0XgL8V6xMQQpVqUZq8fJz22QOItLAQjsID+T3ExiKif2A31U2hcfwpbYVfngKhKYD4i3scw71LR9Yhsi"
    "Vzy72gTntE2mhkORXw42H7Oc99iKELwbf5sa1R4C5qKnJ2r8O32VcmIcOf66YteLqTvQc+0j0StQ5Hj6/aRvhMoIO77/q32brUfAjUaI13Ec3zUVvlMX65uF6L4+Oz"
    "oIypxQ91N4V8dUhNeBm8Po5bU+QQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,"
    "passwordLength:17,encryptedPassword:aAN99VRrqzsELV6CwikEX3lcBxD0HLFdH9znv07PhMc="
)
GCM = (
    "initializationVector:iHbain/ZQexO3uRY,keyLength:256,salt:5HxRw1oR1fYNBzyI15X3jMzcE54c2hlTa7ViUOBR5Hst8eMfBcPpG+bOM14/HTcyz8QPJz"
    "2/Uxo2Uf27pRsxcxvYj7xIMnFP0kaJj5Gz84glFIjR0aK+ZHSiLDbfVO7inUabVp28Tgan6LnrBVe6qr4qrP7pMrGUPwjl0guAfMb09IQs3QMFqG0D2Um+0NFqYH0j"
    "O2jsH05EECWxDBLIVH7Bd0oy+E0Cfo1hmKK8kLznA7ye0/Y/YEfeWcUYvg5NuyszKaa0gAbDwU36olu5u5R6TrZ06b4ARC25/2GQ9rRvBJmOlZo8Z5MPWKLUcBgiVH"
    "0cZsT+SAlAkwkW3tgVmQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA256,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128,"
    "iterations:1024,passwordLength:2,encryptedPassword:WvzlXVPFainH/s4ButKqf2sB"
)


def encoder(secret: str | None = "the secret", **keys: str) -> PasswordEncoder:
    properties = {f"password.encoder.{key.replace('_', '.')}": value for key, value in keys.items()}
    if secret is not None:
        properties["password.encoder.secret"] = secret
    return PasswordEncoder(KafkaConfig({"broker.id": "1", **properties}))


@pytest.mark.parametrize(("encoded", "password"), [(CBC, "keystore p\N{LATIN SMALL LETTER A WITH DIAERESIS}ssword"), (GCM, "pw")])
def test_passwords_encoded_by_kafka_are_decoded(encoded: str, password: str) -> None:
    assert encoder().decode(encoded) == password
    with pytest.raises(ValueError, match=r"."):
        encoder("another").decode(encoded)


@pytest.mark.parametrize(
    "keys", [{}, {"cipher_algorithm": "AES/GCM/NoPadding", "key_length": "256"}, {"keyfactory_algorithm": "PBKDF2WithHmacSHA1"}]
)
def test_passwords_round_trip(keys: dict[str, str]) -> None:
    both = encoder(**keys)
    for password in ("", "a", "sixteen bytes ..", "\N{GRINNING FACE}" * 20):
        encoded = both.encode(password)
        assert both.decode(encoded) == password
        assert encoded != both.encode(password), "a new salt each time"


def test_the_old_secret() -> None:
    later = encoder("new", old_secret="the secret")
    assert later.decode_old(GCM) == "pw"
    assert encoder("new", old_secret="wrong").decode_old(GCM) is None
    assert encoder("new").decode_old(GCM) is None


def test_dynamic_passwords_require_a_secret() -> None:
    without = encoder(None)
    with pytest.raises(ConfigError, match="Password encoder secret not configured"):
        without.encode("x")
    with pytest.raises(ValueError, match="is not set"):
        without.decode(GCM)


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "plain text",
        "a:b,c",
        GCM.replace("iterations:1024", "iterations:99999999999"),
        GCM.replace("iterations:1024", "iterations:x"),
        GCM.replace("SHA256", "MD5"),
        GCM.replace("keyLength:256", "keyLength:64"),
        GCM.replace("salt:", "salt:!"),
        GCM.replace("passwordLength:2", "passwordLength:3"),
        GCM.replace("encryptedPassword:Wvz", "encryptedPassword:Xvz"),
    ],
)
def test_malformed_encoded_passwords_are_refused(encoded: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        encoder().decode(encoded)


def test_unknown_algorithms_are_refused_at_the_start() -> None:
    for keys in ({"cipher_algorithm": "DES"}, {"keyfactory_algorithm": "MD5"}, {"key_length": "64"}):
        with pytest.raises(ConfigError, match="Invalid value"):
            encoder(**keys)
