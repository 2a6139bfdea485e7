"""Files that appear whole or not at all, and folders in which nothing leads outside."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)
HAS_DESCRIPTORS = os.open in os.supports_dir_fd
"""Whether names can be looked up below an open folder; elsewhere links are looked for before."""


class UnsafeFileError(ValueError):
    """A path in a folder that leads through a link, or to something that is not a file."""


class SafeFolder:
    """A folder that may come from anybody: what is opened below it is plain, and lies below it.

    The folder itself may be reached through links. Names are relative, with slashes; "" is the
    folder. A link in any part, or a pipe, a device or a folder in the place of a file, is an
    UnsafeFileError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """The descriptor of a folder; None where there are none, and its path is safe."""
        parts, path = PurePosixPath(name).parts, self.path
        if ".." in parts or os.path.isabs(name):
            raise UnsafeFileError(f"{name!r} is not below {self.path}")
        if not HAS_DESCRIPTORS:
            for part in parts:
                path /= part
                _check(path, os.lstat(path).st_mode, stat.S_ISDIR, "a folder")
            yield None
            return
        folder = os.open(path, FOLDER)
        try:
            for part in parts:
                path /= part
                _check(path, os.lstat(part, dir_fd=folder).st_mode, stat.S_ISDIR, "a folder")
                below = os.open(part, FOLDER | NO_LINK, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _at(self, name: str) -> Iterator[tuple[str, int | None]]:
        """What a file is called, and the descriptor of the folder in which it is called so."""
        above, _, last = name.rpartition("/")
        with self._opened(above) as folder:
            yield (last if folder is not None else str(self.path / name)), folder

    def open(self, name: str, flags: int) -> int:
        """The descriptor of a regular file."""
        with self._at(name) as (last, folder):
            # Looked at first: to open a pipe or a device may already do something.
            with suppress(FileNotFoundError):
                mode = os.lstat(last, dir_fd=folder).st_mode
                _check(self.path / name, mode, stat.S_ISREG, "a file")
            descriptor = os.open(last, flags | NO_LINK | NO_WAIT, 0o666, dir_fd=folder)
        try:
            _check(self.path / name, os.fstat(descriptor).st_mode, stat.S_ISREG, "a file")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, most: int) -> bytes:
        """The contents of a file; ValueError if that is more than `most` bytes."""
        with open(self.open(name, os.O_RDONLY), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise ValueError(
                    f"{self.path / name} has {size:,} bytes, more than the {most:,} that one has"
                )
            return file.read(size)

    def write(self, name: str, data: bytes) -> None:
        """Put a file in the place of what is there, whole even if the power goes."""
        above, _, last = name.rpartition("/")
        draft = f"{above}/.{last}.draft" if above else f".{last}.draft"
        self.remove_file(draft)
        try:
            self.write_new(draft, data)
            self.rename(draft, name)
        except BaseException:
            self.remove_file(draft)
            raise
        self.sync(above)

    def write_new(self, name: str, data: bytes) -> None:
        """Write a file that was not there; the disk has it when this returns."""
        descriptor, left = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), memoryview(data)
        try:
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def append(self, name: str, text: str) -> None:
        """Text at the end of a file."""
        descriptor = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with open(descriptor, "a", encoding="utf-8") as file:
            file.write(text)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder, in the place of a file or an empty folder."""
        with self._at(old) as (source, here), self._at(new) as (target, there):
            os.replace(source, target, src_dir_fd=here, dst_dir_fd=there)

    def make_folder(self, name: str, *, exist_ok: bool = False) -> None:
        """Make a folder; one that is there may be kept, a link to one may not."""
        with self._at(name) as (last, folder):
            try:
                os.mkdir(last, dir_fd=folder)
            except FileExistsError:
                if not exist_ok:
                    raise
                mode = os.lstat(last, dir_fd=folder).st_mode
                _check(self.path / name, mode, stat.S_ISDIR, "a folder")

    def remove_file(self, name: str) -> None:
        """Remove a file, or a link and not what it leads to, if one is there."""
        with suppress(FileNotFoundError), self._at(name) as (last, folder):
            os.unlink(last, dir_fd=folder)

    def remove_folder(self, name: str) -> None:
        """Remove a folder that is empty."""
        with self._at(name) as (last, folder):
            os.rmdir(last, dir_fd=folder)

    def sync(self, name: str = "") -> None:
        """Make the names in a folder survive a loss of power, where the system can."""
        with self._opened(name) as folder:
            if folder is not None:
                os.fsync(folder)

    def mode(self, name: str) -> int:
        """Type and permissions of what lies there, be it a link; 0 if nothing does."""
        try:
            with self._at(name) as (last, folder):
                return os.lstat(last, dir_fd=folder).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def has_file(self, name: str) -> bool:
        """Whether a regular file lies there."""
        return stat.S_ISREG(self.mode(name))

    def files(self, name: str = "") -> list[str]:
        """Names of the regular files in a folder."""
        return [found for found, mode in self._names(name) if stat.S_ISREG(mode)]

    def folders(self, name: str = "") -> list[str]:
        """Names of the folders in a folder."""
        return [found for found, mode in self._names(name) if stat.S_ISDIR(mode)]

    def check_plain(self, name: str) -> None:
        """UnsafeFileError if a link or a pipe lies in a folder whose files others open."""
        if not self.mode(name):
            return
        for found, mode in self._names(name):
            below = f"{name}/{found}"
            if stat.S_ISDIR(mode):
                self.check_plain(below)
            else:
                _check(self.path / below, mode, stat.S_ISREG, "a file")

    def _names(self, name: str) -> list[tuple[str, int]]:
        with (
            self._opened(name) as folder,
            os.scandir(self.path / name if folder is None else folder) as entries,
        ):
            return sorted((one.name, one.stat(follow_symlinks=False).st_mode) for one in entries)


def _check(path: Path, mode: int, is_right: Callable[[int], bool], kind: str) -> None:
    if stat.S_ISLNK(mode):
        raise UnsafeFileError(
            f"{path} is a link, and nothing in this folder may lead out of it: put a copy of what "
            "it leads to in its place"
        )
    if not is_right(mode):
        raise UnsafeFileError(f"{path} is not {kind}: move it away")


def seal(values: Mapping[str, Any], name: str) -> bytes:
    """JSON whose `sha256` has, beside others, the checksum of all the rest under this name.

    Whoever reads it writes it again and compares: every changed byte is noticed.
    """
    digests = {key: digest for key, digest in values["sha256"].items() if key != name}
    text = json.dumps({**values, "sha256": digests}, indent=1)
    digests[name] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**values, "sha256": digests}, indent=1).encode()


@contextmanager
def writable(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, moved there when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    draft = path.with_name(f".{path.stem}.draft{path.suffix}")
    draft.unlink(missing_ok=True)  # which may be a link that somebody left there
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table with the first row's keys as its header, whole or not at all."""
    with writable(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
