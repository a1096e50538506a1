"""Lessons, questions, cards and exercises: texts as data, and the arithmetic behind every number in them."""
