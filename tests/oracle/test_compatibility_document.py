"""docs/compatibility.md names what the comparison with Apache Kafka expects, all of it and nothing else."""

import re
from pathlib import Path

from tests.oracle.documented_errors import DOCUMENTED
from tests.oracle.expected_differences import DENIED, EXPECTED, NEWER
from twisted_kafka.protocol.api import ApiKey

TEXT = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()


def rows(name: str) -> list[list[str]]:
    table = TEXT.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- end of {name} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_expected_difference_is_explained() -> None:
    explained = [cells[0].strip("`") for cells in rows("differences")]
    assert sorted(explained) == sorted({difference.name for difference in (*EXPECTED, *DENIED)})
    assert all(len(cells) == 4 and all(cells) for cells in rows("differences"))


def test_what_goes_beyond_is_named() -> None:
    for key, version in NEWER.items():
        assert re.search(rf"{ApiKey(key).title}( v{version})?[ .,]", TEXT)


def test_documented_errors_that_are_not_provoked_have_a_reason_that_holds() -> None:
    root = Path(__file__).parents[2]
    titles = {key.title for key in ApiKey}
    for api, errors in DOCUMENTED.items():
        assert api in titles
        for reason in errors.values():
            assert all((root / place).exists() for place in re.findall(r"(?:tests|docs)/[\w/.]*\w", reason))
            assert all(name in {each.name for each in EXPECTED} for name in re.findall(r"`([\w-]+)`", reason))
