"""Pairs of which it is known why the draft gets rejected, and audits of them."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from tables import TableModel, TablePair

from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis.audit import Audit
from specviz.diagnosis.observe import Bench
from specviz.diagnosis.prompts import parse
from specviz.diagnosis.report import Report
from specviz.diagnosis.setting import Setting

V = 26  # the letters
PROMPTS = "\n".join(f"{a}{b}{a}c" for a, b in zip("bdefghij", "opqrstuv", strict=True))
PLAIN, CHAT = 0, 1  # first tokens of a prompt: what stands for its template


@lru_cache(maxsize=100_000)
def logits(salt, *key, spread=1.6):
    return np.random.default_rng([salt, *key]).normal(0.0, spread, V)


def target_law(history):
    """Depends on the template (the first token), the place, and the last two tokens."""
    a, b = (*history, *history)[-2:]
    return logits(1, history[0], len(history) % 3, a, b) + 0.8 * logits(2, b)


def near(share):
    """A draft that knows the target's scores, with noise in place of the rest."""

    def law(history):
        a, b = (*history, *history)[-2:]
        return share * target_law(history) + (1 - share) * 1.5 * logits(3, a, b)

    return law


def weak(history):
    """Knows what follows the last token on average, and nothing else; as sure as it should be."""
    return 0.9 * logits(2, history[-1])


def wrong_layers(history):
    """Sharp, and unrelated to anything."""
    a, b = (*history, *history)[-2:]
    return logits(9, len(history), a, b, spread=5.0)


def foreign_law(history):
    """A target whose texts use the last letters mostly."""
    return target_law(history) + np.where(np.arange(V) >= 14, 2.0, 0.0)


class ChatPair(TablePair):
    """The chat template puts another token in front."""

    def encode(self, prompt, chat):
        return [CHAT if chat else PLAIN, *super().encode(prompt, chat)]


def pair(law, target=target_law, available=None, context_length=200):
    return ChatPair(
        TableModel(V, law=target, name="target", context_length=context_length),
        TableModel(V, law=law, name="draft", context_length=context_length, available=available),
    )


SETTING = Setting(max_new_tokens=40, self_checks=2)
WARM = SamplingConfig(temperature=0.2)

# name: (pair, setting, key of the finding that has to come first)
BAD = {
    "wrong chat template": (pair(near(1.0)), replace(SETTING, chat=True, draft_prompt="plain"), "prompt"),
    "temperature 0.2 against 1": (pair(near(0.9)), replace(SETTING, draft_sampling=WARM), "controls"),
    "top-k on one side": (
        pair(near(0.9)),
        replace(SETTING, draft_sampling=SamplingConfig(top_k=2)),
        "controls",
    ),
    "another layer order": (pair(wrong_layers), SETTING, "broken-weights"),
    "a fault of its cache": (pair(near(0.95)), replace(SETTING, rule="draft-cache-hole"), "draft-cache"),
    "trimmed vocabulary, other language": (
        pair(lambda h: near(0.9)(h), foreign_law, np.arange(16)),
        SETTING,
        "vocabulary",
    ),
    "plainly weak": (pair(weak), SETTING, "weak"),
}


def audited(folder, bench_pair, setting, text=PROMPTS, second=None):
    work = Audit(folder, parse(text, False), setting)
    bench = Bench(bench_pair, setting, second)
    while not work.finished:
        work.step(bench)
    work.close()
    return Report.of(folder)
