"""Expected rounds along a text, against the engine itself with every outcome enumerated."""

import numpy as np
import pytest
from branching import enumerate_law
from drafts import table_drafts
from tables import TableModel, TablePair

from specviz.decoding import cache as caches
from specviz.decoding.drafters import Proposal, make_drafter
from specviz.decoding.drafters.base import Block
from specviz.decoding.drafters.model import ModelDrafter
from specviz.decoding.drafters.ngram import NgramDrafter
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.diagnosis.along import along as along_steps
from specviz.diagnosis.walk import kept, lookups, walk
from specviz.diagnosis.walkers import NOW, Source

PROMPT = (0, 1, 0, 2, 0, 1)
N, K = 4, 3
HOT = SamplingConfig(temperature=1.7, top_k=2)


def along(*arguments):
    return list(along_steps(*arguments))[-1]


class LookupFirst(ModelDrafter):
    """What the page calls “prompt lookup where it matches, the draft elsewhere”."""

    def __init__(self, pair, sampling):
        super().__init__(pair, sampling)
        self.lookup = NgramDrafter(pair, sampling, smallest=2)

    def propose(self, prefix, k, randomness):
        found = self.lookup.propose(prefix, k, randomness)
        return found if found.tokens else super().propose(prefix, k, randomness)


class StopsUnsure(ModelDrafter):
    """Looks at each distribution before it draws, and stops where its entropy is above a limit."""

    limit = 0.6

    def propose(self, prefix, k, randomness):
        if k == 0:
            return super().propose(prefix, 0, randomness)
        block = Block(prefix, self.sampling, self.model.available, randomness, self.score)
        fed = list(prefix[caches.length(self.cache) :])
        for _ in range(k):
            logits = self.model.forward(fed, self.cache, rows=1).logits
            q = self.score(logits, [[*prefix, *block.tokens]], self.sampling).probs[0]
            if -(q[q > 0] * np.log(q[q > 0])).sum() > self.limit:
                break
            fed = [block.draw(logits)]
        if not block.tokens:
            return Proposal([], np.zeros((0, self.vocab_size)))
        return block.proposal()


def enumerated(pair, make, k=K, **settings):
    """{text: (probability, expected rounds, accepted, drafted)} over all that the engine may do."""

    def program(randomness):
        run = DecodingRun(
            pair, PROMPT, drafter=make(), k=k, max_new_tokens=N, randomness=randomness, **settings
        )
        rounds = list(run)
        counts = len(rounds), sum(r.accepted for r in rounds), sum(r.k for r in rounds)
        return tuple(run.tokens[len(PROMPT) :]), counts

    found = {}
    for (text, counts), mass in enumerate_law(program).items():
        row = found.setdefault(text, np.zeros(4))
        row += mass * np.array([1.0, *counts])
    return {text: (row[0], *(row[1:] / row[0])) for text, row in found.items()}


def expected(pair, text, source, k=K, sampling=None, **more):
    measured = along(pair, [*PROMPT, *text], len(PROMPT), sampling or SamplingConfig(), [source])
    column = measured.columns[f"{source.name}|{NOW}"]
    if "stop" in more:
        more["go_on"] = measured.q_entropy <= more.pop("stop")
    return walk(kept(column.q, measured.p), k, endless=column.endless, proposed=np.isfinite(column.q), **more)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "ngram", "medusa", "eagle"])
def test_the_walk_is_the_engines_expectation_for_every_text(kind):
    pair = table_drafts(3, seed=3)
    law = enumerated(pair, lambda: make_drafter(kind, pair, SamplingConfig()))
    assert sum(row[0] for row in law.values()) == pytest.approx(1.0, abs=1e-12)
    for text, (_, rounds, accepted, _) in law.items():
        source = Source("draft", make_drafter(kind, pair, SamplingConfig()), {NOW: SamplingConfig()})
        found = expected(pair, text, source)
        assert (found.rounds, found.accepted) == pytest.approx((rounds, accepted), abs=1e-10), text


@pytest.mark.parametrize("k", [1, 2])
def test_other_controls_and_other_k(k):
    pair = table_drafts(3, seed=5)
    law = enumerated(pair, lambda: make_drafter("model", pair, HOT), k, draft_sampling=HOT)
    for text, (_, rounds, accepted, drafted) in law.items():
        source = Source("draft", make_drafter("model", pair, SamplingConfig()), {NOW: HOT})
        found = expected(pair, text, source, k)
        assert (found.rounds, found.accepted) == pytest.approx((rounds, accepted), abs=1e-10)
        assert found.drafted == pytest.approx(drafted, abs=1e-10)


