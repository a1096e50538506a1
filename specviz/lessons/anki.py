"""The interview cards as an Anki package."""

import html
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from specviz.lessons.library import Card, lesson

# Anki recognises decks and note types by these numbers; they never change.
DECK, MODEL = 1_834_207_511, 1_519_663_042

FIELDS = ("Question", "Short", "Solid", "Expert", "Listens for", "Red flags", "Follow-ups", "In a minute")
FRONT = "<h3>{{Question}}</h3>"
BACK = "{{FrontSide}}<hr id=answer>" + "".join(
    f"<p><b>{name}</b><br>{{{{{name}}}}}</p>" for name in FIELDS[1:]
)


def package(cards: Sequence[Card]) -> bytes:
    """An .apkg file. Importing a newer one updates the notes and keeps their schedule."""
    import genanki

    model = genanki.Model(
        MODEL,
        "SpecViz interview card",
        fields=[{"name": name} for name in FIELDS],
        templates=[{"name": "Answer", "qfmt": FRONT, "afmt": BACK}],
    )
    deck = genanki.Deck(DECK, "Speculative decoding")
    for card in cards:
        deck.add_note(
            genanki.Note(
                model=model,
                fields=fields(card),
                tags=[card.topic, f"level-{card.level}"],
                guid=genanki.guid_for("specviz", card.key),
            )
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cards.apkg"
        genanki.Package(deck).write_to_file(path)
        return path.read_bytes()


def fields(card: Card) -> list[str]:
    """The fields of a note, as HTML."""
    flags = [f"**{flag.claim}**: {flag.why}" for flag in card.red_flags]
    return [
        _html(f"{card.question} ({lesson(card.topic).title})"),
        _html(card.short),
        _html(card.solid),
        _html(card.expert),
        _html(card.listens_for),
        _list(flags),
        _list([f"*{f.question}* {f.answer}" for f in card.follow_ups]),
        _list(card.bullets),
    ]


def _list(entries: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_html(entry)}</li>" for entry in entries) + "</ul>"


def _html(text: str) -> str:
    """Our small markdown (bold, emphasis, formulas in dollars) as HTML with Anki's math brackets."""
    text = html.escape(text, quote=False)
    text = re.sub(r"\$([^$]+)\$", r"\\(\1\\)", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"\*([^*]+)\*", r"<i>\1</i>", text)
