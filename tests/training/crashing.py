"""A disk that can be cut after each system call: what a loss of power may leave of a folder.

`Recorder` notes what a program does below a folder. `Disk` does it again up to some point, and
says what is there afterwards: with what was not synced thrown away, or some of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

Call = tuple[str, tuple[Any, ...]]
Survives = Literal["what was synced", "names", "everything"]
"""Of what was done before a crash: contents and names that were synced; all names, but no contents
that were not; or all, as when only the process dies."""


class Recorder:
    """Notes the calls of `os` that change what lies below a folder."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root.resolve()
        self.calls: list[Call] = []
        self._paths: dict[int, Path] = {}
        for name in ("open", "write", "fsync", "replace", "mkdir", "unlink", "rmdir", "close"):
            patch.setattr(os, name, self._recorded(name, getattr(os, name)))

    def _recorded(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            note = self._before(name, args, named)
            result = act(*args, **named)
            if name == "open":
                self._paths[result] = self._path(args[0], named.get("dir_fd"))
            if note is not None:
                self.calls.append(note if name != "write" else (name, (*note[1], result)))
            return result

        return call

    def _before(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Call | None:
        match name:
            case "open":
                path = self._path(args[0], named.get("dir_fd"))
                is_new = args[1] & os.O_CREAT and not os.path.lexists(path)
                return self._note("create", path) if is_new else None
            case "write":
                return self._note("write", self._paths[args[0]], bytes(args[1]))
            case "fsync":
                return self._note("sync", self._paths[args[0]])
            case "close":
                self._paths.pop(args[0], None)
                return None
            case "replace":
                return self._note(
                    "rename",
                    self._path(args[0], named.get("src_dir_fd")),
                    self._path(args[1], named.get("dst_dir_fd")),
                )
        made = {"mkdir": "make folder", "unlink": "remove", "rmdir": "remove"}[name]
        path = self._path(args[0], named.get("dir_fd"))
        # What is refused changes nothing.
        is_there = os.path.lexists(path)
        is_full = name == "rmdir" and is_there and any(path.iterdir())
        return self._note(made, path) if (name == "mkdir") != is_there and not is_full else None

    def _path(self, name: Any, folder: int | None) -> Path:
        return Path(os.fspath(name)) if folder is None else self._paths[folder] / name

    def _note(self, what: str, *args: Any) -> Call | None:
        paths = [one.resolve() if isinstance(one, Path) else one for one in args]
        if not paths[0].is_relative_to(self.root):
            return None
        return what, tuple(
            one.relative_to(self.root).parts if isinstance(one, Path) else one for one in paths
        )


@dataclass
class Node:
    """A file or a folder, as the process sees it and as the disk has it."""

    is_folder: bool
    data: bytes = b""
    synced_data: bytes = b""
    names: dict[str, Node] = field(default_factory=dict)
    synced_names: dict[str, Node] = field(default_factory=dict)


class Disk:
    """A folder as it was, with all of it on the disk, and what is done to it since."""

    def __init__(self, root: Path) -> None:
        self._root = _read(root)

    def do(self, call: Call) -> None:
        """Do what a call did."""
        what, args = call
        if what == "rename":
            source, target = args
            above = self._find(source[:-1])
            self._find(target[:-1]).names[target[-1]] = above.names.pop(source[-1])
            return
        path = args[0]
        if what == "sync":
            node = self._find(path)
            node.synced_data, node.synced_names = node.data, dict(node.names)
        elif what == "write":
            data, written = args[1:]
            self._find(path).data += data[:written]
        elif what == "remove":
            del self._find(path[:-1]).names[path[-1]]
        else:
            self._find(path[:-1]).names[path[-1]] = Node(what == "make folder")

    def write(self, folder: Path, survives: Survives) -> Path:
        """What is there after a crash, in a new folder."""
        _write(self._root, folder, survives)
        return folder

    def _find(self, parts: tuple[str, ...]) -> Node:
        node = self._root
        for part in parts:
            node = node.names[part]
        return node


def _read(path: Path) -> Node:
    if not stat.S_ISDIR(path.lstat().st_mode):
        data = path.read_bytes()
        return Node(False, data, data)
    names = {one.name: _read(one) for one in path.iterdir()}
    return Node(True, names=names, synced_names=dict(names))


def _write(node: Node, path: Path, survives: Survives) -> None:
    if not node.is_folder:
        path.write_bytes(node.data if survives == "everything" else node.synced_data)
        return
    path.mkdir()
    for name, one in (node.synced_names if survives == "what was synced" else node.names).items():
        _write(one, path / name, survives)
