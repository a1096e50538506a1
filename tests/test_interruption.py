"""A round broken off anywhere, between two layers or inside one, has not happened: rule 12."""

from dataclasses import replace

import pytest
import torch
from drafts import KINDS, llama_drafts

from specviz.decoding import cache as caches
from specviz.decoding.run import DecodingRun
from specviz.models.attention import GrowingLayer

PROMPT = (0, 1, 0, 2, 0, 1)


def start(pair, kind, **settings):
    return DecodingRun(pair, PROMPT, **{"drafter": kind, "k": 3, "max_new_tokens": 9, "seed": 5, **settings})


def rounds(run):
    """Its rounds without their times."""
    none = dict.fromkeys(("draft_seconds", "verify_seconds", "other_seconds", "record_seconds"), 0.0)
    return [replace(r, **none) for r in run.rounds]


class Breaking:
    """Breaks the n-th time any layer of any cache grows: before it does, or between its keys and values."""

    def __init__(self, patch, n, torn, times=1):
        self.right, self.n, self.torn, self.times, self.calls = GrowingLayer.update, n, torn, times, 0
        patch.setattr(GrowingLayer, "update", lambda *args, **kwargs: self(*args, **kwargs))

    def __call__(self, layer, keys, values, *args, **kwargs):
        self.calls += 1
        if self.n <= self.calls < self.n + self.times:
            if self.torn:
                if not layer.is_initialized:
                    layer.lazy_initialization(keys, values)
                layer.keys = torch.cat([layer.keys, keys], dim=-2)
            raise KeyboardInterrupt
        return self.right(layer, keys, values, *args, **kwargs)


def layer_lengths(run):
    held = [run.target_cache, *([run.drafter.cache] if run.drafter.cache else [])]
    return [[(layer.keys.shape[-2], layer.values.shape[-2]) for layer in c.layers] for c in held]


def broken_everywhere(monkeypatch, pair, kind, torn, step=1, times=1):
    """Break runs at every growth of a layer in turn, and go on each time."""
    reference = start(pair, kind)
    with monkeypatch.context() as patch:
        counter = Breaking(patch, 0, False, times=0)
        list(reference)
    assert counter.calls > 12
    for n in range(1, counter.calls + 1, step):
        with monkeypatch.context() as patch:
            Breaking(patch, n, torn, times)
            run, broken = start(pair, kind), 0
            while run.finish is None:
                done, held = len(run.rounds), layer_lengths(run)
                try:
                    run.step()
                except KeyboardInterrupt:
                    broken += 1
                    assert len(run.rounds) == done and layer_lengths(run) == held
            assert broken == times
        assert run.tokens == reference.tokens, n
        assert rounds(run) == rounds(reference), n
        assert run.recent is not None and run.recent.target_probs.shape[0] == run.rounds[-1].k + 1
    return reference


@pytest.mark.parametrize("torn", [False, True])
def test_a_draft_equal_to_the_target_accepts_all_after_an_interruption_anywhere(monkeypatch, torn):
    """Prefill, rounds, and the draft's pass of two tokens after each full acceptance."""
    pair = llama_drafts(vocab_size=12)
    pair.draft = pair.target
    reference = broken_everywhere(monkeypatch, pair, "model", torn)
    assert all(r.accepted == r.k for r in reference.rounds) and len(reference.rounds) > 2
    assert any(r.draft_cache.fed == r.k + 1 for r in reference.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_drafter_goes_on_as_if_nothing_had_happened(monkeypatch, kind):
    broken_everywhere(monkeypatch, llama_drafts(vocab_size=5, seed=4), kind, torn=True, step=2)


def test_several_interruptions_in_a_row(monkeypatch):
    broken_everywhere(monkeypatch, llama_drafts(vocab_size=5, seed=4), "model", torn=False, step=5, times=3)


def test_an_interruption_of_the_clearing_up_is_made_good_by_the_next_step(monkeypatch):
    """A second Ctrl-C, while the caches are cut after a finished round."""
    pair = llama_drafts(vocab_size=5, seed=4)
    reference = start(pair, "model")
    list(reference)
    right, calls = GrowingLayer.crop, 0
    for n in range(1, 8):
        run, calls = start(pair, "model"), 0

        def crop(layer, count, n=n):
            nonlocal calls
            calls += 1
            if calls == n:
                raise KeyboardInterrupt
            return right(layer, count)

        with monkeypatch.context() as patch:
            patch.setattr(GrowingLayer, "crop", crop)
            while run.finish is None:
                try:
                    run.step()
                except KeyboardInterrupt:
                    assert len(run.rounds) >= 1
        assert calls >= n
        assert rounds(run) == rounds(reference)


def test_layers_that_a_broken_first_pass_made_are_dropped():
    pair = llama_drafts(vocab_size=5, seed=4)
    cache = pair.target.new_cache()
    before = caches.lengths(cache)
    assert before == ()
    pair.target.forward([0, 1, 2], cache, 1)
    caches.restore(cache, before)
    assert cache.layers == []
    pair.target.forward([0, 1, 2], cache, 1)
    held = caches.lengths(cache)
    pair.target.forward([3], cache, 1)
    cache.layers[0].keys = torch.cat([cache.layers[0].keys] * 2, dim=-2)  # keys alone have grown
    caches.restore(cache, held)
    assert caches.lengths(cache) == held == (3, 3, 3)
    assert all(layer.values.shape[-2] == 3 for layer in cache.layers)
