"""The lessons: every figure in them is computed or checked here, and the texts are complete and plain."""

import re
import tomllib
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from specviz.decoding.faults import Spot, get_fault
from specviz.decoding.randomness import SeededRandomness
from specviz.decoding.verify import verify_block
from specviz.lessons import cost, facts, laws, library

FOLDER = Path(library.__file__).parent
FILES = sorted(FOLDER.rglob("*.toml"))
P, Q = facts.P, facts.Q
# Figures that a text gives, as the assumptions of an example or as an engine printed them.
GIVEN = {
    "0.7",
    "0.8",
    "0.6",
    "0.3",
    "0.1",
    "0.05",
    "0.01",
    "0.25",
    "2.5",
    "3.35",
    "2.92",
    ".805",
    ".632",
    ".483",
    "1.0",
}


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key != "check":
                yield from strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)


NOT_FIGURES = re.compile(
    r"«[a-z0-9_]+»|transformers 5\.24|arXiv[: ]\d+\.\d+|theorems? [\d.]+( and [\d.]+)?"
    r"|section \d\.\d|appendix A\.\d"
)


def decimals(text):
    return set(re.findall(r"(?<![\d.])\d*\.\d+(?![\d.]*\d)", NOT_FIGURES.sub("", text)))


def blocks(path):
    """A topic's prediction and questions, and what is left of the file."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    questions = [data.pop("predict"), *data.pop("questions")] if "predict" in data else []
    return questions, data


def test_there_are_sixteen_topics_and_enough_of_everything():
    assert [lesson.number for lesson in library.lessons()] == list(range(1, 17))
    assert all(lesson.sources and len(lesson.questions) >= 2 for lesson in library.lessons())
    assert len(library.cards()) >= 30
    keys = {lesson.key for lesson in library.lessons()}
    assert {card.topic for card in library.cards()} <= keys
    assert Counter(card.level for card in library.cards()).keys() == {1, 2, 3}
    assert len({card.key for card in library.cards()}) == len(library.cards())
    assert all(c.red_flags and c.follow_ups and len(c.bullets) >= 3 for c in library.cards())


def test_the_right_option_is_not_always_in_the_same_place():
    answers = Counter(q.answer for lesson in library.lessons() for q in (lesson.predict, *lesson.questions))
    assert max(answers.values()) < 0.75 * sum(answers.values())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_decimal_is_computed_given_or_checked(path):
    questions, prose = blocks(path)
    for text in strings(prose):
        assert decimals(text) <= GIVEN, text
    known = {
        **vars(cost), "match_rate": laws.match_rate, "overlap": laws.overlap, "P": P, "Q": Q,
    }  # fmt: skip
    for question in questions:
        if "check" in question:
            assert eval(question["check"], known), question["question"]


def test_figures_in_questions_without_a_check():
    """The remaining figures of questions, one by one: what is given, and what follows."""
    unchecked = set()
    for path in FILES:
        for question in blocks(path)[0]:
            if "check" not in question:
                unchecked |= {(path.stem[:2], d) for text in strings(question) for d in decimals(text)}
    assert unchecked <= {
        ("04", "0.5"), ("04", "0.2"), ("04", "0.4"), ("04", "0.7"),  # 0.2 / 0.5, options
        ("04", "0.3"), ("04", "0.999"),  # p = q = 0.3 and u
        ("05", "0.6"), ("05", "0.4"), ("05", "0.5"),  # wrong options
        ("06", "2.5"), ("06", "3.5"), ("06", "0.625"), ("06", "4.5"),  # below
        ("08", "0.7"),
        ("11", "0.80"), ("11", "0.78"), ("11", "0.76"), ("11", "0.12"), ("11", "0.10"),
        ("12", "2.3"),
        ("14", "0.61"), ("14", "0.74"),
    }  # fmt: skip
    assert pytest.approx(float(facts.facts()["ratio_c"])) == 0.2 / 0.5
    assert 1 + 25 / 10 == 3.5 and 25 / 40 == 0.625


def test_whole_numbers_that_texts_state():
    assert pytest.approx(17e6, rel=0.02) == 2**24 and 2**8 == 256
    assert 64 * 5 == 320
    assert pytest.approx(1.43, abs=0.005) == 1 + 0.3 + 0.3**2 + 0.3**3 + 0.3**4 and 4 * 0.25 + 1 == 2
    assert facts.facts()["ridge"] == "295"


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


def test_usual_pairs_want_blocks_of_four_to_eight_or_a_little_less():
    grid = [cost.best_k(a, c) for a in (0.6, 0.7, 0.8) for c in (0.05, 0.1)]
    assert min(grid) == 3 and max(grid) == 8 and sorted(grid)[len(grid) // 2] in range(4, 9)


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

    names = "library, facts, laws, cost, numeric, ordering, verdicts, schedule"
    code = (
        f"import sys; from specviz.lessons import {names}; library.lessons(); library.cards();"
        "print(sorted({'torch', 'transformers', 'streamlit'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError):
        facts.fill("«no_such_figure»")
