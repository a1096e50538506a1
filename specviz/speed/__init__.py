"""Is it faster here, and why: measured costs, formulas, predictions, floors, and what a run gains."""
