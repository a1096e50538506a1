"""Log lines of other engines, of several ages, and what is not one."""

import json

import pytest

from specviz.diagnosis import logs

VLLM = (
    "INFO 11-30 14:02:10 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.79, Accepted "
    "throughput: 107.40 tokens/s, Drafted throughput: 240.00 tokens/s, Accepted: 1074 tokens, Drafted: 2400 "
    "tokens, Per-position acceptance rate: 0.806, 0.653, 0.190, 0.141, Avg Draft acceptance rate: 44.8%"
)


def test_vllm_lines_are_summed():
    found = logs.read(f"{VLLM}\nspec worker warm-up done\n{VLLM}")
    assert (found.rounds, found.drafted, found.accepted) == (1200, 4800, 2148)
    assert found.length == pytest.approx(2.79) and found.rate == pytest.approx(0.4475)
    assert [r.value for r in found.curve.unconditional] == pytest.approx([0.806, 0.653, 0.190, 0.141])
    assert found.curve.conditional[2].value == pytest.approx(0.190 / 0.653)
    assert found.shape.title == "Cliff at 3"
    assert found.unknown == ((2, "spec worker warm-up done"),)


def test_vllm_counters_of_two_replicas():
    lines = ["# HELP vllm:spec_decode_num_drafts Number of drafts.", "vllm:gpu_cache_usage_perc 0.5"]
    for engine in (0, 1):
        labels = f'engine="{engine}",model_name="m"'
        lines += [
            f"vllm:spec_decode_num_drafts_total{{{labels}}} 100.0",
            f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} 300.0",
            f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} 140.0",
            f"vllm:spec_decode_num_accepted_tokens_created{{{labels}}} 1.7e9",
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{i}"}} {n}'
                for i, n in enumerate((70, 50, 20))
            ),
        ]
    found = logs.read("\n".join(lines))
    assert (found.rounds, found.drafted, found.accepted) == (200, 600, 280)
    assert [r.value for r in found.curve.unconditional] == pytest.approx([0.7, 0.5, 0.2])
    assert not found.unknown


def test_vllm_requests_with_varying_draft_length():
    request = {
        "num_spec_steps": 4,
        "num_draft_tokens": 10,
        "num_accepted_draft_tokens": 4,
        "per_step_accepted": [3, 0, 1, 0],
        "per_step_drafted": [3, 3, 3, 1],
    }
    text = json.dumps([{"id": "a", "metrics": {"speculative_decoding": request}}])
    found = logs.read(text)
    assert found.length == 2.0 and found.rate == 0.4
    assert [r.value for r in found.curve.unconditional] == pytest.approx([2 / 4, 1 / 3, 1 / 3])
    by_length = {"acceptance_histogram_by_draft_length": {"3": {"0": 1, "1": 1, "3": 1}, "1": {"0": 1}}}
    again = logs.read(json.dumps({"metrics": {"speculative_decoding": {**request, **by_length}}}))
    assert again.curve == found.curve


@pytest.mark.parametrize(
    "line, rate, length",
    [
        ("draft acceptance rate = 0.37333 (   28 accepted /    75 generated)", 28 / 75, None),
        (
            "slot print_timing: id  0 | task 0 | draft acceptance = 0.57576 (  171 accepted /   297 "
            "generated), "
            "mean len =  2.72",
            171 / 297,
            2.72,
        ),
        (
            "statistics ngram_mod: #calls = 9, #gen drafts = 40, #acc drafts = 20, #gen tokens = 160, "
            "#acc tokens = 60, dur = 1.0, 2.0 ms",
            60 / 160,
            1 + 60 / 40,
        ),
        ("n_drafted = 75\nn_accept = 28", 28 / 75, None),
    ],
)
def test_llama_cpp_of_several_ages(line, rate, length):
    found = logs.read(line)
    assert found.rate == pytest.approx(rate)
    assert found.length is None if length is None else found.length == pytest.approx(length, abs=0.005)


def test_llama_cpp_rates_by_position_on_a_line_of_their_own():
    found = logs.read(
        "slot print_timing: id 0 | task 0 | draft acceptance = 0.64000 ( 192 accepted / 300 generated), "
        "mean len = 2.92\nslot: acc per pos = (0.805, 0.632, 0.483)"
    )
    assert [r.value for r in found.curve.unconditional] == pytest.approx([0.805, 0.632, 0.483], abs=0.01)
    assert found.rounds == pytest.approx(100)


def test_sglang_asks_which_rate_it_is():
    line = (
        "Decode batch, #running-req: 1, accept len: 2.80, accept rate: 0.56, gen throughput (token/s): 141.2"
    )
    found = logs.read(line)
    assert found.ask and found.length == 2.8 and found.rate == pytest.approx(0.56)
    settled = logs.read(line, "with bonus", 4)
    assert not settled.ask and settled.rate == pytest.approx((2.8 - 1) / 4)
    assert logs.read(line, "drafts").rate == pytest.approx(0.56)


@pytest.mark.parametrize("text", ["", "hello", "{" * 5000, "[[[[", "[]", "SpecDecoding metrics: nothing"])
def test_nothing_is_made_of_what_is_not_a_log(text):
    found = logs.read(text)
    assert not found.readings and found.curve is None and "understood" in found.text
