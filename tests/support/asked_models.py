"""Forty questions whose true answers are known, and a model whose accuracy under every budget is known by hand.

Question k has the gold 100 + k. The model writes k words, then a box in three pieces, then one word more: k + 4 tokens, of
which the first k + 3 have the whole box. Of the boxes 29 hold the right number (k below 29), 11 one that is too large by
one: 0.725.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

COUNT, RIGHT = 40, 29


def write_questions(path: Path) -> Path:
    lines = [{"question": f"How much is 100 and {k}?", "answer": f"100 + {k}\n#### {100 + k}"} for k in range(COUNT)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def known_answer(prompt: str) -> list[str]:
    found = re.search(r"100 and (\d+)\?", prompt)
    assert found is not None, prompt
    k = int(found[1])
    box = 100 + k + (0 if k < RIGHT else 1)
    return [*(f" w{word}" for word in range(k)), " \\boxed{", str(box), "}", " done"]
