"""Files and folders appear whole or not at all, also when the disk is full."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import RegardError
from regard.files import discard, replace_link, sweep, whole_file, whole_folder, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def half_a_file(path: Path, failure: BaseException) -> None:
    with whole_file(path) as file:
        file.write(b"half")
        raise failure


def half_a_folder(path: Path, failure: BaseException) -> None:
    with whole_folder(path) as part:
        (part / "new.txt").write_text("half")
        raise failure


# Files


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file.bin"
    with whole_file(path) as file:
        file.write(b"first")
        file.flush()
        assert not path.exists()
        file.write(b" and last")
    assert path.read_bytes() == b"first and last"
    assert names(path.parent) == ["file.bin"]


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with whole_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt(), RegardError("told")])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(type(failure)) as raised:
        half_a_file(path, failure)
    assert raised.value is failure
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file.bin"]


def test_a_failure_leaves_nothing_where_nothing_was(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        half_a_file(tmp_path / "file.bin", ValueError("mine"))
    assert names(tmp_path) == []


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    with whole_file(path) as one, whole_file(path) as other:
        one.write(b"one")
        other.write(b"other")
    assert path.read_bytes() == b"one"  # the one that ended last
    assert names(tmp_path) == ["file.bin"]


def test_a_folder_in_the_way_of_a_file_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(RegardError, match="taken: cannot be written") as failure, whole_file(tmp_path / "taken") as f:
        f.write(b"x")
    assert "\n" not in str(failure.value)
    assert names(tmp_path) == ["taken"]


def test_a_file_in_the_way_of_a_folder_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(RegardError, match=r"file\.bin: cannot be written") as failure:
        write_text(tmp_path / "taken" / "file.bin", "x")
    assert "\n" not in str(failure.value)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_missing_permission_is_told_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*paths: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", forbidden)
    with pytest.raises(RegardError, match=r"file\.txt: cannot be written \(Permission denied\)") as failure:
        write_text(tmp_path / "file.txt", "x")
    assert "\n" not in str(failure.value)
    assert names(tmp_path) == []


def test_text_is_written_as_utf_8_with_its_own_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "file.txt", "größer\nniño\r\n")
    assert (tmp_path / "file.txt").read_bytes() == "größer\nniño\r\n".encode()


def test_a_file_may_be_read_by_whom_other_files_may_be(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    write_text(tmp_path / "whole", "x")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


# Folders


def test_a_folder_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    with whole_folder(path) as part:
        (part / "inner").mkdir()
        (part / "inner" / "file.txt").write_text("content")
        assert not path.exists()
    assert (path / "inner" / "file.txt").read_text() == "content"
    assert names(path.parent) == ["folder"]


def test_a_new_folder_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old.txt").write_text("old")
    with whole_folder(path) as part:
        (part / "new.txt").write_text("new")
        assert names(path) == ["old.txt"]
    assert names(path) == ["new.txt"]
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize("failure", [ValueError("mine"), KeyboardInterrupt(), RegardError("told")])
def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path: Path, failure: BaseException) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old.txt").write_text("old")
    with pytest.raises(type(failure)) as raised:
        half_a_folder(path, failure)
    assert raised.value is failure
    assert (path / "old.txt").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_a_file_in_the_place_of_a_folder_is_kept_and_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(RegardError, match="taken: cannot be written") as failure, whole_folder(tmp_path / "taken") as p:
        (p / "new.txt").write_text("new")
    assert "\n" not in str(failure.value)
    assert (tmp_path / "taken").read_text() == "mine"
    assert names(tmp_path) == ["taken"]


@pytest.mark.parametrize("call", [1, 2], ids=["the old one steps aside", "the new one comes"])
def test_an_old_folder_is_there_whole_if_the_new_one_cannot_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old.txt").write_text("old")
    replace, calls = os.replace, list[Path]()

    def failing(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == call:
            raise PermissionError(errno.EACCES, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(RegardError, match="folder: cannot be written"), whole_folder(path) as part:
        (part / "new.txt").write_text("new")
    assert names(path) == ["old.txt"]
    assert names(tmp_path) == ["folder"]


def test_a_folder_is_gone_from_its_name_before_anything_in_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "file.txt").write_text("x")
    unlink = os.unlink

    def watched(*arguments: object, **options: object) -> None:
        assert not path.exists()
        unlink(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", watched)
    discard(path)
    assert names(tmp_path) == []


def test_what_cannot_be_discarded_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="gone: cannot be written") as failure:
        discard(tmp_path / "gone")
    assert "\n" not in str(failure.value)


def test_whatever_was_left_half_written_is_swept_away_however_deep(tmp_path: Path) -> None:
    (tmp_path / "a" / ".b.1.ff.part" / "c" / ".d.1.ff.part").mkdir(parents=True)
    (tmp_path / "a" / ".b.1.ff.part" / "file").write_text("half")
    (tmp_path / "a" / ".file.1.ff.part").write_text("half")
    (tmp_path / ".link.1.ff.part").symlink_to("a")
    for kept in ("mine.part", ".hidden", "a/part"):
        (tmp_path / kept).write_text("mine")
    sweep(tmp_path)
    assert names(tmp_path) == [".hidden", "a", "mine.part"]
    assert names(tmp_path / "a") == ["part"]
    sweep(tmp_path / "nothing")


# Links


def test_a_link_is_made_and_replaced(tmp_path: Path) -> None:
    for name in ("100", "200"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "last", name)
        assert os.readlink(tmp_path / "last") == name
        assert (tmp_path / "last").is_dir()
    assert names(tmp_path) == ["100", "200", "last"]


def test_a_link_to_what_is_gone_can_be_replaced(tmp_path: Path) -> None:
    replace_link(tmp_path / "last", "gone")
    replace_link(tmp_path / "last", "here")
    assert os.readlink(tmp_path / "last") == "here"


def test_a_folder_in_the_place_of_a_link_is_kept_and_told(tmp_path: Path) -> None:
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "mine.txt").write_text("mine")
    with pytest.raises(RegardError, match="last: cannot be written") as failure:
        replace_link(tmp_path / "last", "100")
    assert "\n" not in str(failure.value)
    assert names(tmp_path) == ["last"]


# A full disk: a process may write no more than so many bytes to a file.

FULL = """
import resource, signal, sys
from pathlib import Path
from regard.errors import RegardError
from regard.files import whole_file, whole_folder, write_text

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
way, place = sys.argv[1], Path(sys.argv[2])
try:
    if way == "text":
        write_text(place, "x" * 5000)
    elif way == "file":
        with whole_file(place) as file:
            for _ in range(100_000):
                file.write(b"x" * 100)
    else:
        with whole_folder(place) as part:
            (part / "small").write_bytes(b"x")
            (part / "large").write_bytes(b"x" * 5000)
except RegardError as error:
    print(error, end="")
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("way", ["text", "file", "folder"])
def test_a_full_disk_is_told_in_one_line_and_keeps_what_was_there(tmp_path: Path, way: str) -> None:
    place = tmp_path / "out"
    if way == "folder":
        place.mkdir()
        (place / "old").write_text("old")
    else:
        place.write_text("old")
    run = subprocess.run([sys.executable, "-c", FULL, way, str(place)], capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert run.stdout.startswith(f"{place}: cannot be written (")
    assert "free some space" in run.stdout
    assert "\n" not in run.stdout
    assert run.stderr == ""
    assert names(tmp_path) == ["out"]
    assert ((place / "old") if way == "folder" else place).read_text() == "old"
