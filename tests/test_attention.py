"""Caches that grow in place, and attention with the heads of a group together: the same results."""

import copy

import pytest
import torch
from tiny import VOCAB, llama
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from specviz.decoding import cache as caches
from specviz.models import attention, products
from specviz.models.attention import GrowingCache, GrowingLayer
from specviz.models.language_model import TransformersModel
from specviz.ui.state import sizes


def rows(n, seed, batch=1):
    return torch.randn(batch, 2, n, 4, generator=torch.Generator().manual_seed(seed))


def test_a_layer_that_grows_in_place_holds_what_one_that_copies_holds():
    ours, theirs = GrowingLayer(), DynamicLayer()
    for step, (n, gone) in enumerate([(3, 0), (1, 1), (90, 5), (2, 2), (1, 0), (40, 128), (7, 3), (5, 0)]):
        keys, values = rows(n, step), rows(n, 100 + step)
        for got, expected in zip(ours.update(keys, values), theirs.update(keys, values), strict=True):
            assert torch.equal(got, expected)
        for layer in (ours, theirs):
            layer.crop(-gone)
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert torch.equal(ours.keys, theirs.keys) and torch.equal(ours.values, theirs.values)


def test_what_is_added_is_not_a_copy_of_what_is_there():
    layer = GrowingLayer()
    layer.update(rows(3, 1), rows(3, 2))
    place = layer.keys.data_ptr()
    for step in range(attention.SLACK):
        layer.update(rows(1, step), rows(1, step))
        layer.crop(-1)
        layer.update(rows(1, step), rows(1, step))
        assert layer.keys.data_ptr() == place and layer.keys.shape[-2] == 4 + step


def test_copies_and_repeated_caches_go_their_own_way():
    cache = GrowingCache()
    cache.update(rows(3, 1), rows(3, 2), 0)
    before = cache.layers[0].keys.clone()
    other = copy.deepcopy(cache)
    other.batch_repeat_interleave(2)
    other.update(rows(1, 3, batch=2), rows(1, 4, batch=2), 0)
    cache.update(rows(2, 5), rows(2, 6), 0)
    assert torch.equal(cache.layers[0].keys, torch.cat([before, rows(2, 5)], dim=-2))
    assert torch.equal(other.layers[0].keys[1], torch.cat([before[0], rows(1, 3, batch=2)[1]], dim=-2))
    assert len(cache.layers) == 1


def test_a_torn_layer_is_restored():
    cache = GrowingCache()
    cache.update(rows(3, 1), rows(3, 2), 0)
    held, keys = caches.lengths(cache), cache.layers[0].keys.clone()
    layer = cache.layers[0]
    layer.keys = torch.cat([layer.keys, rows(1, 3)], dim=-2)  # keys alone have grown
    caches.restore(cache, held)
    cache.update(rows(1, 4), rows(1, 5), 0)
    assert torch.equal(layer.keys, torch.cat([keys, rows(1, 4)], dim=-2))
    assert layer.values.shape[-2] == 4


@pytest.mark.parametrize("n", [1, 3, attention.FEW, attention.FEW + 1])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_heads_of_a_group_together_attend_as_they_do_alone(n, groups):
    made = torch.Generator().manual_seed(n)
    query = torch.randn(2, 6, n, 8, generator=made)
    key, value = (torch.randn(2, groups, 70, 8, generator=made) for _ in range(2))
    mask = None if n == 1 else (torch.arange(70) <= torch.arange(70 - n, 70)[:, None])[None, None]
    layer = torch.nn.Module()
    layer.num_key_value_groups = 6 // groups
    expected, _ = ALL_ATTENTION_FUNCTIONS["sdpa"](layer, query, key, value, mask, scaling=0.3)
    got, _ = attention.grouped(layer, query, key, value, mask, scaling=0.3)
    assert got.shape == expected.shape and torch.allclose(got, expected, atol=1e-6)


def test_a_model_says_the_same_with_and_without():
    model = TransformersModel(llama(3), "tiny", len(VOCAB))
    ids = [3, 1, 4, 1, 5, 9, 2, 6]

    def passes(cache):
        return [model.forward(fed, cache, len(fed)).logits for fed in (ids, ids[:3], ids[:1])]

    expected = passes(DynamicCache())
    assert attention.group_heads(model.model)
    for got in (passes(DynamicCache()), passes(model.new_cache())):
        assert all(abs(a - b).max() < 1e-5 for a, b in zip(got, expected, strict=True))
    assert not attention.group_heads(model.model)  # it is so already
    attention.ungroup_heads(model.model)
    assert model.model.config._attn_implementation == "sdpa"


def test_a_model_whose_attention_comes_out_wrong_keeps_its_own(monkeypatch):
    model = TransformersModel(llama(3), "tiny", len(VOCAB))
    right = attention.grouped

    def wrong(*args, **kwargs):
        out, weights = right(*args, **kwargs)
        return out * 1.5, weights

    monkeypatch.setattr(attention, "grouped", wrong)
    products.prepare(model)
    assert model.model.config._attn_implementation == "sdpa"


def test_what_a_growing_cache_takes_is_counted_once():
    cache = GrowingCache()
    for _ in range(3):
        cache.update(torch.zeros(1, 2, 100, 8), torch.zeros(1, 2, 100, 8), 0)
    room = cache.layers[0]._room
    held = sum(part.untyped_storage().nbytes() for part in room)
    assert held <= sizes._cache(cache) < held + 1000
