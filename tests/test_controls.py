"""Controls that look at single tokens or at the text: bias, forced tokens, min new tokens, grammars.

The laws they are held to are computed here, from the tables and from Python's own strings, not by the engine.
"""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from branching import enumerate_law
from tables import TableModel, TablePair, table_pair, total_variation

from specviz.decoding import codec, controls, grammar, run
from specviz.decoding.block import verify_whole_block
from specviz.decoding.controls import NothingLeft, SamplingConfig, bind
from specviz.decoding.faults.bookkeeping import stale_history
from specviz.decoding.grammar import Grammar, GrammarError, Mask
from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import effective_probs
from specviz.decoding.verify import verify_block
from specviz.exactness.cache_check import check_caches, checked
from specviz.reading.explain import REASONS
from specviz.reading.logit_steps import chain

PROMPT = (0, 1, 0, 0, 1)  # "abaab": prompt lookup finds what to copy
A, B, EOS = 0, 1, 2
LENGTH = 3
WORDS = {"ab", "aba", "ba", "bab", "b", "aab"}
REGEX = Grammar("regex", "ab|aba|ba|bab|b|aab")
CONTROLS = {
    "bias": SamplingConfig(bias=((A, 2.0), (EOS, -1.5))),
    "bias and penalty": SamplingConfig(0.7, bias=((A, 2.0), (B, -1.5)), repetition_penalty=1.5),
    "forced": SamplingConfig(forced=(B, A)),
    "min new tokens": SamplingConfig(min_new_tokens=2),
    "grammar": SamplingConfig(grammar=REGEX),
    "grammar, least and bias": SamplingConfig(0.8, bias=((A, 1.0),), min_new_tokens=2, grammar=REGEX),
    "all": SamplingConfig(1.3, 2, 0.97, 0.02, 1.2, (EOS,), ((B, 0.5),), (A,), 1, Grammar("regex", "[ab]*")),
}
NONE = SamplingConfig()


def letters(tokens):
    return "".join("ab"[token] for token in tokens)


def allowed(sampling, written):
    """The tokens that may follow `written`, from what the controls mean."""
    ids = {A, B, EOS} - set(sampling.banned)
    if len(written) < sampling.min_new_tokens:
        ids -= {EOS}
    if len(written) < len(sampling.forced):
        ids &= {sampling.forced[len(written)]}
    if sampling.grammar == REGEX:
        text = letters(written)
        ids &= {t for t in (A, B) if any(w.startswith(text + letters([t])) for w in WORDS)} | (
            {EOS} if text in WORDS else set()
        )
    return sorted(ids)


def law_of(model, sampling):
    """The law of texts of up to LENGTH tokens: plain sampling under the controls, without the engine."""
    law = {}

    def go_on(written, mass):
        if len(written) == LENGTH or EOS in written:
            law[written] = law.get(written, 0.0) + mass
            return
        history = (*PROMPT, *written)
        scores = model.logits(history).copy()
        for token, bias in sampling.bias:
            scores[token] += bias
        for token in set(history):
            scores[token] *= (
                sampling.repetition_penalty if scores[token] < 0 else 1 / sampling.repetition_penalty
            )
        gone = np.ones(3, dtype=bool)
        gone[allowed(sampling, written)] = False
        scores[gone] = -np.inf
        plain = SamplingConfig(sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p)
        ids = np.flatnonzero(~gone)
        probs = effective_probs(scores[ids][None], [()], plain).probs[0]
        for token, p in zip(ids.tolist(), probs.tolist(), strict=True):
            if p:
                go_on((*written, token), mass * p)

    go_on((), 1.0)
    return law


def engine_law(pair, k=2, start=DecodingRun, **settings):
    def program(randomness):
        made = start(pair, PROMPT, k=k, max_new_tokens=LENGTH, randomness=randomness, **settings)
        list(made)
        return tuple(made.tokens[len(PROMPT) :])

    return enumerate_law(program)


def distance(sampling, draft_sampling, seed=3, **settings):
    pair = table_pair(3, seed, eos=[EOS])
    law = engine_law(pair, sampling=sampling, draft_sampling=draft_sampling, **settings)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    return total_variation(law, law_of(pair.target, sampling))


