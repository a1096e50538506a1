"""A class: what a presenter shows and many follow, polls, the lecture view, sheets to hand out."""
