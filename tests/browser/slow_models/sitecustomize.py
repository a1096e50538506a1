"""Before a server starts: its pair is a table model whose passes take their time, so that runs last."""

import time

from tables import BranchingTable, TablePair

from specviz.ui.state import pairs

SECONDS = 0.12  # of a pass of the target


class Slow(BranchingTable):
    def forward(self, tokens, cache, rows, features=False):
        time.sleep(SECONDS)
        return super().forward(tokens, cache, rows, features)


PAIR = TablePair(
    Slow(6, salt=2, name="target", context_length=500),
    BranchingTable(6, salt=1002, name="draft", context_length=500),
)
PAIR.encode = lambda prompt, chat: [ord(c) % 6 for c in prompt]  # type: ignore[method-assign]
pairs.load = lambda recipe, report: PAIR
