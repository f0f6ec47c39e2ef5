"""Lets hatchling make the editable install of `make setup`, and no wheel."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RefuseWheel(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            raise SystemExit(
                "ohforge is used from its clone, so there is no wheel of it: run `make setup` (or `pip install -e .`) there; "
                "CONTRIBUTING.md says why."
            )
