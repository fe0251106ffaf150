"""Programs from JAX: functions, what `lower()` and `jax.export` give, and `gxc.jit`."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from typing import Any, Callable, Mapping, Union

import numpy as np

from .array import Array, foreign, is_key, is_on_host, refuse_traced
from .compiler import Source, as_tuple, run
from .errors import CompileError, GxcWarning
from .program import Interface, Program, device_target


def _jax() -> Any:
    try:
        import jax
        return jax
    except ImportError as e:
        raise CompileError("a function is compiled by way of JAX, which is not installed: pip install jax") from e


def _names(function: Callable, count: int) -> tuple[str, ...]:
    """Names of the positional arguments, as JAX has them in key paths."""
    names: list[str] = []
    try:
        for p in inspect.signature(function).parameters.values():
            if p.kind == p.VAR_POSITIONAL:
                names += [f"{p.name}[{i}]" for i in range(count - len(names))]
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
    except (TypeError, ValueError):
        pass
    names += [f"args[{i}]" for i in range(len(names), count)]
    return tuple(names[:count])


def _interface(jax: Any, names: tuple[str, ...], arguments: tuple, keywords: Mapping[str, Any],
               out_tree: Any) -> Interface:
    """`arguments` without those that are static."""
    keystr, flatten = jax.tree_util.keystr, jax.tree_util.tree_flatten_with_path
    paths = [name + keystr(path) for name, tree in zip(names, arguments) for path, _ in flatten(tree)[0]]
    for name in sorted(keywords):
        paths += [name + keystr(path) for path, _ in flatten(keywords[name])[0]]
    filled = jax.tree_util.tree_unflatten(out_tree, list(range(out_tree.num_leaves)))
    results = [keystr(path) for path, _ in flatten(filled)[0]]
    return Interface(names, tuple(paths), tuple(results), functools.partial(jax.tree_util.tree_unflatten, out_tree))


def _static(function: Callable, numbers: tuple, names: tuple) -> tuple[tuple, tuple]:
    """Static arguments by number and by name. As for jax.jit, what gives only one of them means the other, too."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if all(p.kind != p.VAR_POSITIONAL for p in parameters):
        numbers = tuple(_positions(numbers, len(positional)))
    if names and not numbers:
        return tuple(i for i, name in enumerate(positional) if name in names), names
    if numbers and not names:
        return numbers, tuple(positional[i] for i in numbers if 0 <= i < len(positional))
    return numbers, names


def _positions(numbers: tuple, count: int) -> set[int]:
    """Numbers of arguments, where negative ones count from the end."""
    return {i + count if i < 0 else i for i in numbers}


def source_of_function(function: Callable, arguments: tuple, keywords: Mapping[str, Any], static_argnums: tuple = (),
                       static_argnames: tuple = (), donate_argnums: tuple = ()) -> Source:
    """Lowers a function with example arguments."""
    jax = _jax()
    static_argnums, static_argnames = _static(function, static_argnums, static_argnames)
    wrapped = function
    if not (hasattr(function, "lower") and hasattr(function, "trace")):  # else it is jax.jit's already
        wrapped = jax.jit(function, keep_unused=True, static_argnums=static_argnums, static_argnames=static_argnames,
                          donate_argnums=donate_argnums)
    lowered = wrapped.trace(*arguments, **keywords).lower(lowering_platforms=("cpu",))
    names = _names(function, len(arguments))
    dynamic = [i for i in range(len(arguments)) if i not in _positions(static_argnums, len(arguments))]
    named = {k: v for k, v in keywords.items() if k not in static_argnames}
    kept, kept_named = jax.tree_util.tree_unflatten(lowered.in_tree, list(range(lowered.in_tree.num_leaves)))
    if len(kept) != len(dynamic) or set(kept_named) != set(named):
        raise CompileError("the function of jax.jit has other static arguments than were named here: give gxc.compile the "
                           "same static_argnums and static_argnames")
    interface = _interface(jax, tuple(names[i] for i in dynamic), tuple(arguments[i] for i in dynamic), named,
                           lowered.out_tree)
    return _source(lowered, interface)


