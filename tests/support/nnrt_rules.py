"""What the tests of NNRt's rules share.

Levels 9 and 12 stand for OpenHarmony 3.2 and 5.0. Where both are tested with one table, the first number is 3.2's.
"""

from __future__ import annotations

from ctypes import c_size_t, c_void_p

from tests.support.nnrt_runtime import (
    SUCCESS,
    Graph,
    Nnrt,
)

ADD, CONV2D, RELU, SOFTMAX, TOP_K = 1, 8, 47, 30, 53


UNKNOWN_DEVICE = c_size_t(12345)


def by_level(nnrt: Nnrt, old: int, new: int) -> int:
    return new if nnrt.modern else old


def compiled(nnrt: Nnrt, graph: Graph) -> c_void_p:
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    assert nnrt.Compilation_Build(compilation) == SUCCESS
    return c_void_p(compilation.value)