@pytest.mark.parametrize("where", ["target", "draft", "both"])
@pytest.mark.parametrize("drafter", ["model", "ngram:1-2", "suffix"])
@pytest.mark.parametrize("name", CONTROLS)
def test_the_law_of_texts_is_the_targets(name, drafter, where):
    target = NONE if where == "draft" else CONTROLS[name]
    draft = NONE if where == "target" else CONTROLS[name]
    assert distance(target, draft, drafter=drafter) < 1e-12


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_law_does_not_depend_on_k_nor_on_the_rule(name, k):
    for verifier in (verify_block, verify_whole_block):
        assert distance(CONTROLS[name], NONE, k=k, verifier=verifier) < 1e-12


def test_a_trimmed_draft_that_a_grammar_leaves_nothing_stops_its_block():
    """The draft has no token b, and the grammar wants one: it drafts up to there, and the law stays."""
    pair = TablePair(TableModel(3, salt=5), TableModel(3, salt=6, available=np.array([A, EOS])), eos=[EOS])
    law = engine_law(pair, sampling=SamplingConfig(grammar=REGEX))
    assert total_variation(law, law_of(pair.target, SamplingConfig(grammar=REGEX))) < 1e-12
    made = DecodingRun(pair, PROMPT, k=2, sampling=SamplingConfig(grammar=Grammar("regex", "bbb")))
    assert [round.k for round in made] == [0, 0, 0, 2]  # the EOS it has again


def test_a_draft_equal_to_the_target_is_accepted_under_every_control():
    for sampling in CONTROLS.values():
        pair = TablePair(*(TableModel(3, salt=9) for _ in range(2)), eos=[EOS])
        for seed in range(8):
            made = DecodingRun(pair, PROMPT, k=3, sampling=sampling, max_new_tokens=8, seed=seed)
            assert all(round.accepted == round.k for round in made)


def test_ignoring_eos_changes_where_a_text_ends_and_no_distribution():
    pair = table_pair(3, seed=10, eos=[EOS])
    other = table_pair(3, seed=10)
    law = engine_law(pair, ignore_eos=True)
    assert total_variation(law, engine_law(other)) < 1e-12
    assert all(len(text) == LENGTH for text in law)


def test_a_branch_counts_what_was_written_before_it():
    pair = table_pair(3, seed=3, eos=[EOS])
    sampling = SamplingConfig(forced=(B, A), min_new_tokens=3)
    made = DecodingRun(pair, [*PROMPT, B], written=1, k=0, sampling=sampling, max_new_tokens=2)
    list(made)
    assert made.tokens[len(PROMPT) :][:2] == [B, A] and EOS not in made.tokens
    with pytest.raises(ValueError, match="written must be 0 … 5"):
        DecodingRun(pair, PROMPT, written=6)


# --- the grammar's parser: a cache like others, which must say what a fresh one says --------------------


def test_the_parser_led_to_and_fro_agrees_with_a_fresh_one():
    pair = table_pair(3, seed=1, eos=[EOS])
    held = Mask(pair, REGEX)
    texts = [text for n in range(4) for text in product((A, B, EOS), repeat=n)]
    order = np.random.default_rng(0).permutation(len(texts) * 3) % len(texts)
    for i in order:
        one, other = held.allowed(texts[i]), Mask(pair, REGEX).allowed(texts[i])
        assert (one is None) == (other is None)
        if one is not None:
            assert one.tolist() == other.tolist()
            assert np.flatnonzero(one).tolist() == allowed(SamplingConfig(grammar=REGEX), texts[i])


def test_a_copied_run_has_a_parser_of_its_own():
    pair = table_pair(3, seed=1, eos=[EOS])
    made = DecodingRun(pair, PROMPT, k=2, sampling=SamplingConfig(grammar=Grammar("regex", "[ab]{20}")))
    made.step()
    other = deepcopy(made)
    assert [r.committed for r in other] == [r.committed for r in made]


def test_every_end_of_the_model_ends_the_grammar():
    pair = TablePair(TableModel(4), TableModel(4, salt=2), eos=[EOS, 3])
    assert np.flatnonzero(Mask(pair, Grammar("regex", "a")).allowed([A])).tolist() == [EOS, 3]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (("regex", "("), "unclosed group"),
        (("json", "{"), "not JSON"),
        (("json", '{"type": "objekt"}'), "objekt"),
        (("lark", "start: nothing"), "nothing"),
        (("lark", "x" * 30_000), "at most 20,000"),
        (("yaml", "a"), "one of json, regex, lark"),
    ],
)
def test_a_grammar_that_cannot_be_read_is_refused_in_one_sentence(bad, says):
    with pytest.raises(GrammarError, match=says) as error:
        SamplingConfig(grammar=Grammar(*bad))
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_grammar_needs_an_end():
    with pytest.raises(GrammarError, match="no EOS"):
        bind(SamplingConfig(grammar=REGEX), table_pair(3, 1), 0)