def _source(lowered: Any, interface: Interface) -> Source:
    text = lowered.as_text(debug_info=True)
    kept = getattr(getattr(lowered, "_lowering", None), "compile_args", {}).get("kept_var_idx")
    if kept is not None and len(kept) != len(interface.arguments):
        raise CompileError(f"the function does not use all of its {len(interface.arguments)} arrays, and JAX dropped "
                           f"{len(interface.arguments) - len(kept)}: use jax.jit(f, keep_unused=True)")
    return Source("jax", text.encode(), interface)


def source_of_lowered(lowered: Any) -> Source:
    """What jax.jit(f, keep_unused=True).lower(...) gives."""
    jax = _jax()
    arguments, keywords = jax.tree_util.tree_unflatten(lowered.in_tree, jax.tree_util.tree_leaves(lowered.args_info))
    names = tuple(f"args[{i}]" for i in range(len(arguments)))
    return _source(lowered, _interface(jax, names, arguments, keywords, lowered.out_tree))


def source_of_exported(exported: Any) -> Source:
    """A jax.export.Exported."""
    jax = _jax()
    arguments, keywords = jax.tree_util.tree_unflatten(exported.in_tree, list(exported.in_avals))
    names = tuple(f"args[{i}]" for i in range(len(arguments)))
    all_of = _interface(jax, names, arguments, keywords, exported.out_tree)
    if len(exported.module_kept_var_idx) != len(all_of.arguments):
        raise CompileError("jax.export dropped arguments that the function does not use: export "
                           "jax.jit(f, keep_unused=True)")
    return Source("jax.export", bytes(exported.mlir_module_serialized), all_of)


class Jit:
    """What gxc.jit gives: a function that compiles for each new set of shapes and types."""

    def __init__(self, function: Callable, static_argnums: tuple, static_argnames: tuple, donate_argnums: tuple,
                 target: Any, options: dict):
        functools.update_wrapper(self, function)
        self._function = function
        self._static, self._static_names = _static(function, static_argnums, static_argnames)
        self._donate, self._target, self._options = donate_argnums, target, options
        self._programs: dict[Any, Program] = {}
        self._lock = threading.RLock()  # a function may call itself while it is traced

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        program, dynamic, named = self._find(arguments, keywords)
        return program._call(dynamic, named, donate=bool(self._donate))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """In a class it is a method, as what jax.jit gives."""
        return self if instance is None else types.MethodType(self, instance)

    def compiled(self, /, *arguments: Any, **keywords: Any) -> Program:
        """The program for such arguments, compiled if it is not there yet."""
        return self._find(arguments, keywords)[0]

    def _find(self, arguments: tuple, keywords: dict) -> tuple[Program, list, dict]:
        jax = _jax()
        static = {i for i in _positions(self._static, len(arguments)) if i < len(arguments)}
        dynamic = [jax.tree_util.tree_map(_canonical, a) for i, a in enumerate(arguments) if i not in static]
        named = {k: jax.tree_util.tree_map(_canonical, v) for k, v in keywords.items() if k not in self._static_names}
        leaves, shape_of_tree = jax.tree_util.tree_flatten((dynamic, named))
        fixed = (tuple((i, type(arguments[i]), arguments[i]) for i in sorted(static)),  # 1 == 1.0 == True
                 tuple((k, type(v), v) for k, v in sorted(keywords.items()) if k in self._static_names))
        key = (shape_of_tree, fixed, tuple(_signature(leaf) for leaf in leaves), _trace_context(jax))
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._compile(jax, arguments, keywords, static)
        return self._programs[key], dynamic, named

    def _compile(self, jax: Any, arguments: tuple, keywords: dict, static: set) -> Program:
        example = [a if i in static else jax.tree_util.tree_map(_example, a) for i, a in enumerate(arguments)]
        named = {k: v if k in self._static_names else jax.tree_util.tree_map(_example, v) for k, v in keywords.items()}
        source = source_of_function(self._function, tuple(example), named, self._static, self._static_names, self._donate)
        target = self._target if self._target is not None else device_target()
        data, warning = run(source, [target] if isinstance(target, str) else list(target), **dict(self._options))
        if warning:
            warnings.warn(warning.rstrip(), GxcWarning, stacklevel=4)
        return Program(data, interface=source.interface, native=True)


