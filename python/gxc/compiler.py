"""Compiling: programs of JAX, PyTorch, text or bytes become a Program."""

from __future__ import annotations

import ctypes
import operator
import os
import sys
import warnings
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Union

from . import library
from .errors import CompileError, GxcWarning

_OPTIONS = {"opt_level", "emit", "print", "replicas", "partitions", "jobs", "passes", "skip", "libraries", "tiles",
            "assembler", "cuda", "cache_dir", "embed_hlo", "fp_contract_off", "settings", "lint", "f32_dots", "module",
            "tuning", "require_tuning", "line_info", "embed_ptx", "embed_tileir",
            "max_assembler_seconds", "max_unpacked_bytes"}
_TEXTS = {name for name, kind in library.CompileOptions._fields_ if kind is ctypes.c_char_p}
_BINARY = ("pb", "cubin", "tileir", "candidates")  # forms of `emit` that are no text


class Source(NamedTuple):
    """A program as the compiler reads it, and what Python knows of its interface."""
    name: str
    data: bytes
    interface: Any = None  # program.Interface


def cuda_folder() -> Optional[str]:
    """The folder with NVIDIA's wheels, if they are installed; the compiler looks for a toolkit by itself."""
    for folder in sys.path:
        if os.path.exists(os.path.join(folder, "nvidia", "cu13", "bin", "ptxas")):
            return folder
    return None


def run(source: Source, targets: Iterable[str] = (), **given: Any) -> tuple[bytes, str]:
    """What libgxc makes of a program - the artefact, or the text of `emit` - and its warnings."""
    result = ctypes.c_void_p()
    options, keep = _options(list(targets), given)
    gxc = library.compiler()
    status = gxc.gxc_compile(os.fsencode(source.name), source.data, len(source.data), options, result)
    del keep
    try:
        text = gxc.gxc_result_diagnostics(result).decode(errors="replace") if result else ""
        library.check_compiled(status, text)
        size = ctypes.c_size_t()
        pointer = gxc.gxc_result_bytes(result, size)
        return ctypes.string_at(pointer, size.value) if pointer else b"", text
    finally:
        gxc.gxc_result_destroy(result)


def _options(targets: list[str], given: dict[str, Any]) -> tuple[library.CompileOptions, list]:
    unknown = set(given) - _OPTIONS
    if unknown:
        raise TypeError(f"no such option: {', '.join(sorted(unknown))}; there are {', '.join(sorted(_OPTIONS))}")
    o = library.CompileOptions(struct_size=ctypes.sizeof(library.CompileOptions))
    keep: list = []
    o.targets, o.target_count = _strings("target", targets, keep)
    given.setdefault("cuda", cuda_folder())
    o.opt_level_set = int(given.get("opt_level") is not None)
    settings = given.pop("settings", None) or {}
    o.settings, o.setting_count = _strings(
        "settings", [f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in settings.items()], keep)
    for name, value in given.items():
        if value is not None:
            setattr(o, name, _text(value, name) if name in _TEXTS else _number(value, name))
            if name not in _TEXTS and getattr(o, name) != value:
                raise ValueError(f"{name}={value!r}: the number does not fit")  # ctypes has cut it
    return o, keep


def _text(value: Any, name: str) -> bytes:
    """As C has it. ctypes takes a number for an address."""
    if not isinstance(value, (str, os.PathLike)) or b"\0" in os.fsencode(value):
        raise TypeError(f"{name}={value!r}: a text is expected")
    return os.fsencode(value)


def _number(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: a whole number is expected") from None


def _strings(name: str, texts: list[str], keep: list) -> tuple[Any, int]:
    array = (ctypes.c_char_p * max(len(texts), 1))(*[_text(t, name) for t in texts])
    keep.append(array)
    return ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p)), len(texts)


# --- what is compiled ----------------------------------------------------------------------

Program_ = Union[str, bytes, os.PathLike, Callable]