def test_controls_that_are_bound_to_no_text_are_refused():
    with pytest.raises(ValueError, match="bind them"):
        effective_probs(np.zeros((1, 3)), [()], SamplingConfig(min_new_tokens=1))


def test_tokens_that_do_not_exist_are_refused_before_the_run():
    for sampling in (
        SamplingConfig(bias=((7, 1.0),)),
        SamplingConfig(banned=(9,)),
        SamplingConfig(forced=(3,)),
    ):
        with pytest.raises(ValueError, match="outside the vocabulary of 3 ids"):
            DecodingRun(table_pair(3, 1), PROMPT, sampling=sampling)


def test_controls_that_contradict_each_other_name_the_round():
    made = DecodingRun(table_pair(3, 1), PROMPT, sampling=SamplingConfig(banned=(B,), forced=(A, B)), k=0)
    made.step()
    with pytest.raises(run.RunError, match="round 2: the controls leave no token"):
        made.step()
    with pytest.raises(NothingLeft):
        effective_probs(np.zeros((1, 2)), [()], SamplingConfig(banned=(0, 1)))


def test_a_trace_keeps_the_controls_and_what_each_removed():
    pair = table_pair(3, seed=3, eos=[EOS])
    made = DecodingRun(pair, PROMPT, k=2, sampling=CONTROLS["all"], ignore_eos=True, max_new_tokens=6)
    list(made)
    again = codec.loads(codec.dumps(made.trace()))
    assert again == made.trace()
    assert again.sampling == CONTROLS["all"] and type(again.sampling) is SamplingConfig
    assert again.ignore_eos and again.draft_context == 64
    first = again.rounds[0].positions[0].table
    why = dict(zip(first.ids, first.target_removed, strict=True))
    assert why == {A: "", B: "forced", EOS: "min new tokens"}  # the first control that removes it is named
    grammar_only = DecodingRun(pair, PROMPT, k=0, sampling=SamplingConfig(grammar=REGEX))
    table = grammar_only.step().positions[0].table
    assert dict(zip(table.ids, table.target_removed, strict=True))[EOS] == "grammar"


@pytest.mark.parametrize("name", CONTROLS)
def test_every_step_from_logit_to_probability_is_told(name):
    pair = table_pair(3, seed=3, eos=[EOS])
    made = DecodingRun(pair, PROMPT, k=2, sampling=CONTROLS[name], max_new_tokens=LENGTH)
    list(made)
    trace = codec.loads(codec.dumps(made.trace()))
    for round in trace.rounds:
        for row, position in enumerate(round.positions):
            for token in position.table.ids:
                told = [chain(trace, round, row, token, model) for model in ("target", "draft")]
                assert all(c is None or c.probability == pytest.approx(c.recorded, abs=1e-6) for c in told)
            for removed in {*position.table.target_removed, *position.table.draft_removed} - {""}:
                assert removed in REASONS


# --- mutants -------------------------------------------------------------------------------------------


