"""Recorded real runs of the built-in pair. Each is a recipe with a moral; running it again gives the same.

`python -m specviz record` makes the files again.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specviz.decoding import codec
from specviz.decoding.trace import Trace
from specviz.recipe import BUILT_IN, Recipe

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run.

    Attributes:
        name: of the file and in links.
        title: a word or two.
        moral: what it shows, in a sentence.
        recipe: what was run.
        select: the (round, position) to open with.
    """

    name: str
    title: str
    moral: str
    recipe: Recipe
    select: tuple[int, int] = (1, 1)

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.json.gz"


ITEMS = "- apples, 12\n- pears, 7\n- plums, 31\n- cherries, 4\n"
LIST = f"Repeat this list exactly.\n{ITEMS}\nThe list again:\n- apples,"
STORY = "The old lighthouse keeper opened the letter and"

RECORDINGS = (
    Recording(
        "capital",
        "First look",
        "Rounds in all their parts: tokens accepted, rejected, corrected, discarded; now and then a bonus.",
        Recipe(),
        (1, 4),
    ),
    Recording(
        "copying",
        "Copying",
        "Looking up the prompt costs nothing, and where there is a list to copy it is nearly always right.",
        Recipe(prompt=LIST, drafter="ngram", temperature=0.3),
    ),
    Recording(
        "story",
        "Open story",
        "Where many continuations are good, draft and target rarely agree, and most drafts are rejected.",
        Recipe(prompt=STORY, temperature=1.0),
    ),
    Recording(
        "nothing-to-copy",
        "Nothing to copy",
        "The same story with prompt lookup: earlier text rarely ends like this one, so little is proposed, "
        "and none of it is kept.",
        Recipe(prompt=STORY, drafter="ngram", temperature=1.0),
    ),
    Recording(
        "equal",
        "Draft equals target",
        "With q = p nothing can be rejected: every round keeps all K and adds a bonus.",
        Recipe(prompt=STORY, temperature=1.0, draft=BUILT_IN),
    ),
    Recording(
        "early-exit",
        "Early exit",
        "The target's own first layers draft. No second model is needed, but a draft token costs most of a "
        "pass.",
        Recipe(prompt=STORY, drafter="early-exit"),
    ),
    Recording(
        "medusa",
        "Medusa",
        "Each head guesses one place, from one hidden state and blind to what the others guess: the further "
        "on, the worse.",
        Recipe(prompt=STORY, drafter="medusa"),
        (2, 1),
    ),
    Recording(
        "eagle",
        "EAGLE",
        "One layer drafts on the target's hidden states. The first round has seen none yet and drafts "
        "nothing.",
        Recipe(prompt=STORY, drafter="eagle"),
        (2, 2),
    ),
    Recording(
        "long",
        "K too long",
        "Twelve drafts a round: nearly all behind the first rejection are thrown away.",
        Recipe(k=12, seed=1),
    ),
    Recording(
        "hot",
        "Hot",
        "A high temperature flattens p and q: unlikely tokens are drawn, and they must be judged too.",
        Recipe(temperature=1.6),
    ),
    Recording(
        "greedy",
        "Greedy",
        "At temperature 0 a draft token is accepted exactly if it is the target's first choice.",
        Recipe(prompt="Water boils at", temperature=0.0, max_tokens=32),
    ),
    Recording(
        "rejected",
        "First token rejected",
        "When the first draft token fails, a whole round yields one token, as plain decoding would.",
        Recipe(seed=13),
    ),
    Recording(
        "perfect",
        "A perfect round",
        "All four drafts are accepted, and the target's last row gives a fifth token for free.",
        Recipe(prompt="What is the capital of France?", chat=True, seed=0),
    ),
)


@lru_cache(maxsize=16)
def load(name: str) -> Trace:
    """A recorded run by name.

    Raises:
        KeyError: if there is none of that name.
    """
    return codec.load(recording(name).path)


def recording(name: str) -> Recording:
    return {r.name: r for r in RECORDINGS}[name]
