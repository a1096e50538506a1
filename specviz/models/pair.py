"""Pairs of target and draft: loading them, and what the engine asks of them."""

import gc
from functools import cached_property
from typing import Any

import numpy as np

from specviz.decoding.protocols import EagleModel, MedusaHeads
from specviz.decoding.trace import PairInfo, TokenText
from specviz.models import checkpoints, memory, sources
from specviz.models.compatibility import Compatibility, compatibility
from specviz.models.drafts import eagle_draft, medusa_draft, model_draft
from specviz.models.errors import IncompatiblePair, LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.progress import Progress, Report, silent
from specviz.models.prompts import PromptEncoder
from specviz.models.report import Line, after_loading, before_loading, declared, proposes, refused
from specviz.models.suitability import require_suitable
from specviz.models.target_drafts import EarlyExit
from specviz.models.tokens import TokenTexts, special_ids


class LoadedPair:
    """A target, perhaps with a draft model; see `specviz.decoding.protocols.Pair`.

    Args:
        name: the name it was loaded by.
        target, draft: models whose logits have one width, V.
        tokenizer: the target's.
        fingerprint: identifies the target's weights.
        compatibility: how the two tokenizers compare; None for a draft without one of its own.
        published: the draft of a checkpoint that is no model of its own, by kind of drafter.
    """

    def __init__(
        self,
        name: str,
        target: TransformersModel,
        draft: TransformersModel | None,
        tokenizer: Any,
        fingerprint: str = "",
        compatibility: Compatibility | None = None,
        published: dict[str, Any] | None = None,
    ) -> None:
        self.target = target
        self.draft = draft
        self.tokenizer = tokenizer
        self.vocab_size = target.vocab_size
        self.compatibility = compatibility
        self.published = published or {}
        self.loaded: sources.Loaded | None = None  # the target as it came
        self.dtype_reason = ""  # why it runs in its dtype, where that was not asked for
        self.report: tuple[Line, ...] = ()  # what was looked at before the first round
        self.eos_ids = eos_ids(target.model, tokenizer)
        self.special_ids = special_ids(tokenizer)
        self.prompts = PromptEncoder(tokenizer)
        own = draft or next(iter(self.published.values()), None)
        proposed = _emittable(draft) if draft else own.info().vocab_size if own else self.vocab_size
        self.info = PairInfo(
            name=name,
            target=target.info(),
            draft=own.info() if own else None,
            vocab_size=self.vocab_size,
            draft_vocab_size=proposed,
            fingerprint=fingerprint,
        )
        self._texts = TokenTexts(tokenizer)

    @cached_property
    def medusa(self) -> MedusaHeads | None:
        """Medusa heads for this target, read when first asked for; None if there are none."""
        if "medusa" in self.published:
            return self.published["medusa"]
        return medusa_draft(self.target, self.info.fingerprint)

    @cached_property
    def eagle(self) -> EagleModel | None:
        """The EAGLE-style draft for this target, read when first asked for; None if there is none."""
        if "eagle" in self.published:
            return self.published["eagle"]
        return eagle_draft(self.target, self.info.fingerprint)

    @cached_property
    def mtp(self) -> EagleModel | None:
        """The target's own module for multi-token prediction, read when first asked for; None if it brings
        none."""
        from specviz.models.checkpoints import mtp

        return mtp.brought(self.target)

    def early_exit(self, layers: int | None = None) -> EarlyExit:
        """The target's first layers with its final norm and head; five sixths of them if None.

        Raises:
            ValueError: if the target does not have more layers than that, or cannot be cut like this.
        """
        if layers is None:
            layers = max(1, self.info.target.layers * 5 // 6)
        return EarlyExit(self.target, layers)

    def encode(self, prompt: str, chat: bool, **conversation: Any) -> list[int]:
        """Token ids of a prompt, with exactly one BOS where the model wants one.

        Args:
            prompt: the text.
            chat: put the target's chat template around it.
            conversation: system prompt, earlier turns and settings of the template; see
                `PromptEncoder.chat`.

        The text of a control token in `prompt` stays text. An empty plain prompt is the BOS alone, or
        nothing if the tokenizer has none.

        Raises:
            ValueError: if `chat` is asked for and the model has no chat template that takes one message,
                or for a token that the target has no embedding for.
        """
        ids = self.prompts.chat(prompt, **conversation) if chat else self.prompts.plain(prompt)
        for id in ids:
            if id >= self.target.embedded:
                raise ValueError(
                    f"the prompt holds {self.token_text(id).data.decode(errors='replace')!r} (id {id}), "
                    "which is "
                    f"beyond the target's embedding of {self.target.embedded:,} rows: leave it out"
                )
        return ids

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
    draft_dtype: str | None = None,
) -> LoadedPair:
    """Load a target and its draft.

    Args:
        target: "built-in", a hub id (with "@revision" for a branch, tag or commit), a local folder in
            transformers' format with safetensors weights, or a local GGUF file.
        draft: likewise, or a draft checkpoint as engines serve them (`specviz.models.checkpoints`). None
            means the draft trained for this target: the one that ships with the built-in target, one
            trained on this machine, or none.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto" to spread a model over all GPUs; None chooses
            CUDA, then MPS, then the CPU.
        dtype: "float32", "bfloat16" or "float16"; None means bfloat16 on a GPU that has it natively, for the
            built-in target on a CPU whichever of float32 and bfloat16 measures faster, else float32.
            `LoadedPair.dtype_reason` says why.
        draft_device, draft_dtype: of the draft, if not the target's.
        progress: told about every step, from this thread.
        beside: a pair whose target is this one, loaded already, in the same place: it serves both.

    Raises:
        FetchError: if the built-in target cannot be fetched.
        IncompatiblePair: if the tokenizers differ; told before any weights are read.
        LoadError: for anything else that stands in the way, with what was tried.
    """
    from specviz.models import products

    report = progress or silent
    place = sources.place(device, dtype)
    if dtype is None and target == sources.BUILT_IN and place.device == "cpu":
        report(Progress("measuring which number format is faster here", 0, 0))
        place = sources.Place(place.device, *products.faster_dtype())
    if draft is None and (draft_device is not None or draft_dtype is not None):
        raise LoadError("a draft trained for the target shares its embedding: its device and dtype too")
    draft_place = place
    if draft_device is not None or draft_dtype is not None:
        draft_place = sources.place(draft_device or place.device, draft_dtype or place.dtype)
    lines: list[Line] = []
    try:
        pair = _load(target, draft, place, draft_place, beside, report, lines)
    except LoadError as error:
        error.lines = (*lines, refused("pair", str(error)))
        raise
    pair.report = tuple(lines)
    pair.dtype_reason = place.reason if dtype is None else ""
    # Streamlit collects garbage after every rerun. The models' few hundred thousand objects live as long
    # as the process, and looking at them each time would cost a fifth of a second.
    gc.collect()
    gc.freeze()
    memory.give_back()
    return pair


