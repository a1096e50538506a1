"""What the kinds of drafter are: a short text each, with prompts that show it."""

from dataclasses import dataclass

import streamlit as st

from specviz import traces
from specviz.ui.drafters import models
from specviz.ui.state import keys, links


@dataclass(frozen=True, slots=True)
class Try:
    """A prompt that shows something: what it is called, the prompt, its temperature."""

    label: str
    prompt: str
    temperature: float


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of drafter in words, and prompts where it shines or fails."""

    name: str
    how: str
    law: str
    shines: str
    fails: str
    tries: tuple[Try, ...]


COPY = Try("A list to copy", traces.LIST, 0.3)
STORY = Try("An open story", traces.STORY, 1.0)
CODE = Try(
    "Code",
    "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return",
    0.3,
)
LIST = Try(
    "A list of facts", "Ten large cities and their countries:\n1. Tokyo, Japan\n2. Delhi, India\n3.", 0.7
)
FACT = Try("A plain fact", "The capital of France is", 0.3)

KINDS = (
    Kind(
        "model",
        "A second, smaller language model writes K tokens one after another. The one shipped for the "
        "built-in target has a tenth of its layers, and shares its embedding.",
        "Its own softmax over its vocabulary, after its own sampling controls.",
        "Everyday text that both models know, even where nothing repeats.",
        "It has passes of its own to pay for: K drafts are K passes before the target's one.",
        (STORY, FACT),
    ),
    Kind(
        "ngram",
        "Looks for the last earlier place where the text ended as it ends now, and copies what followed. "
        "No model at all.",
        "One-hot: all of q on the copied token, so that β is the target's probability of just that token.",
        "Text that repeats itself: copying, editing, code, quoting from the prompt. Drafting is free.",
        "New text: nothing to copy, nothing proposed, one token a round.",
        (COPY, STORY),
    ),
    Kind(
        "suffix",
        "Looks for the longest earlier match of the end of the text, in the prompt and in the answer so far, "
        "and copies what followed most often. It drafts at most as many tokens as matched, so K varies.",
        "One-hot, as in prompt lookup: β is the target's probability of just that token.",
        "Agents and pipelines that write the same passages over and over: long matches, long blocks.",
        "New text: short matches or none. One token matched drafts one token.",
        (COPY, CODE),
    ),
    Kind(
        "early-exit",
        "The target's own first layers, then its final norm and head. Nothing is trained, and no second set "
        "of weights is needed.",
        "The softmax of those early layers' guess, over the whole vocabulary.",
        "Tokens that are decided early, and where there is no memory for a second model.",
        "Five sixths of the layers cost nearly as much as the target; a model not trained for it says little "
        "in its early layers.",
        (FACT, CODE),
    ),
    Kind(
        "parallel",
        "The small model again, but in a single pass: behind the text stand K − 1 gaps, and each gap's row "
        "gives the next token's q.",
        "The softmax of a row that has seen the text and gaps. It does not see the drafts before it.",
        "A draft trained for gaps (PARD): one pass a block, however large K is.",
        "The draft that ships with SpecViz was not trained for gaps: its first token is as good as the small "
        "model's, the later ones are guesses.",
        (FACT, STORY),
    ),
    Kind(
        "medusa",
        "A few small heads on the target's last hidden state, one for each future position, all at once.",
        "Head i's softmax for the position i further on. It does not see the tokens in between.",
        "Drafting costs next to nothing, and the text runs on rails.",
        "Every further head knows less: acceptance falls quickly with the position, and K is the number of "
        "heads at most.",
        (LIST, STORY),
    ),
    Kind(
        "eagle",
        "One layer that sees each token with the target's hidden state before it, predicts the next hidden "
        "state, and goes on from its own prediction. The target's head makes tokens of it.",
        "The softmax of the predicted state over its vocabulary.",
        "It knows what the target was about to say, for the price of one layer.",
        "Its own predictions drift from the target's states: later tokens of a block are worse.",
        (STORY, CODE),
    ),
    Kind(
        "mtp",
        "A module that some targets bring along in their own files (DeepSeek-V3, GLM-4.5 and others), "
        "trained together with them. It works as EAGLE does, on the target's last hidden state.",
        "The softmax of its next state through the target's head, over the whole vocabulary.",
        "Nothing to train or to find: where the target has one, it fits.",
        "It was trained for the very next token: used again on its own states, it drifts. The built-in "
        "target has none.",
        (STORY, CODE),
    ),
    Kind(
        "combined",
        "Suffix decoding first; where it finds fewer than two tokens to copy, the small model (or whatever "
        "the pair's draft is) writes the block.",
        "Each round's q is that of the drafter that proposed: one-hot, or the draft's softmax.",
        "Text that repeats itself here and there: copies are free, and the draft fills the gaps.",
        "A match that misleads costs a round in which the draft would have done better.",
        (COPY, STORY),
    ),
)


def cards() -> None:
    """A card for each kind."""
    st.markdown("#### The kinds")
    st.caption(
        "Whoever drafts, the exact rule judges: the output is distributed as the target's. A drafter decides "
        "how fast, never what. The buttons put a prompt into *Same prompt* above."
    )
    for first in range(0, len(KINDS), 3):
        row = KINDS[first : first + 3]
        columns = st.columns(3)
        for column, kind in zip(columns, row, strict=False):
            with column.container(border=True, height="stretch"):
                _card(kind)
    if len(KINDS) % 3 == 0:
        columns = st.columns(3)
    with columns[len(KINDS) % 3].container(border=True, height="stretch"):
        st.markdown("##### Which one?")
        st.write(
            "The one whose tokens a round grow more than its rounds cost. If a draft token costs c "
            "target passes, and a pass over K + 1 tokens takes no longer than one over a single token,"
        )
        st.markdown("speed against plain decoding = tokens a round / (1 + K·c)")
        st.write(
            "(Leviathan et al. 2023). Prompt lookup has c ≈ 0 and often nothing to say; a good small "
            "model has the longer rounds and the larger c. *Same prompt* above measures both on this machine."
        )


def _card(kind: Kind) -> None:
    name = links.DRAFTERS[kind.name]
    st.markdown(f"##### {name[:1].upper()}{name[1:]}")
    st.write(kind.how)
    st.markdown(f"**q:** {kind.law}")
    st.markdown(f":material/thumb_up: {kind.shines}")
    st.markdown(f":material/thumb_down: {kind.fails}")
    with st.container(horizontal=True, gap="small"):
        for i, each in enumerate(kind.tries):
            st.button(
                each.label,
                key=keys.of(keys.TRY_IT, kind.name, i),
                on_click=_put,
                args=(each,),
                disabled=models.going(),
                icon=":material/arrow_upward:",
            )


def _put(each: Try) -> None:
    st.session_state[keys.SAME_PROMPT] = each.prompt
    st.session_state[keys.SAME_TEMPERATURE] = each.temperature
    st.session_state[keys.DRAFTERS_VIEW] = VIEWS[1]


VIEWS = ("Along a text", "Same prompt", "Rules and trees")
