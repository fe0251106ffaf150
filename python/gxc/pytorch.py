"""Programs from PyTorch: torch.export, then StableHLO by torch_xla or, where that is not installed, by torchax.

The weights of a model are arguments of its StableHLO; here they are bound, so that a call takes what the model's
`forward` takes and gives what it gives. Of torch only the export's signature is used."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from .compiler import Source
from .errors import CompileError, RunError
from .program import Interface, Program


class Converted(NamedTuple):
    """A program as StableHLO, and what each of its arguments is."""
    data: bytes
    weights: list                        # arrays
    names: list                          # of the weights, as in the model's state_dict
    indices: list[tuple[bool, int]]      # for each argument: is it a weight, its number among weights or inputs


def _by_torch_xla(exported: Any) -> Converted:
    from torch_xla.stablehlo import exported_program_to_stablehlo
    if not all(array for array, _ in _results(exported)):
        raise CompileError("torch_xla exports no results that are no arrays (None, numbers): let forward give arrays")
    bundle = exported_program_to_stablehlo(exported)._bundle
    function = bundle.stablehlo_funcs[0]
    weights: list = []
    names: list = []
    indices: list = []
    for location in function.meta.input_locations:
        kind = location.type_.name
        if kind == "INPUT_ARG":
            indices.append((False, location.position))
            continue
        constant = kind == "CONSTANT"
        names.append(f"constant_{location.position}" if constant else location.name)
        weights.append(bundle.additional_constants[location.position] if constant else bundle.state_dict[location.name])
        indices.append((True, len(weights) - 1))
    return Converted(bytes(function.bytecode), weights, names, indices)


def _by_torchax(exported: Any) -> Converted:
    import jax
    from torchax.export import exported_program_to_stablehlo
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():  # PyTorch has 64 bits, JAX not always
        weights, program = exported_program_to_stablehlo(exported)
    signature = exported.graph_signature
    names = [*signature.parameters, *signature.buffers, *signature.lifted_tensor_constants]
    count = len(weights)
    indices = [(i < count, i if i < count else i - count) for i in program.module_kept_var_idx]
    return Converted(bytes(program.mlir_module_serialized), list(weights), names, indices)


def _convert(exported: Any) -> Converted:
    signature = exported.run_decompositions({}).graph_signature  # which says what is written inside of operators
    written = [*signature.buffers_to_mutate.values(), *getattr(signature, "user_inputs_to_mutate", {}).values()]
    if written:
        raise CompileError(f"the model writes {', '.join(sorted(written))}; a program of gxc only gives results: export it "
                           "after model.eval(), or give the new state as a result")
    ways: tuple[Callable, ...] = (_by_torch_xla, _by_torchax)
    for way in ways:
        try:
            return way(exported)
        except ModuleNotFoundError as e:
            if (e.name or "").partition(".")[0] not in ("torch_xla", "torchax", "jax"):
                raise
    raise CompileError("a torch.export.ExportedProgram becomes StableHLO by torch_xla, or by torchax with jax; neither is "
                       "installed: pip install torch_xla")


def source_of_torch(exported: Any) -> Source:
    """The program with its weights as arguments: by their names in the state_dict, `weights['layer.bias']`; what
    forward takes is inputs[0], inputs[1], ..."""
    converted = _convert(exported)
    paths = tuple(f"weights[{converted.names[index]!r}]" if weight else f"inputs[{index}]"
                  for weight, index in converted.indices)
    count = sum(array for array, _ in _results(exported))
    results = ("",) if count == 1 else tuple(f"[{i}]" for i in range(count))
    return Source("torch.export", converted.data, Interface(("weights", "inputs"), paths, results))


def _results(exported: Any) -> list[tuple[bool, Any]]:
    """For each leaf of what forward gives: is it an array, and if not, its value."""
    return [(not hasattr(o.arg, "value"), getattr(o.arg, "value", None))
            for o in exported.graph_signature.output_specs if o.kind.name == "USER_OUTPUT"]


def _shapes(exported: Any) -> list[tuple]:
    made = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    return [tuple(made[o.arg.name].shape) for o in exported.graph_signature.output_specs
            if o.kind.name == "USER_OUTPUT" and not hasattr(o.arg, "value")]


class TorchProgram:
    """A model of PyTorch: called like its forward, with its weights from the export. Results are `gxc.Array`s in the
    tree that forward gives; `torch.from_dlpack` takes them."""

    def __init__(self, program: Program, converted: Converted, exported: Any):
        self.program = program
        self._weights, self._indices = converted.weights, converted.indices
        self._inputs, self._outputs = exported.call_spec.in_spec, exported.call_spec.out_spec
        self._results = _results(exported)
        inputs = [s.arg for s in exported.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
        self._constants = {i: arg.value for i, arg in enumerate(inputs) if hasattr(arg, "value")}

    def __call__(self, *arguments: Any, stream: Any = None, device: str = "auto", **keywords: Any) -> Any:
        from torch.utils import _pytree as pytree
        order = self._inputs.children_specs[1].context
        if set(keywords) == set(order):
            keywords = {name: keywords[name] for name in order}
        given, spec = pytree.tree_flatten((arguments, keywords))
        if spec != self._inputs:
            raise RunError(f"the model was exported for arguments of the form {self._inputs}, not {spec}")
        for i, value in self._constants.items():
            if given[i] != value:
                raise RunError(f"input {i} is {value!r} in the exported program, which cannot be called with {given[i]!r}")
        leaves = [self._weights[index] if weight else given[index] for weight, index in self._indices]
        out = self.program(*leaves, stream=stream, device=device)
        arrays = iter(out if isinstance(out, (tuple, list)) else [out])
        return pytree.tree_unflatten([next(arrays) if array else value for array, value in self._results], self._outputs)


def from_torch(exported_program: Any, **options: Any) -> TorchProgram:
    """Compiles what torch.export.export gives: `gxc.from_torch(torch.export.export(model.eval(), (x,)))(x)`.
    Needs torch_xla, or torchax and jax, for the way to StableHLO. Options are those of `gxc.compile`."""
    from .compiler import compile as compile_
    converted = _convert(exported_program)
    program = compile_(converted.data, **options)
    made = [tuple(v.shape) for v in program.results]
    wanted = _shapes(exported_program)
    if made != wanted:
        raise CompileError(f"the StableHLO gives arrays of sizes {made}, the exported program {wanted}: it was translated "
                           "wrongly; torch_xla and torchax may differ in that")
    return TorchProgram(program, converted, exported_program)
