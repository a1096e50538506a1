"""Pairs of a server: bounded, never dropped while in use, one target for several drafts."""

import json
import struct
from threading import Event
from types import SimpleNamespace

import pytest

from specviz.models import memory, sources
from specviz.models import pair as pair_module
from specviz.models.errors import LoadError
from specviz.models.progress import silent
from specviz.recipe import Recipe
from specviz.ui.state import jobs, pairs
from specviz.ui.state.pairs import PairShelf

MIB = 1 << 20


class FakePair:
    def __init__(self, target, draft, size):
        self.target, self.draft, self.size = target, draft, size


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A shelf whose pairs take 100 MiB each, in a world of `left` MiB, bounded by `kept_pairs`."""
    state = SimpleNamespace(left=10_000, kept=250, loaded=[], shelf=PairShelf())

    def load(target, draft, progress, beside):
        state.loaded.append((target, draft, beside and beside.target))
        return FakePair(target, draft, 100 * MIB)

    monkeypatch.setattr(pair_module, "load_pair", load)
    monkeypatch.setattr(sources, "fetch", lambda source, report: tmp_path)
    monkeypatch.setattr(
        sources, "place", lambda device, dtype: SimpleNamespace(device="cpu", dtype="float32")
    )
    monkeypatch.setattr(memory, "needed", lambda folder, dtype: 100 * MIB)
    monkeypatch.setattr(memory, "held", lambda found: sum(pair.size for pair in found))
    monkeypatch.setattr(memory, "available", lambda device: state.left * MIB)
    monkeypatch.setattr(pairs, "settings", lambda: SimpleNamespace(kept_pairs=state.kept))
    return state


def names(shelf):
    return [target for target, *_ in shelf.pairs]


@pytest.mark.slow
def test_the_pair_used_longest_ago_goes_before_a_new_one_is_loaded(world):
    order = []
    world.shelf.on_drop.append(lambda pair: order.append(("dropped", pair.target)))
    for name in ("a", "b"):
        world.shelf.load(Recipe(target=name), silent)
    world.shelf.get(Recipe(target="a"))
    world.shelf.load(Recipe(target="c"), silent)
    assert names(world.shelf) == ["a", "c"]  # asking for `a` made `b` the oldest
    assert order == [("dropped", "b")]


@pytest.mark.slow
def test_a_pair_in_use_stays_and_the_new_one_is_refused_with_the_numbers(world):
    for name in ("a", "b"):
        world.shelf.hold(Recipe(target=name))
        world.shelf.load(Recipe(target=name), silent)
    with pytest.raises(LoadError, match=r"c needs about 0.1 GiB.* 0.2 GiB are taken .* at most 0.2 GiB"):
        world.shelf.load(Recipe(target="c"), silent)
    assert names(world.shelf) == ["a", "b"] and len(world.loaded) == 2
    world.shelf.release(Recipe(target="a"))
    world.shelf.load(Recipe(target="c"), silent)
    assert names(world.shelf) == ["b", "c"]


def test_what_the_device_has_left_counts_too(world):
    world.left = 50
    with pytest.raises(LoadError, match=r"0\.0 GiB are left on cpu"):
        world.shelf.load(Recipe(target="a"), silent)


def test_pairs_of_one_target_share_it(world):
    world.shelf.load(Recipe(target="a"), silent)
    world.shelf.load(Recipe(target="a", draft="d"), silent)
    assert world.loaded == [("a", None, None), ("a", "d", "a")]


def test_a_pair_is_loaded_once_for_all_who_ask(world):
    recipe = Recipe(target="a")
    assert world.shelf.load(recipe, silent) is world.shelf.load(recipe, silent)
    assert len(world.loaded) == 1


def test_the_rounds_of_others_go_on_while_a_pair_is_loaded(world, monkeypatch):
    begun, go_on = Event(), Event()

    def load(target, draft, progress, beside):
        begun.set()
        assert go_on.wait(60)
        return FakePair(target, draft, 100 * MIB)

    class Rounds(jobs.Job):
        done = property(lambda self: self.turns >= self.most)

        def __init__(self, most, *needs):
            super().__init__()
            self.most, self.needs = most, needs

        def turn(self, *given):
            self.given = given

    monkeypatch.setattr(pair_module, "load_pair", load)
    monkeypatch.setattr(pairs, "_SHELF", world.shelf)
    owner = iter("ab")
    monkeypatch.setattr(jobs, "owner", lambda: next(owner))
    waiting, other = Rounds(1, Recipe(target="a")), Rounds(5)
    jobs.start(waiting)
    try:
        assert begun.wait(20)
        jobs.start(other)
        assert jobs.wait(other, timeout=20) and other.turns == 5
        assert waiting.state == "loading"
    finally:
        go_on.set()
    assert jobs.wait(waiting, timeout=20) and waiting.given == (world.shelf.get(Recipe(target="a")),)


def test_real_pairs_share_the_targets_weights(tmp_path):
    from tiny import letter_tokenizer, llama, save

    target = save(tmp_path / "target", llama(1), letter_tokenizer())
    draft = save(tmp_path / "draft", llama(2), letter_tokenizer())
    alone = pair_module.load_pair(target, dtype="float32")
    both = pair_module.load_pair(target, draft, dtype="float32", beside=alone)
    assert both.target.model is alone.target.model
    one = memory.held([alone])
    assert one > 0 and memory.held([alone, both]) == 2 * one == memory.held([both])
    assert memory.needed(tmp_path / "draft", "float32") == pytest.approx(one, rel=0.2)


def test_the_size_of_a_model_is_read_from_its_files(tmp_path):
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "w": {"dtype": "F16", "shape": [10, 20], "data_offsets": [0, 400]}}
    ).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(400))
    assert memory.needed(tmp_path, "float32") == 800
    assert memory.needed(tmp_path, "bfloat16") == 400
    (tmp_path / "stray.safetensors").write_bytes(b"xx")  # no index names it, so it is not read
    assert memory.needed(tmp_path, "float32") == 800
    (tmp_path / "model.safetensors").write_bytes(b"xx")
    assert memory.needed(tmp_path, "float32") == 0
