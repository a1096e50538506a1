"""Who somebody is: a browser, in whatever tab and after a reload.

Streamlit gives every browser a random cookie against forged requests. Its token tells browsers apart; nothing
else is known or kept. Where there is no cookie (other clients, tests) a session is its own owner.
"""

import binascii
import secrets
from hashlib import sha256
from threading import Lock
from time import monotonic

import streamlit as st
from streamlit.runtime import exists, get_instance
from streamlit.runtime.scriptrunner import get_script_run_ctx

from specviz.ui.state import keys

COOKIE = "_streamlit_xsrf"
AWAY = 60.0  # seconds without any session after which an owner is taken to have left

_lock = Lock()
_sessions: dict[str, set[str]] = {}
_seen: dict[str, float] = {}


def owner() -> str:
    """The owner of the session whose script this is."""
    if keys.OWNER not in st.session_state:
        token = _token(st.context.cookies.get(COOKIE, ""))
        st.session_state[keys.OWNER] = sha256(token).hexdigest()[:16] if token else secrets.token_urlsafe(12)
    name: str = st.session_state[keys.OWNER]
    context = get_script_run_ctx(suppress_warning=True)
    if context is not None:
        with _lock:
            _sessions.setdefault(name, set()).add(context.session_id)
            _seen[name] = monotonic()
    return name


def visitors() -> int:
    """How many sessions have a page open, this one included."""
    if not exists():
        return 1
    active = get_instance().is_active_session
    with _lock:
        for name, sessions in list(_sessions.items()):
            sessions -= {session for session in sessions if active(session) is False}
            if not sessions and monotonic() - _seen[name] > AWAY:
                del _sessions[name], _seen[name]
        known = [session for sessions in _sessions.values() for session in sessions]
    return sum(active(session) is True for session in known)  # a stand-in in tests says neither


def _token(cookie: str) -> bytes:
    """The constant part of the cookie `2|mask|masked token|time`, whose mask changes; b"" if it has none."""
    try:
        version, mask, masked, _ = cookie.split("|")
        key, data = binascii.a2b_hex(mask), binascii.a2b_hex(masked)
        return bytes(b ^ key[i % 4] for i, b in enumerate(data)) if version == "2" else b""
    except (ValueError, IndexError):
        return b""


def present(name: str) -> bool:
    """False once an owner has had no open page for a while."""
    if not exists():
        return True
    with _lock:
        sessions = _sessions.get(name, set())
        active = {s for s in sessions if get_instance().is_active_session(s)}
        if active:
            _sessions[name] = active
            _seen[name] = monotonic()
            return True
        if monotonic() - _seen.get(name, 0.0) < AWAY:
            return True
        _sessions.pop(name, None)
        _seen.pop(name, None)
        return False
