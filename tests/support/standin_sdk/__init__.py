"""A stand-in for the ohos-sdk, for tests on machines that have none: its shape, its toolchain file, its defects.

See docs/standin-sdk.md for what it proves and what it does not.
"""

from tests.support.standin_sdk.assemble import runtime_tree, standin_sdk

__all__ = ["runtime_tree", "standin_sdk"]
