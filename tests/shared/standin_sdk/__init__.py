"""A stand-in for the ohos-sdk, for tests on machines that have none: its shape, its toolchain file, its defects.

See docs/standin-sdk.md for what it proves and what it does not.
"""

from tests.shared.standin_sdk.assemble import board_libraries, runtime_tree, standin_sdk
from tests.shared.standin_sdk.inference import inference_board_libraries, inference_sdk
from tests.shared.standin_sdk.list_service import ListService
from tests.shared.standin_sdk.pack import VARIANTS, Release, Variant, make_release, synthetic_tree, tiny_tree

__all__ = [
    "VARIANTS",
    "ListService",
    "Release",
    "Variant",
    "board_libraries",
    "inference_board_libraries",
    "inference_sdk",
    "make_release",
    "runtime_tree",
    "standin_sdk",
    "synthetic_tree",
    "tiny_tree",
]
