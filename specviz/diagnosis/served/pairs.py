"""Which draft can be audited against a served target, and a pair of the two without the target's weights."""

from copy import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from specviz.decoding.drafters import COPYING, make_drafter, settings_of
from specviz.diagnosis.bench import bench_of, second_model
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.served.engine import Engine
from specviz.diagnosis.served.target import ServedTarget
from specviz.diagnosis.setting import Setting
from specviz.models import checkpoints, products, sources
from specviz.models.compatibility import Compatibility, compatibility
from specviz.models.context import context_limit
from specviz.models.errors import IncompatiblePair, LoadError
from specviz.models.language_model import TransformersModel
from specviz.models.pair import LoadedPair, draft_of, load_pair
from specviz.models.progress import Report
from specviz.models.tokens import vocabulary

ON_FEATURES = (
    "works on the target's hidden states, which no server sends: audit it against a target that is loaded "
    "here"
)


def served_bench(
    engine: Engine, setting: Setting, place: sources.Place, report: Report, listen: bool = False
) -> Bench:
    """The bench of an audit whose target is served. `setting.target` names the tokenizer of what is served.

    Args:
        engine: the server.
        place: of the draft.
        listen: take down what the server says of its own speculation.

    Raises:
        LoadError: if something cannot be loaded, or the draft needs more than probabilities.
        ValueError: if the server cuts text into other tokens.
    """
    _require_no_features(setting)
    own = not setting.draft and settings_of(setting.drafter)[0] not in COPYING
    made = (
        _own(engine, setting, place, report, listen)
        if own
        else _apart(engine, setting, place, report, listen)
    )
    target: Any = made.target
    target.require_usable(made.tokenizer)
    if make_drafter(setting.drafter, made, setting.draft_sampling).wants_features:
        raise LoadError(f"the drafter {setting.drafter} {ON_FEATURES}")
    second = None
    if name := second_model(setting):
        second = copy(made)
        second.draft, _ = _draft(name, made.tokenizer, made.vocab_size, place, report)
    return bench_of(made, setting, second)


def _require_no_features(setting: Setting) -> None:
    for kind in (setting.drafter, setting.second):
        if kind.partition(":")[0] in ("early-exit", "medusa", "eagle", "mtp"):
            raise LoadError(f"the drafter {kind} {ON_FEATURES}")


def _own(engine: Engine, setting: Setting, place: sources.Place, report: Report, listen: bool) -> LoadedPair:
    """The draft that was trained for the target, which shares its embedding: the target is read for it."""
    pair = load_pair(setting.target, None, place.device, place.dtype, progress=report)
    local = pair.target
    served = ServedTarget(
        engine, local.vocab_size, local.available, local.context_length, local.model, listen
    )
    pair = copy(pair)
    pair.target = served  # type: ignore[assignment]
    pair.info = replace(pair.info, target=served.info())
    return pair


def _apart(
    engine: Engine, setting: Setting, place: sources.Place, report: Report, listen: bool
) -> LoadedPair:
    """A draft of its own, or none: of the target only its config and tokenizer are read."""
    words = sources.words(setting.target, report)
    ids = np.unique(np.fromiter(vocabulary(words.tokenizer), dtype=np.int64))
    width = int(ids[-1]) + 1
    text = words.config.get_text_config()
    known = ids[ids < int(text.vocab_size)]
    described = SimpleNamespace(config=words.config, generation_config=words.ends)
    served = ServedTarget(
        engine, width, None if len(known) == width else known, context_limit(text)[0], described, listen
    )
    draft, compared = None, None
    if setting.draft:
        draft, compared = _draft(setting.draft, words.tokenizer, width, place, report)
    name = f"{engine.model} + {setting.draft}" if setting.draft else engine.model
    target: Any = served
    return LoadedPair(name, target, draft, words.tokenizer, compatibility=compared)


def _draft(
    source: str, tokenizer: Any, width: int, place: sources.Place, report: Report
) -> tuple[TransformersModel, Compatibility]:
    public = checkpoints.find(source, report)
    if public is not None:
        raise LoadError(f"{source} ({public.kind}) {ON_FEATURES}")
    opened = sources.open(source, report)
    compared = compatibility(tokenizer, opened.tokenizer, width, opened.width)
    if not compared.ok:
        raise IncompatiblePair(f"the served target and {source} cannot work together: {compared}")
    known = np.unique(np.fromiter(vocabulary(tokenizer), dtype=np.int64))
    draft = draft_of(opened.load(place, report), width, known)
    products.prepare(draft)
    return draft, compared
