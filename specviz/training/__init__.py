"""Training of draft weights for a target, from text that the target writes itself.

Three steps, each resumable: the target writes text (`write`), one pass over it stores what training
needs to know of the target (`states`), and the drafts are fitted to that (`fit`). The target is not run
again after the second step.
"""
