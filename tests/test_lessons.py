"""The lessons: every figure in them is computed or checked here, and the texts are complete and plain."""

import ast
import re
import tomllib
from collections import Counter
from datetime import date, timedelta
from fractions import Fraction
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from specviz import traces
from specviz.decoding.faults import Spot, get_fault
from specviz.decoding.faults.gallery import FAULTS
from specviz.decoding.randomness import SeededRandomness
from specviz.decoding.verify import verify_block
from specviz.lessons import blocks, facts, laws, library, pictures
from specviz.speed import formulas as cost

FOLDER = Path(library.__file__).parent
FILES = sorted(f for f in FOLDER.rglob("*.toml") if f.stem not in ("references", "measured"))
P, Q = facts.P, facts.Q


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key not in ("check", "code", "prints", "sources", "pseudocode"):
                yield from strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)


def contents(path):
    """A topic's prediction and questions."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return [data["predict"], *data["questions"]] if "predict" in data else []


def test_there_is_enough_of_everything():
    lessons, cards = library.lessons(), library.cards()
    assert [lesson.number for lesson in lessons] == list(range(1, 25))
    for lesson in lessons:
        assert lesson.sources and lesson.pictures and len(lesson.questions) >= 2, lesson.key
        assert len(lesson.objectives) >= 2 and 5 <= lesson.minutes <= 15, lesson.key
        assert not any(o[0].isupper() or o.endswith(".") for o in lesson.objectives), lesson.key
    assert len(cards) >= 50 and {card.topic for card in cards} == {lesson.key for lesson in lessons}
    assert Counter(card.level for card in cards).keys() == {1, 2, 3}
    assert len({card.key for card in cards}) == len(cards)
    assert all(c.red_flags and c.follow_ups and len(c.bullets) >= 3 for c in cards)
    assert all(f.question and len(f.answer) >= 3 for c in cards for f in c.follow_ups)


def test_a_lesson_needs_nothing_that_comes_later():
    """The rule before what the draft must record, the distance spelled out where it is first used."""
    at = {lesson.key: lesson.number for lesson in library.lessons()}
    assert at["accept"] < at["residual"] < at["what-the-draft-records"] < at["effective-distributions"]
    assert at["acceptance-and-k"] < at["metrics"] < at["cost"] < at["batch-and-context"]
    assert at["drafters"] < at["what-each-sees"] < at["trees"] < at["block-verification"]
    first = next(x for x in library.lessons() if re.search(r"\bTV\b", " ".join(x.texts.values())))
    assert "otal variation" in first.texts["learner"] + first.texts["engineer"]


TERMS = (
    "token", "weights", "target", "memory-bound", "prompt", "pass", "prefill", "draft", "round", "block",
    "correction", "bonus", "total variation", "distributions", "residual", "near-tie", "temperature",
    "sampling", "top-k", "top-p", "penalties", "cache", "alpha", "batch", "EAGLE", "heads", "features",
    "tree", "mask", "block verification", "lossy", "heuristic", "bursts",
)  # fmt: skip


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_explained_where_a_reader_first_meets_it(term):
    """In the texts for readers with no background: the first lesson that uses it sets it off and says it."""
    used = [x for x in library.lessons() if re.search(rf"(?<![\w-]){term}\b", x.texts["learner"], re.I)]
    assert re.search(rf"\*[^*.]*{term}[^*.]*\*", used[0].texts["learner"], re.I), used[0].key


def test_the_right_option_is_not_always_in_the_same_place():
    answers = Counter(q.answer for lesson in library.lessons() for q in (lesson.predict, *lesson.questions))
    assert max(answers.values()) < 0.75 * sum(answers.values())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_checks_of_questions_hold(path):
    known = {**vars(cost), "match_rate": laws.match_rate, "overlap": laws.overlap, "P": P, "Q": Q}
    for question in contents(path):
        if "check" in question:
            assert eval(question["check"], known), question["question"]


def test_golden_values():
    known = facts.facts()
    assert known["from_p"] == "(0.35, 0.39, 0.26)" and known["from_p_tv"] == "0.15"
    assert known["argmax_soft"] == "(0.6, 0, 0.4)" and known["argmax_soft_tv"] == "0.3"
    assert known["softmax_tv"] == "0.179" and known["always_tv"] == "0.3" and known["match"] == "0.29"
    assert [known[f"tokens_{k}"] for k in (1, 2, 4, 8)] == ["1.70", "2.19", "2.77", "3.20"]
    assert known["argmax_hot"] == known["p"]


@pytest.mark.parametrize("seed", range(20))
def test_the_exact_law_is_p_for_any_draft(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    assert laws.output_law(p, q) == pytest.approx(p)
    hot = laws.one_hot_of_largest(q)
    assert laws.output_law(p, hot) == pytest.approx(p)
    assert laws.match_rate(p, q) <= laws.overlap(p, q)
    assert laws.match_rate(p, hot) == pytest.approx(laws.overlap(p, hot))


def test_laws_agree_with_draws_through_the_engines_verifier():
    rows = np.array([P, P])
    randomness = SeededRandomness(3)
    counts = np.zeros(3)
    draws = 20_000
    for i in range(draws):
        draw = randomness.round(i + 1)
        token = draw.draft(0, Q)
        verdict = verify_block(rows, Q[None], [token], draw)
        counts[token if verdict.accepted else verdict.token] += 1
    assert laws.tv(counts / draws, laws.output_law(P, Q)) < 0.01


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 0.95, 1.0])
def test_expected_tokens_is_the_closed_form(alpha):
    for k in range(9):
        closed = k + 1 if alpha == 1 else (1 - alpha ** (k + 1)) / (1 - alpha)
        assert cost.expected_tokens(alpha, k) == pytest.approx(closed)
        # Summed over outcomes: a tokens accepted, then the added one.
        law = [alpha**a * (1 - alpha) for a in range(k)] + [alpha**k]
        assert sum(law) == pytest.approx(1)
        assert sum((a + 1) * w for a, w in enumerate(law)) == pytest.approx(closed)


def test_a_gain_exists_iff_alpha_exceeds_c():
    for alpha, c in product(np.linspace(0.05, 0.95, 10), np.linspace(0.04, 0.94, 10)):
        best = cost.best_k(float(alpha), float(c))
        gain = cost.speedup(float(alpha), best, float(c))
        assert (gain > 1 + 1e-12) == (alpha > c)
        if alpha > c:
            assert gain >= (1 + alpha) / (1 + c) - 1e-12


def test_speedup_is_unimodal_in_k():
    for alpha, c in product((0.3, 0.6, 0.8, 0.95), (0.02, 0.1, 0.3)):
        gains = [cost.speedup(alpha, k, c) for k in range(40)]
        best = gains.index(max(gains))
        assert gains[: best + 1] == sorted(gains[: best + 1])
        assert gains[best:] == sorted(gains[best:], reverse=True)


def test_break_even_and_operations():
    alpha = cost.break_even_alpha(4, 0.1)
    assert cost.speedup(alpha, 4, 0.1) == pytest.approx(1)
    assert cost.break_even_alpha(4, 1.5) is None
    a, k, share = 0.7, 4, 0.1
    assert cost.operations_factor(a, k, share) == pytest.approx(
        (1 - a) * (k * share + k + 1) / (1 - a ** (k + 1))
    )
    assert cost.speedup_from_rates([a**i for i in range(1, 5)], 0.05) == pytest.approx(
        cost.speedup(a, 4, 0.05)
    )


def test_runs_of_acceptance_mislead_by_the_average_that_is_taken():
    """Rounds that accept all or nothing, K = 4: what each way to average α makes of them."""
    k, rounds = 4, [0, 4]
    tokens = sum(a + 1 for a in rounds) / len(rounds)
    judged = sum(rounds) / sum(min(k, a + 1) for a in rounds)
    along_the_text = (0 * 1 + 1 * 5) / 6  # one token where β is 0, five where it is 1
    drafted = (0 + 1) / 2
    assert (tokens, judged, along_the_text) == (3, 4 / 5, 5 / 6)
    assert cost.expected_tokens(along_the_text, k) > cost.expected_tokens(judged, k) > tokens
    assert cost.expected_tokens(drafted, k) < tokens


@pytest.mark.parametrize(
    "fault, other",
    [
        ("correction-from-p", {"correction": P}),
        ("softmax-of-residual", {"correction": laws.softmax_of_residual(P, Q)}),
        ("argmax-draft", {"drawn": laws.one_hot_of_largest(Q)}),
    ],
)
def test_lessons_and_fault_gallery_agree(fault, other):
    law = get_fault(fault).law(Spot(P, Q))
    assert laws.output_law(P, Q, **other) == pytest.approx(law)
    assert get_fault("always-accept").tv(Spot(P, Q)) == pytest.approx(float(facts.facts()["always_tv"]))
    assert get_fault("accept-on-match").acceptance(Spot(P, Q)) == pytest.approx(laws.match_rate(P, Q))
    assert get_fault("accept-on-match").law(Spot(P, Q)) == pytest.approx(P)


@pytest.mark.parametrize("alpha, c", [(0.6, 0.05), (0.7, 0.05), (0.8, 0.1), (0.9, 0.02), (0.3, 0.2)])
def test_the_closed_form_of_the_best_k_is_the_optimum(alpha, c):
    def gain(k):
        return (1 - alpha ** (k + 1)) / (1 - alpha) / (k * c + 1)

    best = cost.best_k_real(alpha, c)
    assert gain(best) >= max(gain(best - 0.01), gain(best + 0.01))
    assert abs(cost.best_k(alpha, c) - best) < 1


def test_block_verification_example():
    """p = (1/3, 2/3), q = (2/3, 1/3), K = 2: 10/9 by the token rule, 11/9 by blocks, bound 12/9."""
    p, q = (Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3))
    token = block = bound = Fraction(0)
    for x, y in product(range(2), repeat=2):
        drawn = q[x] * q[y]
        first = min(Fraction(1), p[x] / q[x])
        token += drawn * (first + first * min(Fraction(1), p[y] / q[y]))
        r1 = first
        r2 = min(Fraction(1), r1 * p[y] / q[y])
        z1 = sum(max(Fraction(0), r1 * p[s] - q[s]) for s in range(2))
        h1 = z1 / (z1 + 1 - r1) if z1 + 1 - r1 else Fraction(1)
        block += drawn * (2 * r2 + (1 - r2) * h1)
        bound += min(p[x] * p[y], drawn)
    bound += sum(min(a, b) for a, b in zip(p, q, strict=True))
    assert (token, block, bound) == (Fraction(10, 9), Fraction(11, 9), Fraction(12, 9))


def test_lenience_lets_no_token_rise_above_p_over_l():
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, q, lenience = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5)), rng.uniform(0.1, 1)
        kept = np.minimum(q, p / lenience)
        law = kept + (1 - kept.sum()) * laws.residual_law(p, q)
        assert (law <= p / lenience + 1e-12).all()


def test_dropping_a_drawn_token_by_its_q_is_a_bias():
    kept = np.where(Q >= 0.25, Q, 0.0)
    dropped = 1 - kept.sum()
    accepted = np.minimum(P, kept)
    law = accepted + dropped * P + (kept.sum() - accepted.sum()) * laws.residual_law(P, Q)
    assert law.sum() == pytest.approx(1) and laws.tv(law, P) > 0.01


def test_draws_needed_matches_simulation():
    law = laws.output_law(P, Q, correction=P)
    n = round(facts.draws_needed(law, P))
    assert str(n) == facts.facts()["draws_from_p"]
    counts = np.random.default_rng(1).multinomial(n, law, size=4000)
    statistic = ((counts - n * P) ** 2 / (n * P)).sum(axis=1)
    assert (statistic > 5.991).mean() == pytest.approx(0.9, abs=0.03)


def test_denominators_of_the_last_lesson():
    rate, k = 0.7, 2
    assert rate * k / (1 + rate * k) == pytest.approx(0.58, abs=0.005)


def test_lessons_import_neither_torch_nor_streamlit():
    import subprocess
    import sys

    names = "library, facts, laws, numeric, ordering, verdicts, schedule"
    code = (
        f"import sys; from specviz.lessons import {names}; library.lessons(); library.cards();"
        "print(sorted({'torch', 'transformers', 'streamlit'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError):
        facts.fill("«no_such_figure»")


@pytest.mark.parametrize("key", [lesson.key for lesson in library.lessons() if lesson.cell])
def test_every_cell_runs_and_prints_what_it_says(key, capsys):
    cell = library.lesson(key).cell
    assert len(cell.code.splitlines()) <= 24
    assert max(map(len, cell.code.splitlines())) <= 76  # a line of a slide
    exec(compile(cell.code, key, "exec"), {})
    assert capsys.readouterr().out.strip() == cell.prints.strip()


def test_pictures_are_described_and_have_no_scripts():
    wanted = {name for lesson in library.lessons() for name in lesson.pictures}
    assert wanted == set(pictures.PICTURES)
    for name in wanted:
        picture = pictures.picture(name)
        root = ElementTree.fromstring(picture.svg)
        assert root.get("role") == "img" and root.get("aria-label") == picture.alt and len(picture.alt) > 40
        assert {e.tag.split("}")[1] for e in root.iter()} <= {"svg", "rect", "line", "polyline", "text"}
        width = float(root.get("viewBox").split()[2])
        for e in root.iter("{http://www.w3.org/2000/svg}text"):
            assert float(e.get("x")) <= width, (name, e.text)


def test_every_source_is_a_reference_that_was_opened():
    for reference in library.references().values():
        assert reference.where and reference.shows, reference.key
        assert reference.kind in ("paper", "thread", "code", "docs", "here")
        assert (reference.read is None) == (reference.kind == "here"), reference.key
    known = " ".join(r.where for r in library.references().values())
    for fault in FAULTS.values():
        for seen in fault.seen:
            assert seen.replace("arXiv ", "arXiv:") in known, seen
    assert all(e.read and e.version for e in library.engines())


# How a text names a project, and what its references begin with.
PROJECTS = {
    "vLLM": ("vllm-project/", "vLLM"),
    "SGLang": ("sgl-project/", "SGLang"),
    "TensorRT-LLM": ("NVIDIA/TensorRT-LLM", "TensorRT-LLM"),
    "llama.cpp": ("ggml-org/llama.cpp",),
    "mlx-lm": ("ml-explore/mlx-lm",),
    "transformers": ("huggingface/transformers",),
    "LM Studio": ("LM Studio",),
    "gpt-fast": ("pytorch-labs/gpt-fast",),
}


def test_what_is_said_of_an_engine_can_be_read_again():
    """A lesson that names an engine cites it, whatever a card or a page says has a reference that ages."""
    ageing = [where for _, where, _ in library.ageing(date.max, 0)]
    for lesson in library.lessons():
        told = " ".join([*lesson.texts.values(), lesson.takeaway, *(q.why for q in lesson.questions)])
        cited = [s.reference.where for s in lesson.sources]
        # The last lesson's table has a source, a version and a day for each of them.
        cited += [e.name for e in library.engines()] if lesson.key == "who-does-what" else []
        for name, begins in PROJECTS.items():
            if re.search(rf"(?<![\w-]){re.escape(name)}", told):
                assert any(w.startswith((*begins, name)) for w in cited), (lesson.key, name)
    for name, begins in PROJECTS.items():
        assert any(w.startswith(begins) for w in ageing), name
        assert any(e.name == name for e in library.engines()), name


def test_threads_named_in_texts_are_references():
    numbers = {n for r in library.references().values() for n in re.findall(r"#(\d+)", r.where)}
    texts = [text for path in FILES for text in strings(tomllib.loads(path.read_text(encoding="utf-8")))]
    texts += [e.source for e in library.engines()]
    for text in texts:
        named = re.findall(r"#(\d{3,})", text)
        for listed in re.findall(r"pull requests? ([\d, ]+)", text):
            named += re.findall(r"\d+", listed)
        assert set(named) <= numbers, text


def test_code_documents_and_engines_have_a_version_and_a_day():
    for reference in library.references().values():
        if reference.kind in ("code", "docs"):
            assert reference.version and reference.version != "main", reference.key
    for engine in library.engines():
        assert engine.version and not re.search(r"main|latest", engine.version), engine.name


def test_the_list_of_what_should_be_read_again(capsys):
    from specviz.__main__ import main

    read = max(e.read for e in library.engines())
    assert library.ageing(read, 183) == []
    later = library.ageing(read + timedelta(days=200), 183)
    assert len(later) > 50 and [day for *_, day in later] == sorted(day for *_, day in later)
    assert not any(r.kind in ("paper", "here") for key, *_ in later if (r := library.references().get(key)))
    assert main(["facts", "--older", "0"]) == 0
    assert "vllm-metrics" in capsys.readouterr().out


def test_the_roofline_of_the_lesson_on_batch_and_context():
    known = facts.facts()
    assert (known["roof_0_v"], known["roof_2k_v"]) == ("2.17", "1.00")
    assert cost.LLAMA_8B.cache_bytes == 2 * 32 * 8 * 128 * 2 and known["kv_kilobytes"] == "128"
    one = cost.roofline(cost.LLAMA_8B, cost.H100, 1, 0, 1)
    assert one.seconds == pytest.approx(16.06e9 / 3.35e12)
    # The ridge of the first lesson is where the two times meet.
    rows = float(known["ridge_rows"])
    at = cost.roofline(cost.LLAMA_8B, cost.H100, 1, 0, round(rows))
    assert at.computing == pytest.approx(at.reading, rel=0.01)


def test_measured_figures_are_those_of_the_table():
    m = facts.measured()
    assert m["rows"][0] == 1 and all(m[d]["passes"][0] == 1 for d in ("float32", "bfloat16"))
    gain = {d: cost.speedup_from_rates([0.5, 0.25], 0.1, m[d]["passes"][2]) for d in ("float32", "bfloat16")}
    assert gain["float32"] < 1 < gain["bfloat16"]  # the same rates and draft: lost in one, won in the other


def test_uniforms_in_bfloat16_are_sometimes_zero():
    import torch

    drawn = torch.rand(2_000_000, generator=torch.Generator().manual_seed(1), dtype=torch.bfloat16)
    assert (drawn == 0).double().mean().item() == pytest.approx(1 / facts.BF16_ZERO, rel=0.1)
    assert drawn.max() < 1
    for t in (0.1, 0.3, 0.7):
        assert 0.0005 < (drawn.float() < t).double().mean().item() - t < 0.005


@pytest.mark.parametrize("seed", range(5))
def test_gumbel_coupling_matches_at_least_as_often_as_its_bound(seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    noise = rng.gumbel(size=(40_000, 6))
    same = ((np.log(p) + noise).argmax(1) == (np.log(q) + noise).argmax(1)).mean()
    distance = laws.tv(p, q)
    assert (1 - distance) / (1 + distance) - 0.01 < same < 1 - distance + 0.01


def test_several_candidates_at_a_node():
    assert sum(laws.in_turn(P, Q, 2)) == pytest.approx(0.76) and facts.facts()["tree_two"] == "0.76"
    assert laws.in_turn(P, Q, 1) == pytest.approx([laws.overlap(P, Q)])
    assert laws.chosen(P, Q, 2) == pytest.approx(0.5)
    rng = np.random.default_rng(4)
    for _ in range(50):
        p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        assert sum(laws.in_turn(p, q, 3)) <= 1 + 1e-12
        assert laws.chosen(p, q, 5) == pytest.approx(1)
        assert laws.chosen(p, q, 1) == pytest.approx(laws.overlap(p, laws.one_hot_of_largest(q)))


def test_block_verification_is_exact_by_enumeration():
    """Three tokens, K = 2, q and p depending on the first token: what comes out at two places is p's."""
    rng = np.random.default_rng(2)
    p0, q0 = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    p1, q1 = rng.dirichlet(np.ones(3), size=3), rng.dirichlet(np.ones(3), size=3)
    out = np.zeros((3, 3))
    for x, y in product(range(3), repeat=2):
        drawn = q0[x] * q1[x, y]
        r1 = min(1.0, p0[x] / q0[x])
        r2 = min(1.0, r1 * p1[x, y] / q1[x, y])
        left0, left1 = np.maximum(0, p0 - q0), np.maximum(0, r1 * p1[x] - q1[x])
        h1 = left1.sum() / (left1.sum() + 1 - r1) if r1 < 1 else 1.0
        out[x, y] += drawn * r2  # both kept
        if left1.any():
            out[x] += drawn * (1 - r2) * h1 * left1 / left1.sum()  # one kept, corrected after it
        rejected = drawn * (1 - r2) * (1 - h1)
        out += rejected * (left0 / left0.sum())[:, None] * p1  # none kept; the next token is the target's
    assert out == pytest.approx(p0[:, None] * p1)


