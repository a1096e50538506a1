"""Prompts that make a target write about many things in many forms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

TOPICS = (
    *("bees", "volcanoes", "the printing press", "chess", "bread", "the moon", "bridges", "coral reefs"),
    *("bicycles", "tea", "the Roman Empire", "sleep", "rivers", "glass", "whales", "photosynthesis"),
    *("jazz", "clocks", "the stock market", "vaccines", "deserts", "robots", "libraries", "football"),
    *("earthquakes", "gardening", "paper", "electric cars", "dinosaurs", "the human heart", "maps", "salt"),
    *("castles", "wind power", "the internet", "wolves", "cooking pasta", "black holes", "trains", "music"),
    *("learning a language", "friendship", "budgeting", "job interviews", "a rainy day", "penguins", "soap"),
    *("probability", "prime numbers", "sorting algorithms", "databases", "recursion", "gravity", "honesty"),
    *("ancient Egypt", "snow", "cats", "the ocean floor", "painting", "a lost letter", "time zones", "rice"),
)

PLAIN = (
    "The most surprising thing about {topic} is",
    "A short history of {topic}\n\n",
    "Once upon a time, in a village that knew nothing of {topic},",
    "Q: What should everyone know about {topic}?\nA:",
    "Ten facts about {topic}:\n1.",
    "In this article we look at {topic}.",
    "Dear editor,\n\nI am writing about {topic}",
    "Scientists who study {topic} have found that",
    "# {topic}\n\n## Overview\n",
    '"Tell me about {topic}," she said.',
)

CHAT = (
    "Explain {topic} to a ten-year-old.",
    "Write a short story about {topic}.",
    "Give me a list of five tips about {topic}.",
    "What are the advantages and disadvantages of {topic}?",
    "Write a poem about {topic}.",
    "Write a Python function that has something to do with {topic}, with a docstring.",
    "Why does {topic} matter?",
    "Summarise what is known about {topic} in one paragraph.",
    "Write an email to a colleague about {topic}.",
    "Write a dialogue between two people who disagree about {topic}.",
    "How would you teach {topic}? Answer step by step.",
    "Make a table with three columns about {topic}.",
)

CODE = (
    'def {name}(values):\n    """',
    "import sys\n\n\nclass {Name}:\n    def __init__(self",
    "#include <stdio.h>\n\n/* {topic} */\nint main(",
    "SELECT * FROM {name} WHERE",
    "function {name}(items) {{\n",
)

TEMPERATURES = (1.0, 1.0, 0.8, 0.7, 0.5)


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    chat: bool


def prompts(count: int, seed: Sequence[int], chat: bool) -> list[Prompt]:
    """`count` prompts: about half in the chat template, if there is one, a third prose, the rest code."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        form = rng.choice(3, p=(0.5, 0.35, 0.15)) if chat else rng.choice((1, 2), p=(0.7, 0.3))
        template = str(rng.choice((CHAT, PLAIN, CODE)[int(form)]))
        topic = str(rng.choice(TOPICS))
        name = topic.removeprefix("the ").replace(" ", "_").lower()
        text = template.format(topic=topic, name=name, Name=name.title().replace("_", ""))
        made.append(Prompt(text, chat=form == 0))
    return made