class ByRounds(DecodingRun):
    """Counts the rounds where it should count the tokens."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)

        def score(logits, prefixes, sampling, available):
            counted = [[*PROMPT, *[A] * len(self.rounds)]] * len(prefixes)
            return effective_probs(logits, counted, sampling, available)

        self.score = score


def keeps_drafts(self, written):
    """A parser that is advanced and never rolled back."""
    for token in list(written)[len(self._read) :]:
        if self._matcher.validate_tokens([token]):
            self._matcher.consume_token(token)
            self._read.append(token)
    return True


def cut_one_too_few(self, written, follow=Mask._follow):
    read = list(self._read)
    common = next((i for i, pair in enumerate(zip(read, written, strict=False)) if len(set(pair)) > 1), None)
    if common is not None and len(read) > common + 1:
        self._matcher.rollback(len(read) - common - 1)
        del self._read[common:]  # says that it was cut
    return follow(self, written)


def copied_mutant(self, memo):
    other = Mask.__deepcopy__(self, memo)
    other.__class__ = type(self)
    return other


def test_the_checks_notice_min_new_tokens_counted_in_rounds():
    assert distance(CONTROLS["min new tokens"], NONE, start=ByRounds) > 0.01


def test_the_checks_notice_forced_tokens_counted_in_rounds():
    assert distance(CONTROLS["forced"], NONE, start=ByRounds) > 0.01


@pytest.mark.parametrize("name", ["min new tokens", "forced", "grammar"])
def test_the_checks_notice_controls_that_do_not_see_the_drafts(name):
    assert distance(CONTROLS[name], NONE, score=stale_history) > 0.01


@pytest.mark.parametrize("mutant", [keeps_drafts, cut_one_too_few])
def test_the_checks_notice_a_mask_that_is_not_rolled_back(monkeypatch, mutant):
    monkeypatch.setattr(grammar.Mask, "_follow", mutant)
    try:
        far = distance(CONTROLS["grammar"], CONTROLS["grammar"], seed=4)
    except (run.RunError, GrammarError):
        return  # the parser itself refuses
    assert far > 1e-3


@pytest.mark.parametrize("drafter", ["model", "suffix"])
def test_the_cache_audit_looks_at_the_parsers_of_both(drafter):
    pair = table_pair(3, seed=4, eos=[EOS])
    for seed in range(4):
        made = DecodingRun(pair, PROMPT, k=3, drafter=drafter, sampling=CONTROLS["grammar"], seed=seed)
        for _, checks in checked(made):
            assert [check.role for check in checks] == ["target", "draft"]
            assert all(check.parser == "" and check.ok for check in checks)
            assert "parser stands where the text ends: right" in checks[0].sentence
    free = DecodingRun(pair, PROMPT, k=3, draft_sampling=CONTROLS["grammar"])
    free.step()
    assert [check.parser for check in check_caches(free)] == [None, ""]


@pytest.mark.parametrize("mutant", [keeps_drafts, cut_one_too_few])
@pytest.mark.parametrize("where", ["target", "draft"])
def test_the_cache_audit_notices_a_parser_that_is_not_rolled_back(mutant, where):
    """In the run alone: the audit's own parser is a right one."""
    pair = table_pair(3, seed=4, eos=[EOS])
    sampling = SamplingConfig(grammar=Grammar("regex", "((ab|b)a?){9}"))
    found = []
    for seed in range(6):
        made = DecodingRun(pair, PROMPT, k=3, seed=seed, max_new_tokens=12, sampling=sampling)
        mask = (made.controls if where == "target" else made.drafter.sampling).mask
        mask.__class__ = type("Mutant", (Mask,), {"_follow": mutant, "__deepcopy__": copied_mutant})
        try:
            for _, checks in checked(made):
                found += [check for check in checks if not check.ok]
        except (run.RunError, GrammarError):
            pass  # the parser itself refuses
    assert found and {check.role for check in found} == {where}
    assert all(check.parser and "parser" in check.sentence and "wrong" in check.sentence for check in found)


def test_the_checks_notice_a_start_that_is_off_by_one(monkeypatch):
    real = controls.bind
    monkeypatch.setattr(run, "bind", lambda sampling, pair, start: real(sampling, pair, start - 1))
    for name in ("min new tokens", "forced"):
        assert distance(CONTROLS[name], NONE) > 0.01


def test_the_checks_notice_a_bias_behind_the_temperature():
    cold = SamplingConfig(0.5, bias=((A, 2.0), (EOS, -1.5)))

    def behind(logits, prefixes, sampling, available):
        later = np.array([sampling.temperature * 2.0, 0.0, sampling.temperature * -1.5])
        return effective_probs(logits + later, prefixes, SamplingConfig(sampling.temperature), available)

    assert distance(cold, NONE) < 1e-12
    assert distance(cold, NONE, score=behind) > 0.01


def test_the_checks_notice_a_draft_that_reports_q_without_its_mask():
    """Drawn under the grammar, reported as if anything had been possible."""

    class Unmasked:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def propose(self, prefix, k, randomness):
            from dataclasses import replace

            made = self.inner.propose(prefix, k, randomness)
            if not made.tokens:
                return made
            return replace(made, probs=effective_probs(made.logits, [()] * len(made.tokens), NONE).probs)

    far = distance(NONE, CONTROLS["grammar"], change_drafter=lambda drafter, sampling: Unmasked(drafter))
    assert far > 0.01