def _trace_context(jax: Any) -> Any:
    """Settings of JAX that change what a function is traced to, as jax.jit's own cache has them."""
    try:
        from jax._src import config
        return config.trace_context()
    except (ImportError, AttributeError):
        names = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion",
                 "jax_default_prng_impl", "jax_threefry_partitionable", "jax_random_seed_offset")
        return tuple(getattr(jax.config, name, None) for name in names)


def _example(leaf: Any) -> Any:
    """What JAX needs to know of an argument; numbers are arrays of their weak types."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        if getattr(leaf, "weak_type", False) or is_key(leaf):
            return leaf
        return _jax().ShapeDtypeStruct(tuple(leaf.shape), _canonical_type(leaf))
    return leaf


def _canonical_type(leaf: Any) -> np.dtype:
    """The type that JAX gives such an array: of 64 bits only where that is allowed."""
    dtype = np.dtype(str(leaf.dtype).removeprefix("torch.") if str(leaf.dtype).startswith("torch.") else leaf.dtype)
    return _jax().dtypes.canonicalize_dtype(dtype.newbyteorder("="))


def _canonical(leaf: Any) -> Any:
    """The argument as an array of that type; one that lies on a GPU is left as it is."""
    refuse_traced(leaf)
    if isinstance(leaf, Array) or not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")) or is_key(leaf):
        return leaf
    wanted = _canonical_type(leaf)
    if str(leaf.dtype) in (str(wanted), f"torch.{wanted}") or not is_on_host(leaf):
        return leaf
    return foreign(leaf).astype(wanted)


def _signature(leaf: Any) -> Any:
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return tuple(leaf.shape), str(leaf.dtype), bool(getattr(leaf, "weak_type", False))
    return type(leaf)


def jit(function: Union[Callable, None] = None, *, static_argnums: Union[int, tuple] = (),
        static_argnames: Union[str, tuple] = (), donate_argnums: Union[int, tuple] = (), target: Any = None,
        **options: Any) -> Any:
    """Like jax.jit, but compiled and run by gxc. Results are gxc.Arrays in the function's tree.

    >>> @gxc.jit
    ... def softmax(x):
    ...     e = jnp.exp(x - x.max(axis=-1, keepdims=True))
    ...     return e / e.sum(axis=-1, keepdims=True)
    >>> softmax(np.zeros((2, 4), np.float32)).numpy()
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25]], dtype=float32)

    Trees in, trees out; arguments may be results of other programs, which stay on the device:

    >>> step = gxc.jit(lambda p, g: {"w": p["w"] - 0.5 * g, "norm": (g ** 2).sum()})
    >>> p = step({"w": np.ones(2, np.float32)}, np.float32([1, 2]))
    >>> step({"w": p["w"]}, np.float32([1, 2]))["w"].numpy()
    array([ 0., -1.], dtype=float32)

    Gradients are JAX's; a training loop keeps its state on the device:

    >>> update = gxc.jit(lambda w, x, y: w - 0.1 * jax.grad(lambda w: ((x @ w - y) ** 2).sum())(w))
    >>> w, x, y = np.zeros(2, np.float32), np.eye(2, dtype=np.float32), np.float32([1, 2])
    >>> for _ in range(40):
    ...     w = update(w, x, y)
    >>> np.round(w.numpy(), 3)
    array([1., 2.], dtype=float32)

    Each set of shapes is a program, and can be saved:

    >>> softmax.compiled(np.zeros((3, 5), np.float32)).save("softmax.cubin")
    >>> gxc.load("softmax.cubin", allow_native=True)
    <gxc.Program jit_softmax(x f32[3,5]) -> (f32[3,5]) for sm_90a>

    Static arguments are part of the program, donated ones may be overwritten:

    >>> power = gxc.jit(lambda x, n: x ** n, static_argnums=1, donate_argnums=0)
    >>> float(power(np.float32(3), 4))
    81.0
    """
    if options.get("emit"):
        raise TypeError("gxc.jit runs what it compiles: gxc.compile takes emit")
    if function is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames,
                                 donate_argnums=donate_argnums, target=target, **options)
    return Jit(function, as_tuple(static_argnums), as_tuple(static_argnames), as_tuple(donate_argnums), target, options)
