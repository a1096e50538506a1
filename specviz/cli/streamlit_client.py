"""A visitor without a browser: speaks Streamlit's protocol over a websocket, as the page's own script does.

It keeps the buttons and components that the page has, answers auto-reruns, and waits for what it sees.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import connect

INPUTS = {
    "number_input": "double_value",
    "text_area": "string_value",
    "text_input": "string_value",
    "checkbox": "bool_value",
    "selectbox": "string_value",
}


@dataclass(slots=True)
class Seen:
    """An element with a key.

    Attributes:
        id: Streamlit's.
        content: a button's label, or a component's data.
        fragment: the fragment that draws it; "" for the page itself.
    """

    id: str
    content: Any
    fragment: str


@dataclass
class Visitor:
    """One session.

    Attributes:
        query: what the address says after its question mark.
        seen: elements by key.
        errors: texts of exceptions that the page showed.
        reruns: scripts of the page that were asked for.
        drawn: True while no run of the whole page is under way.
    """

    url: str
    query: str = ""
    seen: dict[str, Seen] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    reruns: int = 0
    drawn: bool = False

    async def __aenter__(self) -> "Visitor":
        mask, token = secrets.token_bytes(4), secrets.token_bytes(16)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(token))
        cookie = f"_streamlit_xsrf=2|{mask.hex()}|{masked.hex()}|{int(time.time())}"  # a browser of its own
        self._states: dict[str, WidgetState] = {}
        self._stale: set[str] = set()
        self._timers: dict[str, asyncio.Task] = {}
        self._news = asyncio.Condition()
        self._open = connect(
            f"ws://{urlsplit(self.url).netloc}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]
            additional_headers={"Cookie": cookie},
            max_size=None,
        )
        self._socket = await self._open.__aenter__()
        self._reader = asyncio.create_task(self._read())
        await self.rerun()
        return self

    async def __aexit__(self, *_: Any) -> None:
        for task in (*self._timers.values(), self._reader):
            task.cancel()
        with suppress(Exception):
            await self._open.__aexit__(None, None, None)

    async def rerun(self, fragment: str = "", *triggers: WidgetState, auto: bool = False) -> None:
        """Ask for a run of the script, or of a fragment."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.fragment_id, state.is_auto_rerun = self.query, fragment, auto
        state.widget_states.widgets.extend([*self._states.values(), *triggers])
        self.reruns += 1
        await self._socket.send(message.SerializeToString())

    async def press(self, key: str) -> None:
        """Press a button."""
        button = self.seen[key]
        await self.rerun(button.fragment, WidgetState(id=button.id, trigger_value=True))

    async def say(self, key: str, value: dict) -> None:
        """Set the state of a component, as a click in it does."""
        component = self.seen[key]
        self._states[component.id] = WidgetState(id=component.id, json_value=json.dumps(value))
        await self.rerun(component.fragment)

    async def go(self, query: str) -> None:
        """Change the address, as a link or the back button does."""
        self.query = query
        await self.rerun()

    async def until(self, holds: Callable[[], bool], timeout: float) -> bool:
        """Wait for something that can be seen. False if the time is over."""
        try:
            async with asyncio.timeout(timeout), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            return False
        return True

    async def _read(self) -> None:
        async for data in self._socket:
            message = ForwardMsg()
            message.ParseFromString(data)
            self._take(message)
            async with self._news:
                self._news.notify_all()

    def _take(self, message: ForwardMsg) -> None:
        match message.WhichOneof("type"):
            case "delta" if message.delta.WhichOneof("type") == "new_element":
                self._element(message.delta.new_element, message.delta.fragment_id)
            case "page_info_changed":
                self.query = message.page_info_changed.query_string
            case "new_session" if not message.metadata.run.fragment_ids:
                self._begin()
            case "script_finished" if not message.metadata.run.fragment_ids:
                self._end(message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY)
            case "auto_rerun":
                wanted = message.auto_rerun
                self._stop(wanted.fragment_id)
                self._timers[wanted.fragment_id] = asyncio.create_task(
                    self._tick(wanted.fragment_id, wanted.interval)
                )
            case "stop_auto_rerun":
                for fragment in message.stop_auto_rerun.fragment_ids:
                    self._stop(fragment)

    def _begin(self) -> None:
        """A run of the whole page begins: it says again what there is, auto-reruns too."""
        for fragment in list(self._timers):
            self._stop(fragment)
        self.drawn, self._stale = False, set(self.seen)

    def _end(self, whole: bool) -> None:
        """It has ended; what it did not draw is gone, unless it was cut short by another."""
        self.drawn = whole
        for key in self._stale if whole else ():
            del self.seen[key]

    def _see(self, id: str, content: Any, fragment: str) -> None:
        key = id.split("-", 2)[-1]  # an id ends with the key that the page gave
        self.seen[key] = Seen(id, content, fragment)
        self._stale.discard(key)

    def _element(self, element: Any, fragment: str) -> None:
        kind = element.WhichOneof("type")
        if kind == "button":
            self._see(element.button.id, element.button.label, fragment)
        elif kind == "bidi_component":
            component = element.bidi_component
            self._see(component.id, json.loads(component.json), fragment)
        elif kind in INPUTS:
            # A browser answers with the value of every input, the ones nobody touched too, and keeps it
            # until it is told another.
            control = getattr(element, kind)
            if control.id in self._states and not control.set_value:
                return
            value = control.default
            if control.set_value:
                value = control.value if kind != "selectbox" else control.raw_value
            elif kind == "selectbox":
                value = control.options[control.default]
            self._states[control.id] = WidgetState(id=control.id, **{INPUTS[kind]: value})
        elif kind == "exception":
            self.errors.append(f"{element.exception.type}: {element.exception.message}")

    def _stop(self, fragment: str) -> None:
        timer = self._timers.pop(fragment, None)
        if timer is not None:
            timer.cancel()

    async def _tick(self, fragment: str, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            await self.rerun(fragment, auto=True)
