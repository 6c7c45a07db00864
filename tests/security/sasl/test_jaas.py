"""JAAS configurations: what Kafka reads, and what it refuses."""

import pytest

from twisted_kafka.security.sasl.jaas import JaasError, parse_jaas


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('x.PlainLoginModule required username="admin" password="a b;c";', {"username": "admin", "password": "a b;c"}),
        ("x.PlainLoginModule required user_alice='it\\'s' user_b=plain.word-1;", {"user_alice": "it's", "user_b": "plain.word-1"}),
        ('x.PlainLoginModule Required\n  a="\\u\\t\\101\\\\"\n;', {"a": "u\tA\\"}),
        ('x.PlainLoginModule required /* none="1" */ a="b" // c="d";\n;', {"a": "b"}),
        ('x.PlainLoginModule required $a_b-c=d "quoted key"=e;', {"$a_b-c": "d", "quoted key": "e"}),
        ("x.PlainLoginModule required a=\u00e9t\u00e9 a=last;", {"a": "last"}),
        ("x.PlainLoginModule required;", {}),
    ],
)
def test_options_are_words_and_quoted_strings(text: str, options: dict[str, str]) -> None:
    (entry,) = parse_jaas(text)
    assert entry.module_name == "PlainLoginModule"
    assert entry.flag == "REQUIRED"
    assert entry.options == options


def test_there_may_be_several_login_modules() -> None:
    entries = parse_jaas('a.First required x="1"; b.Second optional;')
    assert [(entry.login_module, entry.flag) for entry in entries] == [("a.First", "REQUIRED"), ("b.Second", "OPTIONAL")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no login module"),
        ("  // nothing\n", "no login module"),
        ("Module", "no control flag"),
        ("Module sometimes;", "control flag must be one of"),
        ('Module required a="b"', "semicolon"),
        ('Module required a "b";', "option 1"),
        ("Module required a=;", "option 1"),
        ("Module required a=1;", "option 1"),  # as in Kafka: Java reads a number
        ('Module required a="b" 7=x;', "option 2"),
        ("; Module required;", "must begin with"),
    ],
)
def test_others_are_refused_without_telling_secrets(text: str, why: str) -> None:
    with pytest.raises(JaasError, match=why) as raised:
        parse_jaas(text.replace("b", "s3cret"))
    assert "s3cret" not in str(raised.value)


def test_options_do_not_show() -> None:
    (entry,) = parse_jaas('Module required password="s3cret";')
    assert "s3cret" not in repr(entry) + str(entry) + f"{(entry,)}"
