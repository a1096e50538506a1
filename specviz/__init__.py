"""SpecViz: real speculative decoding, round by round, with evidence that it is exact."""

__version__ = "0.1.0"
