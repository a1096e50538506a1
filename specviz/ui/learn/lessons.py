"""The page of lessons: choose a topic, predict, reveal, try, take away."""

from collections.abc import Sequence

import streamlit as st

from specviz import traces
from specviz.decoding.trace import Trace
from specviz.lessons import library, pictures, worked
from specviz.lessons.library import Choice, Lesson, Reference, Source
from specviz.ui.components import memory
from specviz.ui.components.picture import picture
from specviz.ui.learn.widgets_runs import WIDGETS, WITHOUT_RUN
from specviz.ui.shell.markup import code
from specviz.ui.shell.teaching import answers_hidden
from specviz.ui.state import keys, runs

WORKED_EXAMPLE = "capital"
LEVELS = {"learner": "Learner", "engineer": "Engineer"}
DONE, LEVEL = "done", "level"
TOPIC = keys.TOPIC  # in the address too
RELATED = {
    "five-steps": ("pages/rounds.py", "Watch rounds being played"),
    "residual": ("pages/exactness.py", "Check it over the whole vocabulary"),
    "exact-lossy-heuristic": ("pages/exactness.py", "The fault gallery"),
    "two-surfaces": ("pages/exactness.py", "The checks of both surfaces"),
    "drafters": ("pages/drafters.py", "Compare them on the same text"),
    "what-each-sees": ("pages/drafters.py", "Compare them on the same text"),
    "two-caches": ("pages/rounds.py", "Watch both caches"),
}
WIDE = (
    "two-surfaces",
    "who-does-what",
    "drafters",
    "what-each-sees",
    "measured-passes",
)  # tables need the room


# Text and widget below each other where there is no room for both.
NARROW = """
@media (max-width: 1100px) {
  .st-key-lesson-body > * > .stHorizontalBlock { flex-wrap: wrap; }
  .st-key-lesson-body > * > .stHorizontalBlock > .stColumn { min-width: 100%; }
}
"""


def choose_run() -> Trace:
    """The worked example, or one of this session's own runs that has a rejection to look at."""
    own = {e.name: e for e in reversed(runs.mine()) if worked.judged(e.trace, rejected=True)}
    if not own:
        return traces.load(WORKED_EXAMPLE)
    names = [WORKED_EXAMPLE, *own]
    name = st.selectbox(
        "Look at",
        names,
        format_func=lambda n: f"{own[n].title} (your run)" if n in own else "the worked example",
        key=keys.LESSON_RUN,
    )
    return own[name].trace if name in own else traces.load(WORKED_EXAMPLE)


def done() -> set[str]:
    """Keys of the lessons that this browser has finished."""
    stored = memory.recall(DONE)
    known = {lesson.key for lesson in library.lessons()}
    return {key for key in stored if key in known} if isinstance(stored, list) else set()


def choose_topic(label: str = "Topic") -> Lesson:
    """The topic of the address, or what the reader chooses."""
    finished = done()
    names = {
        lesson.key: f"{lesson.number}. {lesson.title}{' ✓' if lesson.key in finished else ''}"
        for lesson in library.lessons()
    }
    asked = st.query_params.get(TOPIC)
    if asked in names:
        st.session_state[TOPIC] = asked

    def chosen() -> None:
        st.query_params[TOPIC] = st.session_state[TOPIC]

    key = st.selectbox(label, list(names), format_func=names.__getitem__, key=TOPIC, on_change=chosen)
    return library.lesson(key)


def choose_level() -> str:
    """The reading level: the address's, or the one this browser used last."""
    stored = memory.recall(LEVEL)
    state = st.session_state
    asked = keys.LESSON_LEVEL in st.query_params
    if not asked and stored in LEVELS and not state.get(keys.LEVEL_RECALLED):
        state[keys.LESSON_LEVEL] = stored
        state[keys.LEVEL_RECALLED] = True
    elif not asked:
        state.setdefault(keys.LESSON_LEVEL, "learner")

    def chosen() -> None:
        state[keys.LEVEL_RECALLED] = True
        memory.remember(LEVEL, state[keys.LESSON_LEVEL])

    level = st.segmented_control(
        "Reading level",
        list(LEVELS),
        default="learner" if asked else None,
        required=True,
        format_func=LEVELS.__getitem__,
        key=keys.LESSON_LEVEL,
        bind="query-params",
        on_change=chosen,
    )
    return level or "learner"


def analogy() -> None:
    """The picture that needs no formula; folded, so that the lesson stays where it is."""
    with st.expander(library.intro()["title"], icon=":material/lightbulb:"):
        picture, breaks = st.columns([1.15, 1], gap="large")
        picture.markdown(library.intro()["analogy"])
        breaks.markdown(f"**Where the picture breaks**\n\n{library.intro()['breaks']}")


