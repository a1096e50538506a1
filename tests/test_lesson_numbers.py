"""Every number in the texts of lessons, cards and tooltips is computed, given or cited."""

import ast
import re
import tomllib
from math import sqrt
from pathlib import Path

import pytest
from lesson_numbers import CITED, COMPUTED, GIVEN

from specviz.lessons import facts, laws, library
from specviz.speed import formulas as cost

FOLDER = Path(library.__file__).parent
APP = FOLDER.parent
TEXTS = sorted(f for f in FOLDER.rglob("*.toml") if f.stem not in ("references", "measured"))
PROGRAMS = sorted(
    [
        *FOLDER.rglob("*.py"),
        *(APP / "ui" / "learn").glob("*.py"),
        *(APP / "ui" / "practice").glob("*.py"),
        *(APP / "ui" / "classroom").glob("*.py"),
        APP / "diagnosis" / "causes.py",
        *(APP / "decoding" / "faults").glob("*.py"),
    ]
)
# Fields that nobody reads as prose, or that another test runs.
NOT_READ = ("check", "code", "prints", "pseudocode", "key", "with", "source", "version", "run", "page")
NAMES = re.compile(
    r"«[a-z0-9_]+»|transformers \d\.\d+|arXiv[: ]\d+\.\d+|section \d\.\d|appendix A\.\d"
    r"|[\w-]+-\d+(\.\d+)?B?\b"
    r"|[\w/-]*#\d+|T = \d|EPYC|RFC \d+|et al\. \(?20\d\d\)?|pull requests? [\d, ]+|SDK [\d.]+"
)
NUMBER = re.compile(
    r"(?<![\w.,^_{])(\d[\d,]*\d(?:\.\d+)?|\d*\.\d+|\d)(?![\w])"
    r"(\s?%|\s(?:times|ms|MB|GB|points|TB|TFLOP))?"
)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key not in NOT_READ:
                yield from strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)


def numbers(text):
    """Numbers with their units; whole ones up to 12 without a unit are counts that the sentence shows."""
    text = NAMES.sub("", text)
    for found in NUMBER.finditer(text):
        number, unit = found[1], (found[2] or "").strip()
        if text[: found.start()].endswith("+ "):  # K + 1 times
            unit = ""
        if "." in number or unit or float(number.replace(",", "")) > 12:
            yield number + unit


def typed(path):
    """Numbers of a file that no code computes."""
    if path.suffix == ".py":
        return {n for text in said(path) for n in numbers(text)}
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    questions = [data.pop("predict"), *data.pop("questions")] if "predict" in data else []
    found = {n for text in strings(data) for n in numbers(text)}
    for question in questions:
        checked = {float(x) for x in re.findall(r"\d*\.?\d+", question.get("check", ""))}
        found |= {n for text in strings(question) for n in numbers(text) if value(n) not in checked}
    return found


def said(path):
    """Strings of a program with a space in them, documentation and styles left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(n.body[0].value)
        for n in ast.walk(tree)
        if isinstance(n, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(n, clean=False)
    }
    for n in ast.walk(tree):
        if not (isinstance(n, ast.Constant) and isinstance(n.value, str)) or id(n) in documentation:
            continue
        if " " in n.value and not re.search(r"[<{][^ ]|: \d+px|rem;|font-|=\"", n.value):
            yield n.value


def value(number):
    return float(re.match(r"[\d.,]+", number)[0].replace(",", ""))


def rejections(k):
    """Rejections per judged token if β is 1 at the first place of every block and 0.7 at later ones."""
    judged = rejected = 0.0
    alive = 1.0
    for beta in [1.0, 0.7, 0.7, 0.7][:k]:
        judged += alive
        rejected += alive * (1 - beta)
        alive *= beta
    return rejected / judged


KNOWN = {
    **vars(cost), **vars(laws), "sqrt": sqrt, "rejections": rejections, "MEASURED": facts.measured(),
    "RIDGE_ROWS": cost.H100.operations / cost.H100.bandwidth / cost.intensity(1, 2),
}  # fmt: skip


def test_every_number_typed_in_a_program_is_declared():
    """All together, since programs are split and renamed."""
    found = {n for path in PROGRAMS for n in typed(path)}
    assert found == set(GIVEN["programs"].split()), "declare it, or take out what is no longer there"


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_every_typed_number_has_its_evidence(path):
    given, computed, cited = (
        GIVEN.get(path.stem, "").split(),
        COMPUTED.get(path.stem, {}),
        CITED.get(path.stem, {}),
    )
    found = typed(path)
    assert found == {*given, *computed, *cited}, "declare it, or take out what is no longer there"
    for number, expression in computed.items():
        digits = len(number.partition(".")[2].rstrip("abcdefghijklmnopqrstuvwxyzGMTB %"))
        assert eval(expression, KNOWN) == pytest.approx(value(number), abs=0.51 * 10**-digits), number
    for number, key in cited.items():
        reference = library.references()[key]
        assert value(number) in {value(n) for n in numbers(reference.shows)}, (number, key)


def test_rejections_per_token_depend_on_k_if_q_depends_on_the_drafts():
    assert [round(rejections(k), 2) for k in (1, 2, 4)] == [0, 0.15, 0.21]


def test_what_is_declared_is_about_files_that_are_there():
    assert {*GIVEN, *COMPUTED, *CITED} <= {"programs", *(p.stem for p in TEXTS)}


def test_a_lesson_lists_the_references_of_its_numbers():
    for lesson in library.lessons():
        known = {source.reference.key for source in lesson.sources}
        assert set(CITED.get(f"{lesson.number:02}-{lesson.key}", {}).values()) <= known, lesson.key


def test_a_number_without_evidence_is_found(tmp_path):
    path = tmp_path / "99-new.toml"
    path.write_text('learner = "It is 3.7 times as fast, on 8 GB, with K = 4."', encoding="utf-8")
    assert typed(path) == {"3.7times", "8GB"}


@pytest.mark.slow
def test_rounding_moves_the_target_by_about_as_much_as_the_lesson_says():
    import numpy as np
    import torch

    from specviz.models import sources
    from specviz.models.progress import silent

    rows = []
    for dtype in ("float32", "bfloat16"):
        model = sources.load(sources.BUILT_IN, sources.place("cpu", dtype), silent).model
        with torch.inference_mode():
            logits = model(torch.arange(300, 340)[None]).logits[0]
        rows.append(torch.softmax(logits.double(), dim=-1).numpy())
    mean = float(np.abs(rows[0] - rows[1]).sum(axis=-1).mean() / 2)
    said = facts.measured()["rounding"]["mean_tv"]
    assert said / 4 < mean < said * 4
