"""Practice: interview cards, as they fall due, crammed, or all of them."""

from datetime import date

import streamlit as st

from specviz.lessons import anki, library, schedule
from specviz.lessons.library import Card
from specviz.ui.components import memory
from specviz.ui.shell.teaching import answers_hidden
from specviz.ui.state import keys

BOXES = "card-boxes"
MODES = ("due today", "cram", "all")
HELP = {
    "due today": "When a card is due again is remembered on this browser only.",
    "cram": "For the day before: every card once, and one that you did not know again after three others, "
    "until you know it. Your schedule stays as it is.",
    "all": "All cards, answers open.",
}


def boxes() -> dict[str, tuple[int, int]]:
    """The boxes of the cards, as this browser remembers them."""
    return schedule.boxes_from(memory.recall(BOXES), {card.key for card in library.cards()})


def cards_section() -> None:
    today = date.today().toordinal()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        levels = st.pills(
            "Level",
            [1, 2, 3],
            default=[1, 2, 3],
            selection_mode="multi",
            format_func={1: "asked first", 2: "solid", 3: "specialist"}.__getitem__,
            key=keys.CARD_LEVELS,
        )
        mode = _mode()
        st.download_button(
            "Anki deck",
            lambda: anki.package(library.cards()),
            "speculative-decoding.apkg",
            icon=":material/download:",
            key=keys.ANKI,
            on_click="ignore",
        )
    chosen = [card for card in library.cards() if card.level in levels]
    recent = st.session_state.setdefault(keys.CARDS_RECENT, [])
    if mode == "cram":
        queue = _cram(chosen)
    else:
        queue = schedule.due(chosen, boxes(), today, recent) if mode == "due today" else chosen
    st.caption(f"{len(queue)} of {len(chosen)} cards. {HELP[mode]}")
    if not queue:
        done = "Every card known. Sleep well." if mode == "cram" else "Nothing is due."
        st.success(f"{done} Look at all cards, or come back tomorrow.", icon=":material/check:")
        if mode == "cram":
            st.button(
                "Start over", key=keys.CRAM_AGAIN, on_click=lambda: st.session_state.pop(keys.CRAM, None)
            )
        return
    card = queue[0]
    if mode == "all":
        names = {c.key: c.question for c in chosen}
        key = st.selectbox("Card", list(names), format_func=names.__getitem__, key=keys.CARD_CHOICE)
        card = next(c for c in chosen if c.key == key)
    _card(card, today, mode)


def _mode() -> str:
    """The way to go through the cards that the address asks for, or that the reader chooses."""
    if keys.CARD_MODE not in st.session_state or st.query_params.get("cards"):
        asked = st.query_params.get("cards", MODES[0])
        st.session_state[keys.CARD_MODE] = asked if asked in MODES else MODES[0]
        st.query_params.pop("cards", None)
    return st.segmented_control("Cards", MODES, required=True, key=keys.CARD_MODE) or MODES[0]


def _cram(chosen: list[Card]) -> list[Card]:
    """What is left to cram of the chosen cards, weakest first; kept for this session."""
    state = st.session_state.get(keys.CRAM)
    if state is None:
        order = schedule.weakest_first(library.cards(), boxes())
        state = st.session_state[keys.CRAM] = schedule.Cram(tuple(card.key for card in order))
    wanted = {card.key: card for card in chosen}
    return [wanted[key] for key in state.queue if key in wanted]


def _card(card: Card, today: int, mode: str) -> None:
    asks = mode != "all"
    with st.container(border=True):
        st.caption(f"{library.lesson(card.topic).title} · level {card.level}")
        st.subheader(card.question, anchor=False)
        shown = keys.of(keys.CARD_SHOWN, card.key, today)
        if asks and not st.session_state.get(shown):
            st.markdown("Answer aloud, then compare.")
            if not answers_hidden():
                st.button(
                    "Show the answer",
                    key=keys.CARD_SHOW,
                    type="primary",
                    on_click=lambda: st.session_state.update({shown: True}),
                )
            return
        if answers_hidden():
            return
        answer(card)
        if mode == "cram":
            _judge_cram(card, shown)
        elif asks:
            _judge(card, today, shown)


def answer(card: Card) -> None:
    """All there is to say about a card."""
    left, right = st.columns([1.4, 1], gap="large")
    with left:
        for name, text in (("Short", card.short), ("Solid", card.solid), ("Expert", card.expert)):
            st.markdown(f":blue-badge[{name}] {text}")
        st.markdown(f":violet-badge[The interviewer listens for] {card.listens_for}")
    with right:
        st.markdown("**In a minute**\n" + "\n".join(f"- {line}" for line in card.bullets))
        st.markdown("**Follow-ups**\n" + "\n".join(f"- *{f.question}* {f.answer}" for f in card.follow_ups))
    for flag in card.red_flags:
        st.markdown(f":orange-badge[:material/flag: Red flag] “{flag.claim}.” {flag.why}")


def _judge(card: Card, today: int, shown: str) -> None:
    box = boxes().get(card.key, (0, today))[0]

    def judged(known: bool) -> None:
        memory.remember(BOXES, {**boxes(), card.key: schedule.answered(box, known, today)})
        recent = st.session_state.setdefault(keys.CARDS_RECENT, [])
        recent[:] = [*(key for key in recent if key != card.key), card.key][-schedule.AGAIN_AFTER :]
        st.session_state.pop(shown, None)

    rest = schedule.answered(box, True, today)[1] - today
    _buttons(judged, f"Knew it (back in {rest} day{'' if rest == 1 else 's'})")


def _judge_cram(card: Card, shown: str) -> None:
    def judged(known: bool) -> None:
        st.session_state[keys.CRAM] = schedule.crammed(st.session_state[keys.CRAM], card.key, known)
        st.session_state.pop(shown, None)

    _buttons(judged, "Knew it")


def _buttons(judged, label: str) -> None:
    with st.container(horizontal=True):
        st.button("Again", key=keys.CARD_AGAIN, on_click=judged, args=(False,), icon=":material/replay:")
        st.button(
            label, key=keys.CARD_KNOWN, type="primary", on_click=judged, args=(True,), icon=":material/check:"
        )
