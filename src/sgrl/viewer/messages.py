"""What a page may send: values of controls that exist, clicks on the ground, its camera, keys.

The library under the viewer lets a page set any property of a control by its name, start uploads
and ask for tunnels. So each message is read here first, by a type that says all that it may hold,
and one that does not fit never reaches the library.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import viser

Number = Annotated[float, msgspec.Meta(ge=-1e7, le=1e7)]
"""Bounded, which NaN and infinity are not."""
Vector = tuple[Number, Number, Number]
Name = Annotated[str, msgspec.Meta(max_length=100)]
Pixels = Annotated[int, msgspec.Meta(ge=0, le=2**15)]


class _Message(msgspec.Struct, tag_field="type", forbid_unknown_fields=True):
    """The tag is the name of viser's own type of message."""


class _Camera(_Message, tag="ViewerCameraMessage"):
    wxyz: tuple[Number, Number, Number, Number]
    position: Vector
    fov: Annotated[float, msgspec.Meta(gt=0, lt=math.pi)]
    near: Number
    far: Number
    image_height: Pixels
    image_width: Pixels
    look_at: Vector
    up_direction: Vector


class _Click(_Message, tag="ScenePointerMessage"):
    event_type: Literal["click"]
    ray_origin: Vector
    ray_direction: Vector
    screen_pos: tuple[tuple[Number, Number]]
    modifier: None


class _Updates(msgspec.Struct, forbid_unknown_fields=True):
    value: bool | int | float | Name


class _Update(_Message, tag="GuiUpdateMessage"):
    uuid: Name
    updates: _Updates


class _Command(_Message, tag="CommandTriggerMessage"):
    uuid: Name


_DECODER = msgspec.msgpack.Decoder(_Camera | _Click | _Update | _Command)


class MessageFilter:
    """Tells what a page may send from what it may not, by the controls that there are."""

    def __init__(self) -> None:
        self._gui: viser.GuiApi | None = None

    def open(self, gui: viser.GuiApi) -> None:
        """Let messages about these controls in; until then there are none."""
        self._gui = gui

    def allows(self, raw: bytes | str) -> bool:
        """Whether a message fits."""
        if self._gui is None or isinstance(raw, str):
            return False
        try:
            message = _DECODER.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return False
        if isinstance(message, _Update):
            control = self._gui._gui_input_handle_from_uuid.get(message.uuid)
            return control is not None and accepts(control, message.updates.value)
        if isinstance(message, _Command):
            return message.uuid in self._gui._command_handle_from_uuid
        return True


def accepts(control: Any, value: bool | float | str) -> bool:
    """Whether a user could give a control this value with the mouse."""
    if control.disabled or not control.visible:
        return False
    if isinstance(control, viser.GuiDropdownHandle | viser.GuiButtonGroupHandle):
        return isinstance(value, str) and value in control.options
    if isinstance(control, viser.GuiCheckboxHandle):
        return isinstance(value, bool)
    if isinstance(control, viser.GuiSliderHandle):
        if isinstance(value, bool | str):
            return False
        return bool(control.min <= value <= control.max)
    if isinstance(control, viser.GuiButtonHandle):
        return value is True
    return False
