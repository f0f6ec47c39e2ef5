"""What our reference runtime does not compute of a ``.ms`` model: operators, their inputs, attributes and data types."""

from __future__ import annotations

from collections.abc import Sequence

from native.formats.ms_graph import MsTensor, Node
from native.formats.ms_operators import find_operator

SINGLE = "float32"
WIDENED = ("int8", "int16")
"""Constants of these types become float32 when the runtime loads them, where they have scales."""
NUMBERS = (SINGLE, "int32")


def find_lacks(nodes: Sequence[Node], tensors: Sequence[MsTensor], inputs: Sequence[int]) -> tuple[str, ...]:
    """Each thing once, beginning with the operator's name; `inputs` are those of the model.

    The types of computed tensors are worked out as the runtime does it, for what the file declares is not used there.
    """
    types = {tensor.index: _loaded_type(tensor) for tensor in tensors if tensor.constant}
    types |= {index: tensors[index].dtype for index in inputs}
    found: dict[str, None] = {}
    for node in nodes:
        lack = _find_lack(node, tensors, types)
        if lack is not None:
            found[f"{find_operator(node.operator).name}{lack}"] = None
        types |= dict.fromkeys(node.outputs, _result_type(node, tensors, types))
    return tuple(found)


def _find_lack(node: Node, tensors: Sequence[MsTensor], types: dict[int, str]) -> str | None:
    """What follows the operator's name, often nothing; None when nothing lacks."""
    signature = find_operator(node.operator).reference
    if signature is None:
        return ""
    least, most = signature.inputs
    if not least <= len(node.inputs) <= most or not 1 <= len(node.outputs) <= signature.outputs:
        return f" with {len(node.inputs)} inputs and {len(node.outputs)} outputs"
    for slot, value in node.values:
        name, known = signature.values[slot]
        if value not in known:
            return f" of {name} {value}"
    given = [tensors[index] for index in node.inputs]
    if signature.rank and (shape := given[0].shape) and len(shape) != signature.rank:
        return f" of {len(shape)} dimensions"
    for tensor in given:
        if tensor.compression:
            return f" with compressed weights ({tensor.compression})"
        if tensor.external:
            return " with weights in another file"
    return _find_wrong_type(signature.takes, given, [types.get(index, "") for index in node.inputs])


def _find_wrong_type(takes: str, given: Sequence[MsTensor], types: Sequence[str]) -> str | None:
    looked_at = {"any": 0, "float-first": 1}.get(takes, len(types))
    if takes == "alike" or (takes == "numbers" and types[0] in NUMBERS):
        wrong = [index for index, kind in enumerate(types) if kind not in ("", types[0])]
    else:
        wrong = [index for index, kind in enumerate(types[:looked_at]) if kind not in ("", SINGLE)]
    if not wrong:
        return None
    tensor, kind = given[wrong[0]], types[wrong[0]]
    if takes == "alike":
        return f" of {types[0]} and {kind}"
    if tensor.constant:
        return f" with constants in {kind}" + (" that have no scale" if kind in WIDENED else "")
    return f" in {kind}" + (" (quantised)" if tensor.scales else "")


def _loaded_type(tensor: MsTensor) -> str:
    return SINGLE if tensor.dtype == "float16" or (tensor.dtype in WIDENED and tensor.scales) else tensor.dtype


def _result_type(node: Node, tensors: Sequence[MsTensor], types: dict[int, str]) -> str:
    """Empty when it cannot be told."""
    operator = find_operator(node.operator)
    if operator.reference is None or not node.inputs or not node.outputs:
        return ""
    if operator.name == "Cast":
        return tensors[node.outputs[0]].dtype
    if operator.name == "Shape":
        return "int32"
    return types.get(node.inputs[0], "") if operator.reference.takes in ("any", "alike", "numbers") else SINGLE