def test_experts_read_by_a_block():
    """Eight of 256 chosen by each of five rows, independently: about 37.6 different ones."""
    different = 256 * (1 - (1 - 8 / 256) ** 5)
    assert different == pytest.approx(37.6, abs=0.1)


BANNED = (
    r"\blaws?\b", r"\banew\b", r"[Tt]okens a (round|pass)\b|[Cc]ost a round",
    "dearer", "fonder", "too fond", r"\bbehind (the|a) (last|first|refus|reject)", "thrown away unread",
)  # fmt: skip
READ = [
    *FILES,
    *(FOLDER / "numeric").glob("*.py"),
    FOLDER / "ordering.py",
    *(FOLDER.parent / "ui" / "learn").glob("*.py"),
    *(FOLDER.parent / "ui" / "practice").glob("*.py"),
]


def read_aloud(path):
    """The texts of a file that a reader sees."""
    if path.suffix == ".toml":
        yield from strings(tomllib.loads(path.read_text(encoding="utf-8")))
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(n.body[0].value)
        for n in ast.walk(tree)
        if isinstance(n, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(n, clean=False)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


@pytest.mark.parametrize("path", READ, ids=lambda p: p.stem)
def test_words_that_stopped_readers_are_gone(path):
    for text in read_aloud(path):
        for word in BANNED:
            assert not re.search(word, text), (word, text)


def test_pushes_are_the_gradients_of_the_two_losses():
    row = traces.load("capital").rounds[0].positions[0]
    p, q = np.array(row.table.p), np.array(row.table.q)
    rest = row.rest
    whole_p, whole_q = np.append(p, [rest.p_over, rest.p_under]), np.append(q, [rest.q_over, rest.q_under])
    logits = np.log(np.maximum(whole_q, 1e-300))

    def total_variation(z):
        shifted = np.exp(z - z.max())
        return laws.tv(whole_p, shifted / shifted.sum())

    for i, (token, kl, push) in enumerate(blocks.pushes(row)):
        assert token == row.table.ids[i] and kl == pytest.approx(p[i] - q[i])
        step = np.zeros(len(logits))
        step[i] = 1e-5
        slope = (total_variation(logits + step) - total_variation(logits - step)) / 2e-5
        assert push == pytest.approx(-slope, abs=1e-5)


def test_expected_accepted_tokens_of_a_block():
    for chances in ([0.3], [0.2, 0.9, 0.5], [0.0, 1.0], [0.4, 0.0]):
        expected = 0.0
        for outcome in product((0, 1), repeat=len(chances)):
            chance = np.prod([c if o else 1 - c for c, o in zip(chances, outcome, strict=True)])
            expected += chance * max((i for i, o in enumerate(outcome, 1) if o), default=0)
        assert blocks.expected_last(chances) == pytest.approx(expected)
    for run in ("capital", "eagle", "copying"):
        for round in traces.load(run).rounds:
            if round.k:
                found = blocks.block_rule(round)
                assert 0 <= found.block <= round.k and 0 <= found.token <= round.k
                assert all(r <= 1 for r in found.carried)
    one = next(r for entry in traces.RECORDINGS for r in traces.load(entry.name).rounds if r.k == 1)
    assert blocks.block_rule(one).block == pytest.approx(blocks.block_rule(one).token)


def test_arrivals_end_with_the_run():
    trace = traces.load("capital")
    seen = blocks.arrivals(trace)
    assert len(seen.times) == sum(len(r.committed) for r in trace.rounds)
    assert (
        seen.times[-1] == pytest.approx(sum(r.seconds for r in trace.rounds))
        and seen.longest < seen.times[-1]
    )
