"""Which messages of a page fit, and that no other reaches the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("viser")
import viser

from sgrl.viewer.messages import MessageFilter
from sgrl.viewer.server import start_server

CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1, 0, 0, 0],
    "position": [0.5, -3.0, 2.0],
    "fov": 1.0,
    "near": 0.01,
    "far": 1000,
    "image_height": 480,
    "image_width": 640,
    "look_at": [0, 0, 0],
    "up_direction": [0, 0, 1],
}
CLICK = {
    "type": "ScenePointerMessage",
    "event_type": "click",
    "ray_origin": [0, 0, 2],
    "ray_direction": [0, 0.6, -0.8],
    "screen_pos": [[0.5, 0.5]],
    "modifier": None,
}
NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture(scope="module")
def gui() -> Iterator[viser.GuiApi]:
    server = start_server("127.0.0.1", 8780, "title")
    yield server.gui
    server.stop()


def allowed(gui: viser.GuiApi, message: object) -> bool:
    messages = MessageFilter()
    messages.open(gui)
    return messages.allows(msgspec.msgpack.encode(message))


def allowed_value(gui: viser.GuiApi, control: Any, value: object) -> bool:
    """Whether a page may give a control this value."""
    updates = {"value": value}
    return allowed(
        gui, {"type": "GuiUpdateMessage", "uuid": control._impl.uuid, "updates": updates}
    )


def test_values_of_controls(gui: viser.GuiApi) -> None:
    values: list[object] = ["a", "c", "", True, False, 0, 1, 3, 3.5, 9, -1, NAN, INFINITY, None]
    values += [["a"], {"a": 1}, b"a", "x" * 10_000, 2**63]
    for control, fitting in (
        (gui.add_dropdown("list", ("a", "b")), ["a"]),
        (gui.add_button_group("buttons", ("a", "b")), ["a"]),
        (gui.add_checkbox("box", False), [True, False]),
        (gui.add_slider("slider", 1.0, 5.0, 0.5, 2.0), [1, 3, 3.5]),
        (gui.add_button("button"), [True]),
        (gui.add_text("text", "a"), []),
        (gui.add_upload_button("upload"), []),
    ):
        found = [value for value in values if allowed_value(gui, control, value)]
        assert [repr(value) for value in found] == [repr(value) for value in fitting]
        if fitting:
            if not isinstance(control, viser.GuiButtonGroupHandle):  # which never is
                control.disabled = True
                assert not allowed_value(gui, control, fitting[0])
                control.disabled = False
            control.visible = False
            assert not allowed_value(gui, control, fitting[0])
            control.visible = True
            assert allowed_value(gui, control, fitting[0])
            control.remove()
            assert not allowed_value(gui, control, fitting[0])


def test_only_the_value_of_a_control_can_be_set(gui: viser.GuiApi) -> None:
    uuid = gui.add_checkbox("box", False)._impl.uuid
    message = {"type": "GuiUpdateMessage", "uuid": uuid}
    assert allowed(gui, {**message, "updates": {"value": True}})
    for updates in ({}, {"value": True, "disabled": True}, {"label": "x"}, {"value": True, "": 1}):
        assert not allowed(gui, {**message, "updates": updates})
    assert not allowed(gui, {**message, "updates": {"value": True}, "excluded_self_client": 1})


def test_commands(gui: viser.GuiApi) -> None:
    command = gui.add_command("command")
    message = {"type": "CommandTriggerMessage", "uuid": command._impl.uuid}
    assert allowed(gui, message)
    assert not allowed(gui, {**message, "uuid": "another"})
    command.remove()
    assert not allowed(gui, message)


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (CAMERA, {"fov": 0.0}),
        (CAMERA, {"fov": NAN}),
        (CAMERA, {"position": [0, 0]}),
        (CAMERA, {"position": [0, 0, INFINITY]}),
        (CAMERA, {"position": [0, 0, "0"]}),
        (CAMERA, {"position": [0, 0, True]}),
        (CAMERA, {"wxyz": [NAN, 0, 0, 0]}),
        (CAMERA, {"look_at": [1e300, 0, 0]}),
        (CAMERA, {"image_width": -1}),
        (CAMERA, {"image_width": 10**9}),
        (CAMERA, {"image_width": 1.5}),
        (CAMERA, {"name": "x"}),
        (CLICK, {"event_type": "rect-select"}),
        (CLICK, {"ray_origin": None}),
        (CLICK, {"screen_pos": [[0.5, 0.5]] * 100}),
        (CLICK, {"modifier": "shift"}),
    ],
)
def test_cameras_and_clicks(
    gui: viser.GuiApi, message: dict[str, object], changes: dict[str, object]
) -> None:
    assert allowed(gui, message)
    assert not allowed(gui, {**message, **changes})
    key = next(iter(changes))
    if key in message:
        assert not allowed(gui, {name: value for name, value in message.items() if name != key})


def test_every_other_kind_is_dropped(gui: viser.GuiApi) -> None:
    kinds = viser._messages.Message.get_subclasses()
    assert len(kinds) > 80
    assert not any(allowed(gui, {"type": kind.__name__}) for kind in kinds)


def test_nothing_is_let_in_before_there_are_controls() -> None:
    assert not MessageFilter().allows(msgspec.msgpack.encode(CAMERA))


DEEP = b"\x91" * 5000 + b"\x00"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
)


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=200) | st.text() | JSON.map(msgspec.msgpack.encode) | st.just(DEEP))
def test_garbage_is_refused_without_an_error(gui: viser.GuiApi, raw: bytes | str) -> None:
    messages = MessageFilter()
    messages.open(gui)
    assert not messages.allows(raw)


@settings(max_examples=300, deadline=None)
@given(
    message=st.sampled_from([CAMERA, CLICK]),
    key=st.sampled_from(sorted({*CAMERA, *CLICK, "uuid", "updates"})),
    value=JSON,
)
def test_changed_messages_are_read_without_an_error(
    gui: viser.GuiApi, message: dict[str, object], key: str, value: object
) -> None:
    assert allowed(gui, {**message, key: value}) in (True, False)
