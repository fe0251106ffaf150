"""Programs from PyTorch: torch.export, then StableHLO by torch_xla.

The weights of a model are arguments of its StableHLO; here they are bound, so that a call takes what the
model's `forward` takes."""

from __future__ import annotations

from typing import Any

from . import tree
from .compiler import Source
from .errors import CompileError
from .program import Program


def _stablehlo(exported: Any) -> Any:
    try:
        from torch_xla.stablehlo import exported_program_to_stablehlo
    except ImportError as e:
        raise CompileError("a torch.export.ExportedProgram becomes StableHLO by torch_xla, which is not installed: "
                           "pip install torch_xla") from e
    return exported_program_to_stablehlo(exported)


def source_of_torch(exported: Any) -> Source:
    """The program with its weights as arguments, in the order in which torch_xla lists them."""
    return Source("torch.export", bytes(_stablehlo(exported).get_stablehlo_bytecode("forward")))


class TorchProgram:
    """A model of PyTorch: called like its forward, with its weights from the export."""

    def __init__(self, program: Program, weights: list, places: list):
        self.program = program
        self._weights, self._places = weights, places

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        given = [leaf for _, leaf in tree.flatten(arguments)]
        leaves: list = []
        for kind, place in self._places:
            leaves.append(self._weights[place] if kind == "weight" else given[place])
        return self.program(*leaves, **options)


def from_torch(exported_program: Any, **options: Any) -> TorchProgram:
    """Compiles what torch.export.export gives: `gxc.from_torch(torch.export.export(model.eval(), (x,)))(x)`.
    Needs torch_xla, for the way to StableHLO. Options are those of `gxc.compile`."""
    from .compiler import compile as compile_
    converted = _stablehlo(exported_program)
    program = compile_(bytes(converted.get_stablehlo_bytecode("forward")), **options)
    weights: list = []
    places: list = []
    bundle = converted._bundle
    for location in bundle.stablehlo_funcs[0].meta.input_locations:
        if location.type_.name == "INPUT_ARG":
            places.append(("argument", location.position))
            continue
        constant = location.type_.name == "CONSTANT"
        weights.append(bundle.additional_constants[location.position] if constant else bundle.state_dict[location.name])
        places.append(("weight", len(weights) - 1))
    return TorchProgram(program, weights, places)
