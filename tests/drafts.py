"""Pairs that have every kind of draft: on tables with features, and on a tiny random Llama."""

import numpy as np
import torch
from tables import TableCache, TableModel, TablePair
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.decoding.protocols import ModelOutput
from specviz.decoding.trace import ModelInfo
from specviz.models import parts
from specviz.models.language_model import TransformersModel
from specviz.models.target_drafts import EagleDraft, EarlyExit, MedusaDraft
from specviz.models.trimmed import TrimmedHead

KINDS = ("model", "ngram", "suffix", "early-exit", "parallel", "medusa", "eagle", "mtp", "combined")
WIDTH = 4


class FeatureTable(TableModel):
    """A table model whose logits come from a feature of the whole history, which it also returns."""

    def feature(self, history) -> np.ndarray:
        return np.random.default_rng([self.salt, 77, len(history), *history]).normal(0.0, 1.0, WIDTH)

    def logits(self, history):
        history = tuple(history)
        if history not in self._known:
            head = np.random.default_rng(self.salt).normal(0.0, 0.9, (self.vocab_size, WIDTH))
            self._known[history] = head @ self.feature(history)
        return self._known[history]

    def forward(self, tokens, cache, rows, features=False):
        before = list(cache.layers[0].tokens)
        output = super().forward(tokens, cache, rows)
        if not features:
            return output
        held = [*before, *tokens]
        seen = [self.feature(held[: n + 1]) for n in range(len(before), len(held))]
        return ModelOutput(output.logits, np.stack(seen))

    def info(self):
        return ModelInfo(self.name, 0, "cpu", "float64", 1, self.vocab_size)


class TableHeads:
    """Medusa heads on features of a table."""

    def __init__(self, vocab_size, count=3, available=None):
        self.vocab_size, self.count, self.available = vocab_size, count, available
        self.weights = np.random.default_rng(5).normal(0.0, 1.0, (count, vocab_size, WIDTH))

    def forward(self, feature):
        return self.weights @ feature

    def info(self):
        return ModelInfo("heads", 0, "cpu", "float64", 0, self.vocab_size)


class TableEagle:
    """Logits and features from all it was fed: tokens, and what it was told of the features before."""

    reads = True

    def __init__(self, vocab_size, context_length=64, available=None):
        self.vocab_size, self.context_length, self.available = vocab_size, context_length, available
        self.no_feature = np.zeros(WIDTH)

    def new_cache(self):
        return TableCache()

    def forward(self, tokens, before, cache):
        held = cache.layers[0].tokens
        held += [(token, tuple(np.round(feature, 9))) for token, feature in zip(tokens, before, strict=True)]
        seed = abs(hash(tuple(held)))
        rng = np.random.default_rng(seed)
        return ModelOutput(rng.normal(0.0, 1.2, (1, self.vocab_size)), rng.normal(0.0, 1.0, WIDTH))

    def info(self):
        return ModelInfo("eagle", 0, "cpu", "float64", 1, self.vocab_size)


class DraftedPair(TablePair):
    def __init__(self, target, draft, medusa, eagle, exit_early, **kwargs):
        super().__init__(target, draft, **kwargs)
        self.medusa, self.eagle, self._exit_early = medusa, eagle, exit_early
        self.mtp = eagle  # the same in all but its name

    def early_exit(self, layers):
        return self._exit_early(layers)


def table_drafts(vocab_size=3, seed=1, context_length=64, available=None, **kwargs) -> DraftedPair:
    """Every kind of draft, from tables."""
    size = {"vocab_size": vocab_size, "context_length": context_length}
    draft = {**size, "available": available}
    return DraftedPair(
        FeatureTable(**size, salt=seed, name="target"),
        FeatureTable(**draft, salt=seed + 1000, name="draft"),
        TableHeads(vocab_size, available=available),
        TableEagle(vocab_size, context_length, available),
        lambda layers: FeatureTable(**draft, salt=seed + 2000, name="first layers"),
        **kwargs,
    )


def double_llama(vocab_size, seed, layers=3) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.5,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).double().eval()


def llama_drafts(vocab_size=3, seed=1, ids=None, **kwargs) -> DraftedPair:
    """Every kind of draft, by the modules that the real pairs have, with random weights in float64."""
    target = TransformersModel(double_llama(vocab_size, seed), "target", vocab_size)
    draft = TransformersModel(double_llama(vocab_size, seed + 1), "draft", vocab_size)
    kept = torch.arange(vocab_size) if ids is None else torch.tensor(ids)
    head = TrimmedHead(target.logits_of, kept, vocab_size)
    info = ModelInfo("trained", 0, "cpu", "float64", 1, len(kept))
    with torch.random.fork_rng():
        torch.manual_seed(seed + 2)
        heads = parts.MedusaHeads(16, 3).double()
        core = parts.EagleCore(target.body, 16, torch.float64).eval()
        for weight in (*heads.parameters(), *core.parameters()):
            torch.nn.init.normal_(weight, 0.0, 0.5)
    return DraftedPair(
        target,
        draft,
        MedusaDraft(heads, head, info),
        EagleDraft(core, target.model.get_input_embeddings(), head, info, 64),
        lambda layers: EarlyExit(target, layers or 2),
        **kwargs,
    )
