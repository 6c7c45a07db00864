import errno
from pathlib import Path

import pytest

from twisted_kafka.log.directories.meta_properties import (
    MetaProperties,
    MetaPropertiesError,
    claim_directories,
    load_meta_properties,
    read_meta_properties,
    write_meta_properties,
)


def test_meta_properties(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert load_meta_properties([first, second]) == (None, None, None)
    claim_directories([first], "clusterclusterclusterC", 7)
    assert (first / "meta.properties").read_text() == "#\nversion=0\nbroker.id=7\ncluster.id=clusterclusterclusterC\n"
    assert load_meta_properties([first, second]) == ("clusterclusterclusterC", 7, None)
    claim_directories([first, second], "clusterclusterclusterC", 7)
    assert read_meta_properties(second) == read_meta_properties(first)


def test_a_directory_whose_file_cannot_be_read_is_named(tmp_path: Path) -> None:
    claim_directories([tmp_path], "c", 3)
    (tmp_path / "b" / "meta.properties").mkdir(parents=True)
    failed = []
    found = load_meta_properties([tmp_path / "b", tmp_path], lambda directory, error: failed.append(directory))
    assert (found, failed) == (("c", 3, None), [tmp_path / "b"])
    with pytest.raises(OSError):
        load_meta_properties([tmp_path / "b", tmp_path])


def test_a_directory_that_cannot_be_claimed_is_named_and_the_others_are_claimed(tmp_path: Path) -> None:
    (tmp_path / "b" / "meta.properties").mkdir(parents=True)
    failed = []
    claim_directories([tmp_path / "b", tmp_path], "c", 3, lambda directory, error: failed.append((directory, error.errno)))
    assert failed == [(tmp_path / "b", errno.EISDIR)]
    assert read_meta_properties(tmp_path) == ("c", 3, None)
    with pytest.raises(IsADirectoryError):
        claim_directories([tmp_path / "b"], "c", 3)


def test_what_one_directory_lacks_is_known_from_another_and_is_written(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory, line in zip(directories, ("broker.id=3", "cluster.id=c"), strict=True):
        directory.mkdir()
        (directory / "meta.properties").write_text(f"version=0\n{line}\n")
    assert load_meta_properties(directories) == load_meta_properties(directories[::-1]) == ("c", 3, None)
    claim_directories(directories, "c", 3)
    assert [read_meta_properties(directory) for directory in directories] == [("c", 3, None)] * 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MetaProperties("c", 1), MetaProperties("c", 2)),
        (MetaProperties("c", 1), MetaProperties("d", 1)),
        (MetaProperties(None, None, "id"), MetaProperties(None, None, "id")),
    ],
)
def test_directories_that_do_not_fit_together_are_refused(tmp_path: Path, one: MetaProperties, other: MetaProperties) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory, properties in zip(directories, (one, other), strict=True):
        directory.mkdir()
        write_meta_properties(directory, properties)
        assert read_meta_properties(directory) == properties
    with pytest.raises(MetaPropertiesError, match=r"another log directory|same directory\.id"):
        load_meta_properties(directories)
    write_meta_properties(directories[1], one._replace(directory_id="other id"))
    assert load_meta_properties(directories)[:2] == one[:2]


def test_directories_of_others_are_refused(tmp_path: Path) -> None:
    claim_directories([tmp_path], "mine", 7)
    with pytest.raises(MetaPropertiesError, match=r"cluster\.id=mine"):
        claim_directories([tmp_path], "other", 7)
    with pytest.raises(MetaPropertiesError, match=r"broker\.id=8"):
        claim_directories([tmp_path], "mine", 8)
    (tmp_path / "b").mkdir()
    write_meta_properties(tmp_path / "b", MetaProperties("other", 7))
    with pytest.raises(MetaPropertiesError):
        load_meta_properties([tmp_path, tmp_path / "b"])


def test_the_directory_id_is_kept(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ndirectory.id=abc\nnode.id=3\n")
    claim_directories([tmp_path], "c", 3)
    assert read_meta_properties(tmp_path) == ("c", 3, "abc")


@pytest.mark.parametrize("text", ["version=9\n", "broker.id=1\n", "version=0\nbroker.id=x\n"])
def test_meta_properties_that_cannot_be(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(MetaPropertiesError):
        read_meta_properties(tmp_path)
