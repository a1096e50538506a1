"""What can be computed from traces, full rows and runs: figures, checks of exactness, explanations.

Whoever only opens a trace imports no torch here; passes of a model happen in the functions that ask for
a pair.
"""