def source_of(program: Any, arguments: tuple, keywords: Mapping[str, Any], static_argnums: tuple = (),
              static_argnames: tuple = ()) -> Source:
    """The program as bytes, whatever form it has."""
    if isinstance(program, (bytes, bytearray, memoryview)):
        return Source("program", bytes(program))
    if isinstance(program, os.PathLike) or isinstance(program, str) and "\n" not in program and os.path.exists(program):
        with open(program, "rb") as file:
            return Source(os.fspath(program), file.read())
    if isinstance(program, str):
        if "{" not in program:
            raise CompileError(f"{program[:80]!r} is neither a file nor the text of a program")
        return Source("program", program.encode())
    if hasattr(program, "mlir_module_serialized"):  # jax.export.Exported
        from .from_jax import source_of_exported
        return source_of_exported(program)
    if hasattr(program, "graph_module") and hasattr(program, "graph_signature"):  # torch.export.ExportedProgram
        from .pytorch import source_of_torch
        return source_of_torch(program)
    if hasattr(program, "as_text") and hasattr(program, "out_tree"):  # jax.stages.Lowered
        from .from_jax import source_of_lowered
        return source_of_lowered(program)
    if callable(program):
        from .from_jax import source_of_function
        return source_of_function(program, arguments, keywords, static_argnums, static_argnames)
    raise TypeError(f"a {type(program).__name__} is no program: text, bytes, a path, a function for JAX, what "
                    "jax.jit(f).lower() or jax.export gives, or a torch.export.ExportedProgram")


def as_tuple(given: Union[int, str, Iterable]) -> tuple:
    """Numbers or names of arguments, of which one may stand alone."""
    return (given,) if isinstance(given, (int, str)) else tuple(given)


def compile(program: Any, *arguments: Any, target: Union[str, Iterable[str], None] = None,
            static_argnums: Union[int, tuple] = (), static_argnames: Union[str, tuple] = (),
            keywords: Optional[Mapping[str, Any]] = None, **options: Any):
    """Compiles a program ahead of time.

    `program` is HLO or StableHLO - text, bytes, or the path of a file -, a function for JAX with example
    arguments (arrays or jax.ShapeDtypeStruct; those of keywords in `keywords`), what `jax.jit(f).lower()` or `jax.export.export` gives, or a
    `torch.export.ExportedProgram`. `target` is a name of `gxc --list-targets` or several; without it sm_90a, and the
    emulator. Further options are those of gxc.h that change what is made: opt_level, f32_dots, cache_dir, settings, ...

    >>> text = '''HloModule twice
    ... ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] add(x, x) }'''
    >>> twice = gxc.compile(text)
    >>> twice(np.float32([1, 2, 3])).numpy()
    array([2., 4., 6.], dtype=float32)

    A function with example arguments; the arguments may be trees:

    >>> norm = gxc.compile(lambda v: jnp.sqrt(v["x"] ** 2 + v["y"] ** 2), {"x": np.float32(0), "y": np.float32(0)})
    >>> float(norm({"x": np.float32(3), "y": np.float32(4)}))
    5.0

    What `lower()` and `jax.export` give can be compiled, too, and any stage be looked at:

    >>> lowered = jax.jit(lambda x: x * 2).lower(np.zeros(4, np.int32))
    >>> gxc.compile(lowered)(np.int32([1, 2, 3, 4])).numpy()
    array([2, 4, 6, 8], dtype=int32)
    >>> exported = jax.export.export(jax.jit(lambda x: x * 2))(np.zeros(4, np.int32))
    >>> print(gxc.compile(exported, emit="hlo", passes="none").splitlines()[-3])
      ROOT %multiply = s32[4]{0} multiply(%x, %broadcast), metadata=...

    What is wrong with a program is told with its location:

    >>> gxc.compile('HloModule m\\nENTRY e { x = f32[3] parameter(0) ROOT y = f32[4] add(x, x) }')
    Traceback (most recent call last):
    gxc.errors.CompileError: program:2:40: error: y (add): expected instruction to have shape equal to f32[3]{0}, actual shape is f32[4]{0}
      ENTRY e { x = f32[3] parameter(0) ROOT y = f32[4] add(x, x) }
                                             ^
    """
    from .program import Program
    source = source_of(program, arguments, keywords or {}, as_tuple(static_argnums), as_tuple(static_argnames))
    targets = [target] if isinstance(target, str) else list(target) if target is not None else []
    data, warning = run(source, targets, **options)
    if warning:
        warnings.warn(warning.rstrip(), GxcWarning, stacklevel=2)
    if options.get("emit"):
        return data if options["emit"] in _BINARY else data.decode(errors="replace")
    return Program(data, interface=source.interface, native=True)
