"""Distinguished names in Java's format, so that principals and ACLs of an Apache Kafka cluster keep their meaning.

The format is RFC 2253 as in ``X500Principal.getName``: the last component first, keywords for the nine attributes of that RFC, and
the object identifier with a hexadecimal value for any other attribute. Text is decoded as UTF-8 whatever its encoding.
"""

from typing import Final

from twisted_kafka.tls.der import OBJECT_IDENTIFIER, SEQUENCE, SET, dotted, element, elements, expect

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}

# UTF8String, PrintableString, TeletexString, IA5String, GeneralString, BMPString; Java does not treat other types as text.
_TEXT_TAGS: Final = (12, 19, 20, 22, 27, 30)
_ESCAPED: Final = frozenset(',+"\\<>;=#')


def java_name(name: bytes) -> str:
    """Return a DER-encoded name as text; raises DerError."""
    sequence, _ = expect(name, SEQUENCE)
    components = ["+".join(map(_attribute, elements(component, SEQUENCE))) for component in elements(sequence, SET)]
    return ",".join(reversed(components))


def _attribute(contents: bytes) -> str:
    identifier, position = expect(contents, OBJECT_IDENTIFIER)
    kind = dotted(identifier)
    tag, value, end = element(contents, position)
    keyword = KEYWORDS.get(kind)
    if keyword is None or tag not in _TEXT_TAGS:
        return f"{keyword or kind}=#{contents[position:end].hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    body = text.strip(" ")
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - leading - len(body)
    middle = "".join("\\00" if char == "\0" else f"\\{char}" if char in _ESCAPED else char for char in body)
    return "\\ " * leading + middle + "\\ " * trailing