def test_lookup_first():
    pair = table_drafts(3, seed=7)
    law = enumerated(pair, lambda: LookupFirst(pair, SamplingConfig()))
    looked = 0.0
    for text, (_, rounds, accepted, drafted) in law.items():
        lookup = NgramDrafter(pair, SamplingConfig(), smallest=2)
        copied, copies = lookups([*PROMPT, *text], len(PROMPT), lookup)
        source = Source("draft", make_drafter("model", pair, SamplingConfig()), {NOW: SamplingConfig()})
        found = expected(pair, text, source, copied=copied, copies=copies)
        assert (found.rounds, found.accepted) == pytest.approx((rounds, accepted), abs=1e-10)
        assert found.drafted + found.copied == pytest.approx(drafted, abs=1e-10)
        looked += found.copied
    assert looked > 0


def test_stopping_where_the_draft_is_unsure():
    pair = table_drafts(3, seed=9)
    law = enumerated(pair, lambda: StopsUnsure(pair, SamplingConfig()))
    for text, (_, rounds, accepted, _) in law.items():
        source = Source("draft", make_drafter("model", pair, SamplingConfig()), {NOW: SamplingConfig()})
        found = expected(pair, text, source, stop=StopsUnsure.limit)
        assert (found.rounds, found.accepted) == pytest.approx((rounds, accepted), abs=1e-10)


def test_a_trimmed_draft_and_a_filtered_target():
    target = TableModel(4, salt=1, name="target")
    pair = TablePair(target, TableModel(4, salt=2, name="draft", available=np.array([0, 1, 3])))
    sampling = SamplingConfig(temperature=0.8, top_p=0.9)
    law = enumerated(pair, lambda: make_drafter("model", pair, SamplingConfig()), 1, sampling=sampling)
    for text, (_, rounds, accepted, _) in law.items():
        source = Source("draft", make_drafter("model", pair, SamplingConfig()), {NOW: SamplingConfig()})
        found = expected(pair, text, source, 1, sampling)
        assert (found.rounds, found.accepted) == pytest.approx((rounds, accepted), abs=1e-10)


def test_numbers_along_a_text_are_those_of_single_passes():
    pair = table_drafts(5, seed=11)
    text = [3, 1, 4, 1, 2, 0, 2, 3, 3, 1, 0, 4, 2, 2, 1, 0, 3, 4, 4, 0]  # more than one chunk
    tokens = [*PROMPT[:3], *text]
    source = Source("draft", make_drafter("model", pair, SamplingConfig()), {NOW: SamplingConfig()})
    found = along(pair, tokens, 3, SamplingConfig(), [source], np.random.default_rng(0))
    for i in range(len(text)):
        p, q = (model.probs(tokens[: 3 + i]) for model in (pair.target, pair.draft))
        assert found.p[i] == pytest.approx(p[text[i]])
        assert found.columns[f"draft|{NOW}"].q[0, i] == pytest.approx(q[text[i]])
        assert found.beta[f"draft|{NOW}"][i] == pytest.approx(np.minimum(p, q).sum())
        assert found.logprob[i] == pytest.approx(np.log(p[text[i]]))
        assert q[found.refused[i]] > p[found.refused[i]]


def test_another_prompt_for_the_draft_shifts_nothing_else():
    pair = table_drafts(3, seed=13)
    lead = (2, 2, 1)
    source = Source("chat", make_drafter("model", pair, SamplingConfig()), {NOW: SamplingConfig()}, lead)
    text = [0, 1, 2, 1]
    found = along(pair, [*PROMPT, *text], len(PROMPT), SamplingConfig(), [source])
    for i in range(len(text)):
        q = pair.draft.probs([*lead, *text[:i]])
        assert found.columns[f"chat|{NOW}"].q[0, i] == pytest.approx(q[text[i]])


def test_a_full_context_of_the_draft_proposes_nothing():
    pair = table_drafts(3, seed=15)
    pair.draft = replace_context(pair.draft, len(PROMPT) + 2)
    source = Source("draft", make_drafter("model", pair, SamplingConfig()), {NOW: SamplingConfig()})
    found = along(pair, [*PROMPT, 0, 1, 2, 1, 0], len(PROMPT), SamplingConfig(), [source])
    assert found.lacking.tolist() == [False, False, False, True, True]
    assert found.columns[f"draft|{NOW}"].q[0, 3:].tolist() == [0.0, 0.0]


def replace_context(model, length):
    model.context_length = length
    return model
