"""How what was made of model files looks to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.files import human_bytes

if TYPE_CHECKING:
    from core.console import Console
    from native.models.quantize import QuantizeOutcome


def show_quantised(console: Console, outcome: QuantizeOutcome) -> None:
    """Size and bits for a weight of a model and of its quantisations, and what can be done with them."""
    info = outcome.model.info
    rows = [
        [
            info.file_type or "-",
            human_bytes(info.file_size),
            f"{info.bits_per_weight:.2f}",
            "100 %",
            _counts(outcome),
            "",
        ]
    ]
    for entry in outcome.quantised:
        forecast = entry.forecast
        mixture = ", ".join(f"{count} {kind}" for kind, count in forecast.tensors.items())
        share = f"{forecast.weight_bytes / info.weight_bytes:.0%}".replace("%", " %")
        bits = f"{forecast.bits_per_weight:.2f}"
        rows.append([forecast.type, human_bytes(entry.size), bits, share, mixture, str(entry.path)])
    console.table(["TYPE", "SIZE", "BITS/WEIGHT", "OF SOURCE", "TENSORS", "FILE"], rows)
    for entry in outcome.quantised:
        if entry.forecast.fallbacks:
            console.info(
                f"{entry.forecast.type}: rows of {entry.forecast.fallbacks} tensor(s) do not fit it, which got larger types"
            )
    made = [entry.path for entry in outcome.quantised if entry.seconds is not None]
    if made:
        console.info(f"next: ohforge model.fit {made[0]}")
        console.info(f"      ohforge board.run {made[0]}")
    else:
        console.info("nothing was written")


def _counts(outcome: QuantizeOutcome) -> str:
    kinds = [tensor.type for tensor in outcome.model.info.tensors]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
