"""Whether language models answer right: grading, accuracy under budgets, intervals and plans."""