def predict(choice: Choice, key: str) -> bool:
    """Ask before telling. True once the answer is revealed."""
    with st.container(border=True, key=keys.of(keys.PREDICT, key)):
        st.markdown(f":blue-badge[:material/psychology: Predict first] &nbsp; {choice.question}")
        guess = st.radio(
            "Your prediction",
            range(len(choice.options)),
            index=None,
            format_func=choice.options.__getitem__,
            key=keys.of(keys.GUESS, key),
            label_visibility="collapsed",
        )
        revealed = keys.of(keys.REVEALED, key)
        if answers_hidden():
            st.caption("The answers are covered in this link.")
            return False
        if not st.session_state.get(revealed):
            st.button(
                "Reveal" if guess is None else "Check and reveal",
                key=keys.of(keys.REVEAL, key),
                type="primary",
                on_click=lambda: st.session_state.update({revealed: True}),
            )
            return False
        result(choice, guess)
        return True


def result(choice: Choice, guess: int | None) -> None:
    """Whether the guess was right, and why."""
    right = choice.options[choice.answer]
    if guess is None:
        st.info(choice.why, title=right, icon=":material/arrow_forward:")
    elif guess == choice.answer:
        st.success(choice.why, title=f"Right: {right}", icon=":material/check:")
    else:
        st.warning(choice.why, title=f"Not quite. The answer is: {right}", icon=":material/close:")


def aims(lesson: Lesson) -> None:
    """How long it takes, and what one can do afterwards."""
    st.markdown(
        f":material/schedule: about {lesson.minutes} minutes. Afterwards you can:\n"
        + "\n".join(f"- {objective}" for objective in lesson.objectives)
    )


def body(lesson: Lesson, level: str) -> None:
    """Text, pictures, widget, takeaway and sources."""
    large = bool(st.session_state.get(keys.PROJECTOR))
    st.html(f"<style>{NARROW}</style>")
    with st.container(key=keys.LESSON_BODY):
        if lesson.key in WIDE or large:
            text = side = st.container()
        else:
            text, side = st.columns([1, 1.15], gap="large")
        with text:
            st.markdown(lesson.texts[level])
            pictures_of(lesson)
        with side.container(border=True, key=keys.TRY_IT):
            badge = ":violet-badge[:material/touch_app: Try it]"
            if lesson.key in WITHOUT_RUN:
                st.markdown(badge)
                WIDGETS[lesson.key](traces.load(WORKED_EXAMPLE))
            else:
                trace = choose_run()
                st.markdown(f"{badge} {_run_name(trace)}")
                WIDGETS[lesson.key](trace)
        if level == "engineer":  # over the whole width, so that its lines need not wrap
            program(lesson)
    st.info(lesson.takeaway, title="Takeaway", icon=":material/bookmark:")
    sources(lesson.sources)


def pictures_of(lesson: Lesson) -> None:
    for name in lesson.pictures:
        picture(pictures.picture(name), keys.of(keys.LESSON_PICTURE, name))


def program(lesson: Lesson) -> None:
    """Pseudocode, and the lines that run."""
    if lesson.pseudocode:
        st.markdown("**As pseudocode**")
        st.code(lesson.pseudocode, language="python", wrap_lines=True)
    if lesson.cell is not None:
        st.markdown("**To run yourself**, with Python and NumPy")
        st.code(lesson.cell.code, language="python", wrap_lines=True)
        st.markdown("It prints")
        st.code(lesson.cell.prints, language=None, wrap_lines=True)


def sources(entries: Sequence[Source]) -> None:
    with st.expander("Sources and checks", icon=":material/menu_book:"):
        st.markdown("\n".join(f"- {entry.what}: {_cited(entry.reference)}" for entry in entries))


def _cited(reference: Reference) -> str:
    """Where it is, what it shows, and when it was opened."""
    version = f", version {reference.version}" if reference.version else ""
    read = f" (read {reference.read:%-d %B %Y}{version})" if reference.read else ""
    return f"*{reference.where}*. {reference.shows}{read}"


def next_button(lesson: Lesson) -> None:
    """Mark the lesson as done and go on."""
    entries = library.lessons()
    following = entries[lesson.number % len(entries)]

    def finish() -> None:
        memory.remember(DONE, sorted(done() | {lesson.key}))
        st.query_params[TOPIC] = following.key

    last = lesson.number == len(entries)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Done" if last else f"Done. Next: {following.title}",
            key=keys.FINISH_LESSON,
            type="primary",
            icon=":material/arrow_forward:",
            on_click=finish,
        )
        st.page_link(
            "pages/practice.py",
            label="Practise this topic",
            icon=":material/fitness_center:",
            query_params={"topic": lesson.key, "practice": "check"},
        )
        if lesson.key in RELATED:
            page, label = RELATED[lesson.key]
            st.page_link(page, label=label, icon=":material/open_in_new:")


def progress() -> None:
    total = len(library.lessons())
    st.progress(len(done()) / total, text=f"{len(done())} of {total} lessons done on this browser")


def _run_name(trace: Trace) -> str:
    settings = f"T = {trace.sampling.temperature:g}, K = {trace.k}, seed {trace.seed}"
    return f"on the run of {code(trace.created[:10])}, {settings}"
