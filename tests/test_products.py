"""Products on a CPU: packed layers are the layers they stand for, and are used only where they gain."""

import pytest
import torch
from tiny import LETTERS, SPECIAL, llama
from torch import nn

from specviz.models import products
from specviz.models.language_model import TransformersModel
from specviz.models.packed import JointLinear, PackedLinear

VOCAB = len(LETTERS) + len(SPECIAL)
packing = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this build of PyTorch has no oneDNN"
)


def linear(rows=96, columns=130, bias=True, dtype=torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Linear(columns, rows, bias).to(dtype).eval()


@pytest.fixture
def gains(monkeypatch):
    """Whatever is timed last is fastest, and no layer is too small."""
    monkeypatch.setattr(products, "SMALLEST", 1)
    monkeypatch.setattr(products, "_fastest", lambda runs: [1.0 / (1 + i) for i in range(len(runs))])


@packing
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 17])
def test_a_packed_layer_is_the_layer_it_stands_for(dtype, bias, rows):
    dense = linear(bias=bias, dtype=dtype)
    fed = torch.randn(1, rows, 130, generator=torch.Generator().manual_seed(rows)).to(dtype)
    with torch.inference_mode():
        packed = PackedLinear(dense)
        exact = nn.functional.linear(
            fed.double(), dense.weight.double(), dense.bias.double() if bias else None
        )
        got = packed(fed)
        assert got.shape == exact.shape and got.dtype == dtype
        ordinary = (dense(fed).double() - exact).abs().max()
        assert (got.double() - exact).abs().max() <= 2 * ordinary + torch.finfo(torch.float32).eps * 20
    assert torch.equal(packed.weight, dense.weight)
    assert torch.equal(packed.dense().weight, dense.weight)


@packing
def test_what_is_trained_through_a_packed_layer_gets_its_gradient():
    dense = linear()
    fed = torch.randn(2, 130, requires_grad=True)
    PackedLinear(dense)(fed).sum().backward()
    assert torch.allclose(fed.grad, dense.weight.sum(0).expand(2, -1), atol=1e-4)


@packing
def test_a_layer_that_stands_in_two_places_stays_one(gains):
    shared = linear(64, 64)
    model = nn.ModuleDict({"a": shared, "b": nn.Sequential(shared, linear(32, 64))})
    assert products.pack(model) == 2
    assert model["a"] is model["b"][0] and isinstance(model["a"], PackedLinear)
    products.unpack(model)
    assert type(model["a"]) is nn.Linear and model["a"] is model["b"][0]
    assert torch.equal(model["a"].weight, shared.weight)


@packing
def test_a_layer_that_does_not_gain_stays_as_it_is(gains, monkeypatch):
    monkeypatch.setattr(products, "_fastest", lambda runs: [1.0, 1.1])
    model = nn.Sequential(linear())
    assert products.pack(model) == 0 and type(model[0]) is nn.Linear


@packing
def test_a_layer_whose_result_is_wrong_stays_as_it_is(gains, monkeypatch):
    right = PackedLinear.forward
    monkeypatch.setattr(PackedLinear, "forward", lambda self, rows: right(self, rows) * 1.001)
    model = nn.Sequential(linear())
    assert products.pack(model) == 0 and type(model[0]) is nn.Linear


def test_layers_on_other_devices_and_small_ones_are_left_alone():
    model = nn.Sequential(nn.Linear(512, 512, device="meta"), linear(8, 8))
    assert products.pack(model) == 0


def test_without_onednn_nothing_is_packed(gains, monkeypatch):
    def missing(*_):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(products, "PackedLinear", type("P", (nn.Module,), {"__init__": missing}))
    model = nn.Sequential(linear())
    assert products.pack(model) == 0 and type(model[0]) is nn.Linear


@packing
def test_a_tied_head_is_counted_once_though_it_is_packed(gains):
    model = nn.ModuleDict({"embedding": nn.Embedding(64, 32), "head": nn.Linear(32, 64, bias=False)})
    model["head"].weight = model["embedding"].weight
    size = products.parameters(model)
    assert products.pack(model) == 1 and products.parameters(model) == size == 64 * 32


