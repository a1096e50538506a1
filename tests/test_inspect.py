"""What the inspector says must follow from the trace, and the trace's numbers from one another."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tables import TableModel, TablePair, table_pair

from specviz.decoding.run import DecodingRun
from specviz.decoding.sampling import SamplingConfig
from specviz.decoding.verify import Verdict
from specviz.reading import explain, explain_numbers
from specviz.reading.cache_cells import cache_strips, figures, next_feed
from specviz.reading.inspect import inspect_position, telling
from specviz.reading.logit_steps import chain
from specviz.reading.prose import apart, number, plain
from specviz.reading.rejudge import rejudge

CONFIGS = {
    "plain": SamplingConfig(),
    "hot": SamplingConfig(temperature=1.7),
    "cold, filtered": SamplingConfig(temperature=0.5, top_k=9, top_p=0.9, min_p=0.02),
    "penalty": SamplingConfig(repetition_penalty=1.4, banned=(2, 5)),
    "greedy": SamplingConfig(temperature=0.0, repetition_penalty=1.4, banned=(2,)),
}


@cache
def run_of(config="plain", drafter="model", vocab_size=40, seed=2, k=4, tokens=40, draft_config=None):
    run = DecodingRun(
        table_pair(vocab_size, seed),
        [0, 1, 2, 0, 1],
        drafter=drafter,
        k=k,
        sampling=CONFIGS[config],
        draft_sampling=None if draft_config is None else CONFIGS[draft_config],
        max_new_tokens=tokens,
        seed=seed,
    )
    rows = []
    for _ in run:
        rows.append(run.recent)
    return run.trace(), rows


def places(trace):
    for round in trace.rounds:
        for position in range(1, round.k + 2):
            yield inspect_position(trace, round.number, position)


def say(place):
    return plain(explain.verdict(place), lambda token: f"<{token}>")


def first(trace, state, **wanted):
    found = (p for p in places(trace) if p.state == state)
    return next(p for p in found if all(getattr(p, k) == v for k, v in wanted.items()))


# --- the numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", CONFIGS)
@pytest.mark.parametrize("draft", ["plain", "cold, filtered", "greedy"])
def test_the_chain_arrives_at_the_recorded_probability(target, draft):
    trace, _ = run_of(target, draft_config=draft, tokens=20)
    steps_seen, removed = set(), 0
    for round in trace.rounds:
        for row, position in enumerate(round.positions):
            for token in position.table.ids:
                for model in ("target", "draft"):
                    steps = chain(trace, round, row, token, model)
                    if model == "draft" and row == round.k:
                        assert steps is None
                        continue
                    assert steps.probability == pytest.approx(steps.recorded, abs=1e-6)
                    assert steps.steps[0].name == "logit"
                    steps_seen |= {(step.name, step.note) for step in steps.steps}
                    removed += any(step.value is None for step in steps.steps)
    if CONFIGS[target].repetition_penalty != 1.0:
        assert {("repetition penalty", "seen before"), ("repetition penalty", "not seen")} <= steps_seen
    assert (removed > 0) == (target not in ("plain", "hot") or draft != "plain")


def test_the_chain_says_which_control_took_the_token():
    trace, _ = run_of("cold, filtered")
    names = set()
    for round in trace.rounds:
        for i, token in enumerate(round.positions[0].table.ids):
            last = chain(trace, round, 0, token, "target").steps[-2]
            reason = round.positions[0].table.target_removed[i]
            if reason:
                assert (last.name, last.note) == (reason, "removed")
                names.add(reason)
    assert {"top-k", "top-p"} <= names


def test_a_drafter_without_logits_and_a_trimmed_vocabulary_have_no_chain():
    trace, _ = run_of(drafter="ngram", vocab_size=4)
    round = next(r for r in trace.rounds if r.k)
    token = round.positions[0].table.ids[0]
    assert chain(trace, round, 0, token, "draft").steps == ()
    pair = TablePair(TableModel(30, salt=1), TableModel(30, salt=2, available=np.arange(5)))
    run = DecodingRun(pair, [1], k=2, max_new_tokens=6, seed=1)
    round = run.step()
    table = round.positions[0].table
    outside = next(i for i, reason in enumerate(table.draft_removed) if reason == "vocabulary")
    steps = chain(run.trace(), round, 0, table.ids[outside], "draft")
    assert (steps.steps, steps.probability) == ((), 0.0)


@pytest.mark.parametrize("config", ["plain", "cold, filtered", "greedy"])
@pytest.mark.parametrize("vocab_size", [5, 40, 300])
def test_the_parts_of_a_row_add_up(config, vocab_size):
    trace, _ = run_of(config, vocab_size=vocab_size)
    for place in places(trace):
        shown, others = telling(place)
        for candidates, rest in ((place.candidates, place.rest), (shown, others)):
            assert sum(c.p for c in candidates) + rest.p == pytest.approx(1.0)
            if place.row.token is None:
                assert rest.q is None and all(c.q is None for c in candidates)
                continue
            assert sum(c.q for c in candidates) + rest.q == pytest.approx(1.0)
            assert sum(c.overlap for c in candidates) + rest.overlap == pytest.approx(place.row.beta)
            if place.row.residual_mass:
                assert sum(c.residual for c in candidates) + rest.residual == pytest.approx(1.0)
            assert len(candidates) + rest.count == vocab_size
        if place.row.token is not None:
            assert place.rejected_mass == pytest.approx(place.row.residual_mass)
        assert len(shown) <= 8
        drawn = {place.row.token, place.added} - {None}
        assert drawn <= {c.token for c in shown}
        assert [c for c in place.candidates if c in shown] == list(shown)


def test_the_telling_tokens_are_the_largest():
    trace, _ = run_of(vocab_size=300)
    for place in places(trace):
        shown, _ = telling(place)
        drawn = {place.row.token, place.added}
        size = {c: max(c.p, c.q or 0.0, c.residual or 0.0) for c in place.candidates}
        chosen = [size[c] for c in shown if c.token not in drawn]
        left = [size[c] for c in place.candidates if c not in shown and c.token not in drawn]
        assert min(chosen) >= max(left, default=0.0)


def test_ranks_are_those_of_the_whole_vocabulary_or_not_given():
    trace, rows = run_of(vocab_size=300)
    given = 0
    for round, full in zip(trace.rounds, rows, strict=True):
        for position in range(1, round.k + 1):
            place = inspect_position(trace, round.number, position)
            p, q = full.target_probs[position - 1], full.draft_probs[position - 1]
            excess = np.maximum(p - q, 0.0)
            for c in place.candidates:
                for rank, values in ((c.p_rank, p), (c.q_rank, q), (c.residual_rank, excess)):
                    if rank is not None:
                        assert rank == 1 + np.count_nonzero(values > values[c.token])
                        given += 1
    assert given > 300


def test_a_place_that_does_not_exist_is_refused():
    trace, _ = run_of()
    for round, position in ((0, 1), (len(trace.rounds) + 1, 1), (1, 0), (1, trace.rounds[0].k + 2)):
        with pytest.raises(ValueError, match="not"):
            inspect_position(trace, round, position)


# --- the words --------------------------------------------------------------------------------------


def test_a_rejection_names_its_numbers_the_coin_and_where_the_correction_came_from():
    trace, _ = run_of()
    place = first(trace, "rejected")
    row, text = place.row, say(place).replace("\u00a0", " ")
    assert f"The draft drew <{row.token}> with q = {number(row.q)}" in text
    assert f"the target gives it p = {number(row.p)}" in text
    assert f"{number(row.p)} / {number(row.q)} = {number(row.p / row.q)}" in text
    fell, edge = apart(row.u, row.p / row.q)
    assert f"The random number fell at u = {fell}, not below {edge}: rejected." in text
    i = row.table.ids.index(place.round.token)
    share = (row.table.p[i] - row.table.q[i]) / row.residual_mass
    assert (
        f"The correction <{place.round.token}> came from the residual, where it has {number(share)}." in text
    )
    assert "what p has left over after q has used its share: max(0, p − q)" in explain_numbers.residual_line(
        place
    )
    lines = explain_numbers.formula(place)
    assert len(lines) == 3 and lines[1].endswith("reject") and number(share) in lines[2]


def test_an_acceptance_by_the_coin_and_one_for_certain():
    trace, _ = run_of()
    by_coin = next(p for p in places(trace) if p.state == "accepted" and p.row.p < p.row.q)
    assert ", below " in say(by_coin) and say(by_coin).endswith("accepted.")
    certain = next(p for p in places(trace) if p.state == "accepted" and p.row.p >= p.row.q)
    assert "at least as much, so it is kept for certain, whatever the random number: accepted." in say(
        certain
    )
    assert explain_numbers.coins(certain) == "Every u accepts this token."


def test_a_discarded_token_was_never_judged():
    trace, _ = run_of()
    place = first(trace, "discarded")
    assert say(place).startswith(f"Never judged: the round ended at position {place.ended_at}.")
    assert not place.emitted and place.added is None
    assert not any("keep" in line or "reject" in line for line in explain_numbers.formula(place))


def test_the_corrected_token_is_explained_by_the_rejected_row():
    trace, _ = run_of()
    place = first(trace, "corrected")
    assert place.position == place.round.k + 1
    assert place.row is place.round.positions[place.round.accepted]
    assert place.row_position == place.ended_at
    assert place.token == place.added == place.round.token
    text = say(place)
    assert text.startswith(f"Position {place.ended_at} was rejected (<{place.row.token}>).")
    assert f"In its place <{place.token}> was drawn from the residual" in text


def test_a_bonus_comes_from_p():
    trace, _ = run_of(vocab_size=5, k=2)
    place = first(trace, "bonus")
    assert say(place).startswith("All 2 draft tokens were accepted")
    assert place.row.q is None and place.rejected_mass is None
    assert explain_numbers.masses(place) == "" and "no residual" in explain_numbers.residual_line(place)
    assert explain_numbers.formula(place) == (f"p(added token) = {number(place.added_probability)}",)


def test_a_round_without_drafts():
    trace, _ = run_of(k=0, tokens=3)
    place = inspect_position(trace, 1, 1)
    assert place.state == "bonus" and place.emitted
    assert say(place).startswith("Nothing was drafted in this round")


def test_greedy_and_copied_tokens_were_not_drawn():
    trace, _ = run_of("greedy")
    place = first(trace, "rejected")
    assert place.chosen and place.row.kl is None
    assert "takes its favourite" in say(place) and "own favourite" in say(place)
    assert "at temperature 0 only the largest score counts" in say(place)
    assert explain_numbers.coins(place) == "No u accepts this token."
    trace, _ = run_of(drafter="ngram", vocab_size=4)
    place = first(trace, "rejected")
    assert "The drafter copied" in say(place) and "q\u00a0=\u00a01" in say(place)


def test_a_filtered_token_names_the_filter():
    trace, _ = run_of("cold, filtered", draft_config="plain")
    place = next(p for p in places(trace) if p.state == "rejected" and p.row.p == 0.0)
    reason = place.candidate(place.row.token).target_removed
    assert f"({reason} took it out), so it is rejected for certain" in say(place)


def never(target_probs, draft_probs, draft_tokens, randomness):
    """Refuses every draft token and draws from p."""
    randomness.accept(0, 0.0, 1.0)
    return Verdict(0, "corrected", randomness.correct(target_probs[0]))


def test_another_rule_is_named_and_compared_with_the_exact_one():
    run = DecodingRun(table_pair(9, 3), [0], k=3, max_new_tokens=40, seed=1, verifier=never)
    for _ in run:
        pass
    trace = run.trace()
    place = next(p for p in places(trace) if p.state == "rejected" and p.would_accept)
    text = say(place)
    assert "Here the rule “never” judged it: rejected." in text
    assert "with this u it would have kept it" in text
    assert "came from the residual" not in text


def test_an_empty_residual_is_said():
    trace, _ = run_of()
    place = first(trace, "rejected")
    round = replace(place.round, residual_empty=True)
    emptied = replace(trace, rounds=(*trace.rounds[: round.number - 1], round))
    place = inspect_position(emptied, round.number, place.position)
    assert "Rounding left no residual" in say(place)
    assert place.added_probability == place.candidate(round.token).p
    assert "nothing is left" in explain_numbers.residual_line(place)


def test_an_accepted_token_behind_the_end_of_the_text():
    pair = table_pair(4, 6, eos=(0, 1))
    for seed in range(60):
        run = DecodingRun(pair, [2], k=4, max_new_tokens=40, seed=seed)
        for _ in run:
            pass
        cut = [p for p in places(run.trace()) if p.state == "accepted" and not p.emitted]
        if cut:
            assert "It is not part of the text, which ended before it" in say(cut[0])
            assert "the end-of-text token" in say(cut[0])
            return
    raise AssertionError("no seed gave an accepted token behind the end of the text")


def test_the_other_notation_swaps_the_letters():
    trace, _ = run_of()
    place = first(trace, "rejected")
    text = plain(explain.verdict(place, "chen"), str).replace("\u00a0", " ")
    assert f"with p = {number(place.row.q)}" in text and f"gives it q = {number(place.row.p)}" in text
    assert "max(0, q − p)" in explain_numbers.residual_line(place, "chen")
    assert explain_numbers.formula(place, "chen")[0].startswith("min(1, q/p)")


def test_what_another_coin_would_have_done():
    trace, _ = run_of(vocab_size=5)
    place = next(p for p in places(trace) if p.state == "rejected" and p.row.p > 0.0 and p.position < 4)
    row = place.row_position - 1
    text = plain(explain_numbers.what_if(place, rejudge(place.round, accept_us={row: 0.0}), 0.0), str)
    assert f"position {place.position} would be accepted." in text
    text = plain(explain_numbers.what_if(place, rejudge(place.round, accept_us={row: 0.9999}), 0.9999), str)
    assert "would still be rejected. The round would end as it did." in text


def test_a_token_that_the_trace_cannot_tell_apart_is_said():
    trace, _ = run_of(vocab_size=300)
    place = first(trace, "accepted")
    again = rejudge(place.round, accept_us={place.row_position - 1: 0.999999}, correct_u=0.9999)
    assert again.token is None
    text = plain(explain_numbers.what_if(place, again, 0.999999), str)
    assert f"together these have {number(again.probability)} in the residual" in text


# --- the caches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [3, 40])
def test_strips_count_what_the_caches_did(vocab_size):
    trace, _ = run_of(vocab_size=vocab_size)
    text = list(trace.prompt_ids)
    two = 0
    for round in trace.rounds:
        target, draft = cache_strips(trace, round)
        text += round.committed
        for strip, step in ((target, round.target_cache), (draft, round.draft_cache)):
            assert strip.kept == step.kept and strip.committed == len(text)
            assert strip.before + strip.new + strip.cut == step.before + step.fed
            cells = [(kind, token) for kind, token in strip.cells if kind in ("before", "new", "unfed")]
            assert [token for _, token in cells] == text[strip.hidden :]
            cut = [token for kind, token in strip.cells if kind == "cut"]
            assert tuple(cut) == round.draft_tokens[round.k - len(cut) - (strip is draft) :][: len(cut)]
            assert str(strip.kept) in figures(strip)
        if round.finish:
            assert "ended" in plain(next_feed(round, draft), str)
            continue
        assert target.unfed == 1
        words = plain(next_feed(round, draft), lambda token: f"<{token}>")
        if round.outcome == "bonus":
            assert words.startswith(
                f"The next round feeds 2 tokens: the last draft token <{round.draft_tokens[-1]}>"
            )
            two += 1
        else:
            assert words.startswith(f"The next round feeds 1 token: the correction <{round.token}>")
    assert two or vocab_size > 3


def test_a_long_prompt_is_not_listed_cell_by_cell():
    run = DecodingRun(table_pair(3, 1), [0] * 50, k=2, max_new_tokens=5, seed=0)
    round = run.step()
    target, _ = cache_strips(run.trace(), round)
    assert target.hidden == 44 and len(target.cells) <= 6 + 3 + 1


def test_a_drafter_without_a_cache_has_no_strip():
    trace, _ = run_of(drafter="ngram", vocab_size=4)
    assert len(cache_strips(trace, trace.rounds[0])) == 1


# --- numbers in prose -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.068, "0.068"),
        (0.4, "0.40"),
        (0.996, "0.996"),
        (0.99962, "0.9996"),
        (0.00031, "0.00031"),
        (0.000031, "3.1×10⁻⁵"),
        (1.5, "1.5"),
        (99.99, "100"),
        (1234.5, "1,234"),
        (None, "—"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


def test_numbers_that_differ_are_told_apart():
    assert apart(0.1712, 0.1698) == ("0.171", "0.170")
    assert apart(0.17, 0.17) == ("0.17", "0.17")
