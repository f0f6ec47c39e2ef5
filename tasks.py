"""What ``invoke`` finds in the clone: the same tasks as ``ohforge``, which stand in ``commands/``."""

from commands.collection import ns
from commands.program import answer_for_invoke

__all__ = ["ns"]

answer_for_invoke()