@packing
def test_a_packed_model_says_the_same(gains):
    model = TransformersModel(llama(5), "tiny", VOCAB)
    size, fed = model.info().parameters, [5, 6, 7, 8]
    before = model.forward(fed, model.new_cache(), 4).logits
    assert products.prepare(model) == 15  # seven a layer, and the head
    after = model.forward(fed, model.new_cache(), 4).logits
    assert abs(after - before).max() < 1e-4
    assert model.info().parameters == size == products.parameters(model.model)
    assert products.prepare(model) == 0  # a draft that is the target is not packed twice
    assert model.forward_seconds > 0 or model.forward([1], model.new_cache(), 1)


@packing
@pytest.mark.parametrize("fault", ["slower", "different"])
def test_a_model_whose_passes_do_not_gain_is_as_before(gains, monkeypatch, fault):
    model = TransformersModel(llama(5), "tiny", VOCAB)
    weights = {name: tensor.clone() for name, tensor in model.model.state_dict().items()}
    if fault == "slower":
        times = iter([1.0, 1.5])
        monkeypatch.setattr(products, "_gain", lambda layers: True)
        monkeypatch.setattr(products, "_fastest", lambda runs: [next(times)])
    else:
        model.tolerance = -1.0
    assert products.prepare(model) == 0
    assert not any(isinstance(layer, PackedLinear) for layer in model.model.modules())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.model.state_dict().items())


@pytest.mark.parametrize(("half", "chosen"), [(0.5, "bfloat16"), (0.95, "float32"), (3.0, "float32")])
def test_bfloat16_is_chosen_only_where_it_is_worth_it(monkeypatch, half, chosen):
    monkeypatch.setattr(products, "_gain", lambda layers: False)
    monkeypatch.setattr(products, "_fastest", lambda runs: [1.0, half])
    dtype, reason = products.faster_dtype.__wrapped__()
    assert dtype == chosen and f"{half:.2f}" in reason


class Fed(nn.Module):
    """Two layers fed the same rows, and one that is fed others."""

    def __init__(self, bias):
        super().__init__()
        self.a, self.b, self.c = linear(48, bias=bias), linear(16, bias=bias), linear(8, bias=bias)

    def forward(self, rows):
        return torch.cat([self.a(rows), self.b(rows), self.c(rows + 1)], dim=-1)


@packing
@pytest.mark.parametrize("bias", [True, False])
def test_layers_fed_the_same_rows_make_one_product(gains, bias):
    model = Fed(bias)
    weights = [layer.weight.detach().clone() for layer in (model.a, model.b)]
    count = products.parameters(model)
    fed = torch.randn(1, 3, 130, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(fed)
        products.pack(model, lambda: model(fed.clone()))
        assert [type(layer) for layer in (model.a, model.b, model.c)] == [JointLinear] * 2 + [PackedLinear]
        assert model.a.joint is model.b.joint
        assert torch.allclose(model(fed.clone()), expected, atol=1e-5)
        other = fed + 2  # not what was multiplied before
        assert torch.allclose(
            model.b(other), nn.functional.linear(other, weights[1], model.b.bias), atol=1e-4
        )
    assert products.parameters(model) == count
    assert torch.equal(model.a.weight, weights[0]) and torch.equal(model.b.weight, weights[1])
    products.unpack(model)
    assert type(model.a) is type(model.b) is nn.Linear
    assert torch.allclose(model(fed), expected, atol=1e-5)


@packing
def test_layers_whose_joint_product_is_wrong_stay_apart(gains, monkeypatch):
    model = Fed(True)
    right = JointLinear.forward
    monkeypatch.setattr(JointLinear, "forward", lambda self, rows: right(self, rows) * 1.001)
    fed = torch.ones(1, 2, 130)
    with torch.inference_mode():
        products.pack(model, lambda: model(fed.clone()))
    assert all(type(layer) is PackedLinear for layer in (model.a, model.b, model.c))
