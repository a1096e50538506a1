"""Pairs of target and draft: loading them, and what the engine asks of them."""

import gc
from functools import cached_property
from typing import Any

import numpy as np

from specviz.decoding.trace import PairInfo, TokenText
from specviz.models import sources
from specviz.models.compatibility import Compatibility, compatibility
from specviz.models.drafts import eagle_draft, medusa_draft, model_draft
from specviz.models.errors import IncompatiblePair, LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.progress import Progress, Report, silent
from specviz.models.prompts import PromptEncoder
from specviz.models.suitability import require_suitable
from specviz.models.target_drafts import EagleDraft, EarlyExit, MedusaDraft
from specviz.models.tokens import TokenTexts, special_ids


class LoadedPair:
    """A target, perhaps with a draft model; see `specviz.decoding.protocols.Pair`.

    Args:
        name: the name it was loaded by.
        target, draft: models whose logits have one width, V.
        tokenizer: the target's.
        fingerprint: identifies the target's weights.
        compatibility: how the two tokenizers compare; None for a draft without one of its own.
    """

    def __init__(
        self,
        name: str,
        target: TransformersModel,
        draft: TransformersModel | None,
        tokenizer: Any,
        fingerprint: str = "",
        compatibility: Compatibility | None = None,
    ) -> None:
        self.target = target
        self.draft = draft
        self.tokenizer = tokenizer
        self.vocab_size = target.vocab_size
        self.compatibility = compatibility
        self.loaded: sources.Loaded | None = None  # the target as it came
        self.dtype_reason = ""  # why it runs in its dtype, where that was measured
        self.eos_ids = eos_ids(target.model, tokenizer)
        self.special_ids = special_ids(tokenizer)
        self.prompts = PromptEncoder(tokenizer)
        self.info = PairInfo(
            name=name,
            target=target.info(),
            draft=draft.info() if draft else None,
            vocab_size=self.vocab_size,
            draft_vocab_size=_emittable(draft) if draft else self.vocab_size,
            fingerprint=fingerprint,
        )
        self._texts = TokenTexts(tokenizer)

    @cached_property
    def medusa(self) -> MedusaDraft | None:
        """Medusa heads for this target, read when first asked for; None if there are none."""
        return medusa_draft(self.target, self.info.fingerprint)

    @cached_property
    def eagle(self) -> EagleDraft | None:
        """The EAGLE-style draft for this target, read when first asked for; None if there is none."""
        return eagle_draft(self.target, self.info.fingerprint)

    def early_exit(self, layers: int | None = None) -> EarlyExit:
        """The target's first layers with its final norm and head; five sixths of them if None.

        Raises:
            ValueError: if the target does not have more layers than that, or cannot be cut like this.
        """
        if layers is None:
            layers = max(1, self.info.target.layers * 5 // 6)
        return EarlyExit(self.target, layers)

    def encode(self, prompt: str, chat: bool) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one.

        The text of a control token in `prompt` stays text. An empty plain prompt is the BOS alone, or
        nothing if the tokenizer has none.

        Raises:
            ValueError: if `chat` is asked for and the model has no chat template that takes one message.
        """
        return self.prompts.chat(prompt) if chat else self.prompts.plain(prompt)

    def token_text(self, token: int) -> TokenText:
        """The exact bytes of a token id."""
        return self._texts(token)


def load_pair(
    target: str = sources.BUILT_IN,
    draft: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    draft_device: str | None = None,
    progress: Report | None = None,
    beside: "LoadedPair | None" = None,
) -> LoadedPair:
    """Load a target and its draft.

    Args:
        target: "built-in", a hub id, or a local folder in transformers' format with safetensors weights.
        draft: likewise. None means the draft trained for this target: the one that ships with the
            built-in target, one trained on this machine, or none.
        device: "cpu", "cuda", "cuda:1", "mps"; None chooses CUDA, then MPS, then the CPU.
        dtype: "float32", "bfloat16" or "float16"; None means bfloat16 on CUDA, for the built-in target on a
            CPU whichever of float32 and bfloat16 measures faster (`LoadedPair.dtype_reason` says it), else
            float32: MPS gains little from less, and float16 overflows in models trained in bfloat16.
        draft_device: where the draft runs, if not beside the target.
        progress: told about every step, from this thread.
        beside: a pair whose target is this one, loaded already, in the same place: it serves both.

    Raises:
        FetchError: if the built-in target cannot be fetched.
        IncompatiblePair: if the tokenizers differ.
        LoadError: for anything else that stands in the way, with what was tried.
    """
    from specviz.models import products

    report = progress or silent
    place = sources.place(device, dtype)
    dtype_reason = ""
    if dtype is None and target == sources.BUILT_IN and place.device == "cpu":
        report(Progress("measuring which number format is faster here", 0, 0))
        dtype, dtype_reason = products.faster_dtype()
        place = sources.place(device, dtype)
    shared_target = beside.loaded if beside is not None else None
    reused = shared_target is not None and shared_target.is_from(target, place)
    loaded = shared_target if shared_target is not None and reused else sources.load(target, place, report)
    width = loaded.vocab_size
    known = loaded.known_ids()
    target_model = TransformersModel(loaded.model, loaded.name, width, known)
    require_suitable(target_model)
    if not reused:
        products.prepare(target_model)
    name = target
    draft_model: TransformersModel | None = None
    report_on: Compatibility | None = None
    if draft is None:
        if draft_device is not None:
            raise LoadError("a draft trained for the target shares its embedding and runs on its device")
        report(Progress("loading the draft", 0, 0))
        draft_model = model_draft(target_model, loaded.fingerprint)
    else:
        name = f"{target} + {draft}"
        draft_place = sources.place(draft_device or device, dtype)
        same = loaded.is_from(draft, draft_place)
        other = loaded if same else sources.load(draft, draft_place, report)
        report_on = compatibility(loaded.tokenizer, other.tokenizer, loaded.width, other.width)
        if not report_on.ok:
            raise IncompatiblePair(f"{target} and {draft} cannot work together: {report_on}")
        shared = np.intersect1d(known, other.known_ids())
        draft_model = TransformersModel(other.model, other.name, width, shared)
        require_suitable(draft_model)
        products.prepare(draft_model)
    pair = LoadedPair(name, target_model, draft_model, loaded.tokenizer, loaded.fingerprint, report_on)
    pair.dtype_reason = dtype_reason
    pair.loaded = loaded
    # Streamlit collects garbage after every rerun. The models' few hundred thousand objects live as long
    # as the process, and looking at them each time would cost a fifth of a second.
    gc.collect()
    gc.freeze()
    return pair


def eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a text: from the generation config, the model's config and the tokenizer."""
    found: set[int] = set()
    for source in (model.generation_config, model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        if ids is not None:
            found.update(ids if isinstance(ids, list | tuple) else [ids])
    return frozenset(found)


def _emittable(model: TransformersModel) -> int:
    return model.vocab_size if model.available is None else len(model.available)
