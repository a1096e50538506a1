"""Early exit: the target's own first layers draft, through its final norm and head.

Nothing is trained and nothing shared is changed: the shortened model is a separate one around the same
weights, with a cache of its own. (Self-speculation as in Draft & Verify, Zhang et al. 2023, and
LayerSkip, Elhoushi et al. 2024, both of which choose or train the layers; here they are the first N.)
"""

from specviz.decoding.drafters.model import LanguageModelDrafter
from specviz.decoding.protocols import Pair
from specviz.decoding.sampling import SamplingConfig, Scorer, effective_probs


class EarlyExitDrafter(LanguageModelDrafter):
    """Drafts with the first `layers` layers of the target; None leaves the number to the pair."""

    kind = "early-exit"

    def __init__(
        self,
        pair: Pair,
        sampling: SamplingConfig,
        score: Scorer = effective_probs,
        *,
        layers: int | None = None,
    ) -> None:
        model = pair.early_exit(layers)
        super().__init__(model, pair.vocab_size, sampling, score)
        self.info = model.info()
        if layers is not None:
            self.kind = f"{self.kind}:{layers}"

    @staticmethod
    def settings(text: str) -> dict[str, int]:
        """Of "20" in "early-exit:20"."""
        return {"layers": int(text)}
