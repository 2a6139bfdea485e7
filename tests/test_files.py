"""Nothing below a folder leads out of it, and files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sgrl import files
from sgrl.files import SafeFolder, UnsafeFileError, writable

ACTS: dict[str, Callable[[SafeFolder, str], object]] = {
    "read": lambda folder, name: folder.read(name, 100),
    "write": lambda folder, name: folder.write(name, b"new"),
    "append": lambda folder, name: folder.append(name, "new"),
    "write_new": lambda folder, name: folder.write_new(name + "2", b"new"),
    "rename": lambda folder, name: folder.rename(name, name + "2"),
    "make_folder": lambda folder, name: folder.make_folder(name + "2"),
    "remove_file": lambda folder, name: folder.remove_file(name),
}


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def outside(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A file outside, and a folder in which links lead to it; where names must do, too."""
    monkeypatch.setattr(files, "HAS_DESCRIPTORS", request.param)
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "deep" / "file").write_text("private")
    inside = tmp_path / "inside"
    (inside / "real").mkdir(parents=True)
    (inside / "linked").symlink_to(home)
    (inside / "real" / "linked").symlink_to(home / "deep")
    (inside / "file").symlink_to(home / "deep" / "file")
    return home / "deep" / "file"


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("name", ["linked/deep/file", "real/linked/file"])
def test_no_part_of_a_name_is_a_link(outside: Path, act: str, name: str) -> None:
    folder = SafeFolder(outside.parents[2] / "inside")
    with pytest.raises(UnsafeFileError, match="linked is a link, and nothing in this folder may"):
        ACTS[act](folder, name)
    assert outside.read_text() == "private"
    assert list(outside.parent.iterdir()) == [outside]


def test_a_link_in_the_place_of_a_file(outside: Path) -> None:
    folder = SafeFolder(outside.parents[2] / "inside")
    for act in ("read", "append"):
        with pytest.raises(UnsafeFileError, match="file is a link"):
            ACTS[act](folder, "file")
    # It is replaced, not followed, and so are links where drafts go.
    (folder.path / ".file.draft").symlink_to(outside)
    folder.write("file", b"new")
    assert folder.read("file", 3) == b"new"
    assert outside.read_text() == "private"


@pytest.mark.parametrize("name", ["../home/deep/file", "real/../../home/deep/file", "/etc/passwd"])
def test_names_that_climb(outside: Path, name: str) -> None:
    with pytest.raises(UnsafeFileError, match="is not below"):
        SafeFolder(outside.parents[2] / "inside").read(name, 10**6)


def test_the_folder_itself_may_be_reached_through_a_link(outside: Path) -> None:
    folder = SafeFolder(outside.parents[2] / "inside" / "linked")
    assert folder.read("deep/file", 100) == b"private"


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    folder = SafeFolder(tmp_path)
    for name in ("pipe", "folder"):
        for act in ("read", "append"):
            with pytest.raises(UnsafeFileError, match=f"{name} is not a file: move it away"):
                ACTS[act](folder, name)
    (tmp_path / "file").write_text("")
    with pytest.raises(UnsafeFileError, match="file is not a folder"):
        folder.read("file/below", 10)


def test_a_folder_is_looked_through(outside: Path) -> None:
    folder = SafeFolder(outside.parents[2] / "inside")
    with pytest.raises(UnsafeFileError, match="linked is a link"):
        folder.check_plain("real")
    (folder.path / "real" / "linked").unlink()
    (folder.path / "real" / "below").mkdir()
    os.mkfifo(folder.path / "real" / "below" / "pipe")
    with pytest.raises(UnsafeFileError, match="pipe is not a file"):
        folder.check_plain("real")
    folder.check_plain("nothing")
    assert folder.folders() == ["real"]
    assert folder.files() == []


def test_more_than_is_expected_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        file.truncate(10**12)  # which takes no room
    with pytest.raises(ValueError, match=r"has 1,000,000,000,000 bytes, more than the 1,000"):
        SafeFolder(tmp_path).read("file", 1000)


def test_a_draft_that_leads_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private")
    (tmp_path / ".table.draft.csv").symlink_to(tmp_path / "private")
    with writable(tmp_path / "table.csv") as draft:
        draft.write_text("new")
    assert (tmp_path / "table.csv").read_text() == "new"
    assert (tmp_path / "private").read_text() == "private"