def _load(
    target: str,
    draft: str | None,
    place: sources.Place,
    draft_place: sources.Place,
    beside: LoadedPair | None,
    report: Report,
    lines: list[Line],
) -> LoadedPair:
    """Open both, compare them, and only then read weights. `lines` gets what was found on the way."""
    from specviz.models import products

    opened = sources.open(target, report)
    other, compared = None, None
    public = None if draft in (None, target) else checkpoints.find(str(draft), report)
    if public is not None:
        lines += before_loading(opened, None, None, place, place)
        if draft_place != place:
            raise LoadError(f"{draft} works on the target's hidden states: its device and dtype too")
        return _with_public(opened, public, place, beside, report, lines)
    if draft is not None:
        other = opened if draft == target else sources.open(draft, report)
        compared = compatibility(opened.tokenizer, other.tokenizer, opened.width, other.width)
    lines += before_loading(opened, other, compared, place, draft_place)
    if compared is not None and not compared.ok:
        raise IncompatiblePair(f"{target} and {draft} cannot work together: {compared}")
    loaded, target_model = _target(opened, place, beside, report)
    width, known = loaded.vocab_size, loaded.known_ids()
    draft_model: TransformersModel | None = None
    if other is None:
        report(Progress("loading the draft", 0, 0))
        draft_model = model_draft(target_model, loaded.fingerprint)
    else:
        second = loaded if other is opened and draft_place == place else other.load(draft_place, report)
        draft_model = draft_of(second, width, known)
        if second is not loaded:  # others may be using the target meanwhile
            products.prepare(draft_model)
    lines += after_loading(target_model, draft_model)
    name = target if draft is None else f"{target} + {draft}"
    pair = LoadedPair(name, target_model, draft_model, loaded.tokenizer, loaded.fingerprint, compared)
    pair.loaded = loaded
    return pair


def draft_of(draft: sources.Loaded, width: int, known: np.ndarray) -> TransformersModel:
    """A loaded model as the draft of a target of `width` ids, of which `known` stand for a token. Its
    products are not prepared yet."""
    both = np.intersect1d(known, draft.known_ids())
    made = TransformersModel(draft.model, draft.name, width, both, _stand_in(draft))
    require_suitable(made)
    return made


def _target(
    opened: sources.Opened, place: sources.Place, beside: LoadedPair | None, report: Report
) -> tuple[sources.Loaded, TransformersModel]:
    """The target: the one of `beside` if that is the same, else read and prepared."""
    from specviz.models import products

    shared = None if beside is None else beside.loaded
    reused = shared is not None and shared.is_from(opened.source, place)
    loaded = shared if shared is not None and reused else opened.load(place, report)
    model = TransformersModel(loaded.model, loaded.name, loaded.vocab_size, loaded.known_ids())
    require_suitable(model)
    if not reused:
        products.prepare(model)
    return loaded, model


def _with_public(
    opened: sources.Opened,
    public: checkpoints.Checkpoint,
    place: sources.Place,
    beside: LoadedPair | None,
    report: Report,
    lines: list[Line],
) -> LoadedPair:
    """A pair of a target and a published draft checkpoint."""
    lines += declared(public, opened)
    loaded, model = _target(opened, place, beside, report)
    draft = public.load(model, report)
    lines += after_loading(model, None) + proposes(draft, model)
    name = f"{opened.source} + {public.source}"
    made = {public.kind: draft}
    pair = LoadedPair(name, model, None, loaded.tokenizer, loaded.fingerprint, published=made)
    pair.loaded = loaded
    return pair


def _stand_in(draft: sources.Loaded) -> int:
    """What a draft is fed for a token that it does not know: its unknown token, or its end of text."""
    for name in ("unk_token_id", "eos_token_id", "bos_token_id"):
        id = getattr(draft.tokenizer, name, None)
        if isinstance(id, int) and id < draft.model.get_input_embeddings().weight.shape[0]:
            return id
    return 0


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
