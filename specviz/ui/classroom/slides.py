"""A lesson cut into slides: one thing at a time."""

import re
from dataclasses import dataclass
from typing import Literal

from specviz.lessons.library import Choice, Lesson

Kind = Literal["title", "question", "answer", "text", "picture", "code", "widget", "check", "solution", "end"]
ROOM = 420  # characters of text that a slide takes before another one begins


@dataclass(frozen=True, slots=True)
class Slide:
    """What is seen at one time.

    Attributes:
        kind: "question" and "check" ask, the slide behind them answers ("answer", "solution").
        heading: a line above it, or "".
        text: markdown; for "picture" the picture's name, for "code" a program.
        choice: the question that this slide asks or answers.
        prints: what the program prints.
    """

    kind: Kind
    heading: str = ""
    text: str = ""
    choice: Choice | None = None
    prints: str = ""


def slides(lesson: Lesson, level: str) -> tuple[Slide, ...]:
    """The slides of a lesson.

    Args:
        lesson: the lesson.
        level: "learner" or "engineer".
    """
    aims = "\n".join(f"- {objective}" for objective in lesson.objectives)
    made = [
        Slide(
            "title",
            f"{lesson.number}. {lesson.title}",
            f"About {lesson.minutes} minutes. Afterwards you can:\n\n{aims}",
        ),
        *asked("question", "answer", lesson.predict),
        *(Slide("text", lesson.title, text) for text in pieces(lesson.texts[level])),
        *(Slide("picture", lesson.title, name) for name in lesson.pictures),
    ]
    if level == "engineer" and lesson.pseudocode:
        made.append(Slide("code", "As pseudocode", lesson.pseudocode))
    if level == "engineer" and lesson.cell is not None:
        made.append(Slide("code", "To run yourself", lesson.cell.code, prints=lesson.cell.prints))
    made.append(Slide("widget", "On a real run"))
    for question in lesson.questions:
        made += asked("check", "solution", question)
    return (*made, Slide("end", "Takeaway", lesson.takeaway))


def asked(asks: Kind, answers: Kind, choice: Choice) -> list[Slide]:
    """A question, and the slide that answers it."""
    heading = "Predict first" if asks == "question" else "Check yourself"
    return [Slide(asks, heading, choice=choice), Slide(answers, heading, choice=choice)]


def pieces(text: str) -> list[str]:
    """Markdown in pieces of about `ROOM` characters, cut between paragraphs; a list stays with its lead."""
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        belongs = re.match(r"(\d+\.|[-*|$])\s*", paragraph) is not None
        fits = found and len(found[-1]) + len(paragraph) <= (2 * ROOM if belongs else ROOM)
        if found and fits:
            found[-1] += "\n\n" + paragraph
        else:
            found.append(paragraph)
    return found
