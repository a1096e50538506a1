"""The guide above a page while a tour runs. The tour and its step are part of the address."""

import streamlit as st

from specviz import traces
from specviz.lessons.tours import Step, Tour, tours
from specviz.ui.shell.teaching import number
from specviz.ui.state import keys

PAGES = {
    name: f"pages/{name}.py" for name in ("rounds", "exactness", "debug", "drafters", "learn", "practice")
}


def start_menu() -> None:
    """The tours to choose from."""
    with st.popover("Guided tours", icon=":material/tour:"):
        for tour in tours():
            st.page_link(
                PAGES[tour.steps[0].page],
                label=f"**{tour.title}** · {tour.about}",
                icon=":material/play_arrow:",
                query_params=parameters(tour, 0),
            )


# What a step of a tour sets on its page: the widget's key for each field of a step.
SETS = {
    "level": keys.LESSON_LEVEL,
    "mistakes": keys.ORDER_MISTAKES,
    "game": keys.VERDICT_LEVEL,
    "cards": keys.CARD_MODE,
}


def doors() -> None:
    """Where to start, for each of those who come: the tours that the first screen offers."""
    with st.container(key=keys.DOORS, horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown("**Start here:**", width="content")
        for tour in tours():
            if tour.door:
                st.page_link(
                    PAGES[tour.steps[0].page],
                    label=tour.door,
                    icon=":material/arrow_forward:",
                    help=f"{tour.title}. {tour.about}.",
                    query_params=parameters(tour, 0),
                )


def _set_up(tour: Tour, at: int) -> None:
    """Put the controls of a step's page as the step wants them; once, so that they can be changed."""
    if st.session_state.get(keys.TOUR_AT) == (tour.key, at):
        return
    st.session_state[keys.TOUR_AT] = tour.key, at
    for name, key in SETS.items():
        value = getattr(tour.steps[at], name)
        if value not in (None, ""):
            st.session_state[key] = value
    if tour.steps[at].practice == "order":
        st.session_state[keys.ORDER_SOURCE] = "five steps"


def running() -> bool:
    return any(t.key == st.query_params.get("tour") for t in tours())


def banner() -> None:
    """What the present step says, with the ways on and back. Nothing without a tour."""
    tour = next((t for t in tours() if t.key == st.query_params.get("tour")), None)
    if tour is None:
        return
    at = min(number("step"), len(tour.steps) - 1)
    step = tour.steps[at]
    _set_up(tour, at)
    with st.container(border=True, key=keys.TOUR, horizontal=True, vertical_alignment="center"):
        with st.container(gap=None, width="stretch"):
            st.markdown(f":blue-badge[{tour.title}, {at + 1} of {len(tour.steps)}] **{step.title}**")
            st.markdown(step.text)
        with st.container(horizontal=True, width="content", gap="small", vertical_alignment="center"):
            _link(tour, at - 1, "Back", ":material/arrow_back:")
            _link(tour, at + 1, "Next", ":material/arrow_forward:")
            st.button("End", key=keys.TOUR_END, on_click=_end, type="tertiary", help="End the tour")


def parameters(tour: Tour, at: int) -> dict[str, str]:
    """The address's parameters for a step of a tour."""
    step = tour.steps[at]
    return {"tour": tour.key, "step": str(at), **step.parameters(_trace(step))}


def _link(tour: Tour, at: int, label: str, icon: str) -> None:
    if 0 <= at < len(tour.steps):
        page = PAGES[tour.steps[at].page]
        if st.button(
            label,
            key=keys.of(keys.TOUR, label),
            icon=icon,
            type="primary" if label == "Next" else "secondary",
        ):
            st.switch_page(page, query_params=parameters(tour, at))


def _trace(step: Step):
    return traces.load(step.run) if step.run and step.select else None


def _end() -> None:
    for name in ("tour", "step", "lock"):
        st.query_params.pop(name, None)
