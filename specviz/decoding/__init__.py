"""The algorithm: drafting, verification, caches and the record of every round.

Nothing here imports the rest of SpecViz, nor streamlit, plotly or pandas. The modules that only
describe or re-judge a run (``trace``, ``codec``, ``verify``, ``randomness``, ``sampling``'s
``SamplingConfig``) do not import torch either, so a saved trace opens at once.
"""
