"""A slide, as both sides see it."""

import streamlit as st

from specviz import traces
from specviz.lessons import library, pictures
from specviz.lessons.library import Choice
from specviz.ui.classroom.answers import bars
from specviz.ui.classroom.polls import Poll
from specviz.ui.classroom.slides import Slide
from specviz.ui.components.picture import picture
from specviz.ui.learn.lessons import WORKED_EXAMPLE
from specviz.ui.learn.widgets_runs import WIDGETS
from specviz.ui.state import keys

LETTERS = "ABCDEFGH"


def slide(topic: str, shown: Slide, poll: Poll | None = None, large: bool = False) -> None:
    """Draw a slide.

    Args:
        topic: key of the lesson it belongs to.
        shown: the slide.
        poll: what the class is asked, or has answered, on this slide.
        large: pictures take all the room there is.
    """
    with st.container(key=keys.SLIDE):
        if shown.kind == "title":
            st.markdown(f"# {shown.heading}")
        elif shown.heading:
            st.markdown(f":gray[{shown.heading}]")
        match shown.kind:
            case "question" | "check":
                assert shown.choice is not None
                st.markdown(shown.choice.question)
                if poll is None:
                    st.markdown(options(shown.choice))
            case "answer" | "solution":
                assert shown.choice is not None
                _answer(shown.choice, poll)
            case "picture":
                picture(pictures.picture(shown.text), keys.of(keys.SLIDE_PICTURE, shown.text), large)
            case "code":
                st.code(shown.text, language="python", wrap_lines=True)
                if shown.prints:
                    st.markdown("It prints")
                    st.code(shown.prints, language=None, wrap_lines=True)
            case "widget":
                WIDGETS[library.lesson(topic).key](traces.load(WORKED_EXAMPLE))
            case _:
                st.markdown(shown.text)


def options(choice: Choice) -> str:
    """The options of a question as a lettered list."""
    return "\n\n".join(f"**{LETTERS[i]}** &nbsp; {option}" for i, option in enumerate(choice.options))


def _answer(choice: Choice, poll: Poll | None) -> None:
    st.markdown(choice.question)
    if poll is not None and poll.tally().total:
        bars(poll)
    else:
        st.markdown(f"**{LETTERS[choice.answer]}** &nbsp; {choice.options[choice.answer]}")
    st.markdown(choice.why)
