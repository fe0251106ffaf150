"""Compiled programs: loading, calling, saving."""

from __future__ import annotations

import ctypes
import itertools
import json
import operator
import os
import threading
import weakref
from typing import Any, Callable, Iterable, NamedTuple, Optional, Union

from . import library, tree
from .array import Array, Memory, Value, put
from .errors import FileError, RunError
from .session import Session


class Interface(NamedTuple):
    """What a call looks like in Python."""
    parameters: tuple[str, ...]            # names of the positional arguments of the function
    arguments: tuple[str, ...]             # key path of each argument of the program: params['w']
    results: tuple[str, ...]               # key path of each result: ['loss'], "" for a single one
    rebuild: Optional[Callable] = None     # leaves of the result to the tree that the function gives


class File:
    """An open file, or one in memory; libgxrt's program."""

    def __init__(self, source: Union[bytes, str]):
        self.handle, self.source = ctypes.c_void_p(), source
        self.path = None if isinstance(source, bytes) else os.path.abspath(source)  # the process may go elsewhere
        runtime = library.runtime()
        if isinstance(source, bytes):
            library.check_run(runtime.gxrt_program_open_memory(source, len(source), self.handle))
        else:
            library.check_run(runtime.gxrt_program_open(os.fsencode(source), self.handle))
        weakref.finalize(self, _close, runtime, self.handle, source)


def _close(runtime: ctypes.CDLL, handle: ctypes.c_void_p, source: Any) -> None:
    runtime.gxrt_program_destroy(handle)
    del source  # bytes in memory have to outlive the program


class Program:
    """A compiled program. Calling it runs it, on a GPU if there is one, else on the emulator.

    Arguments are arrays of numpy, JAX, PyTorch, CuPy - whatever has `__dlpack__` -, numbers, or results of other
    programs; where the program was made from a function they are that function's arguments. Results are `gxc.Array`s in
    the function's tree; they are computed while Python goes on.

    >>> program = gxc.compile(lambda a, b: {"sum": a + b, "product": a @ b}, np.eye(2, dtype=np.float32),
    ...                       np.ones((2, 2), np.float32))
    >>> program
    <gxc.Program jit__lambda(a f32[2,2], b f32[2,2]) -> (['product'] f32[2,2], ['sum'] f32[2,2]) for sm_90a>
    >>> out = program(2 * np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32))
    >>> out["product"][0], out["sum"][1, 0]
    (array([2., 2.], dtype=float32), np.float32(1.0))

    Arrays that do not fit are refused by name:

    >>> program(np.zeros(3, np.float32), np.ones((2, 2), np.float32))
    Traceback (most recent call last):
    gxc.errors.RunError: an array of f32[3] was given for a f32[2,2]
    """

    def __init__(self, source: Union[bytes, str, os.PathLike], *, interface: Optional[Interface] = None,
                 native: bool = False):
        self._file = File(source if isinstance(source, bytes) else os.fspath(source))
        self._native = native
        self._sessions: dict[Any, Session] = {}
        runtime = library.runtime()
        info = library.ProgramInfo(struct_size=ctypes.sizeof(library.ProgramInfo))
        library.check_run(runtime.gxrt_program_get_info(self._file.handle, info))
        self.name: str = info.module.decode()
        self.replicas, self.partitions = info.replicas, info.partitions
        self.module_hash: str = bytes(info.module_hash).hex()
        self.gxc_version: str = info.gxc_version.decode()
        self._interface = interface
        self.arguments = self._values(runtime.gxrt_program_get_argument, info.argument_count,
                                      interface.arguments if interface else None)
        self.results = self._values(runtime.gxrt_program_get_result, info.result_count,
                                    interface.results if interface else None)
        self.targets = [self._variant(i) for i in range(info.variant_count)]

    def _values(self, query: Any, count: int, paths: Optional[tuple[str, ...]]) -> list[Value]:
        if paths is not None and len(paths) != count:
            raise FileError(f"the interface has {len(paths)} key paths, the program {count} arguments or results")
        out = []
        for i in range(count):
            v = library.ValueInfo(struct_size=ctypes.sizeof(library.ValueInfo))
            library.check_run(query(self._file.handle, i, v))
            name = v.name.decode()
            out.append(Value(name, paths[i] if paths is not None else name, v.dtype.decode(), tuple(v.dims[:v.rank]),
                             tuple(v.minor_to_major[:v.rank]), v.bytes, v.alignment, v.alias, bool(v.must_alias),
                             bool(v.donated)))
        return out

    def _variant(self, index: int) -> str:
        v = library.VariantInfo(struct_size=ctypes.sizeof(library.VariantInfo))
        library.check_run(library.runtime().gxrt_program_get_variant(self._file.handle, index, v))
        return v.target.decode()

    # --- running ---------------------------------------------------------------------------

    def __call__(self, *arguments: Any, stream: Any = None, donate: bool = False, device: str = "auto",
                 ordinal: Optional[int] = None, **keywords: Any) -> Any:
        """Runs the program on one device.

        `stream` is a stream of the GPU: of torch, of cupy, or its address as a number. With `donate` the program
        may overwrite arguments that it aliases with results; such `gxc.Array`s can be used no more. `device` is "auto",
        "cuda", "emu" or "emu:sm_80", `ordinal` CUDA's number of the GPU.
        """
        return self._call(arguments, keywords, stream, donate, device, ordinal)

    def _call(self, arguments: Iterable[Any], keywords: dict[str, Any], stream: Any = None, donate: bool = False,
              device: str = "auto", ordinal: Optional[int] = None) -> Any:
        """The same, where arguments of the function may have any name."""
        if self.replicas * self.partitions != 1:
            raise RunError(f"{self.name} is for {self.replicas} x {self.partitions} devices: use run()")
        leaves = self._leaves(tuple(arguments), keywords)
        session = self.session(device, [ordinal] if ordinal is not None else None)
        return self._tree(self._execute(session, [leaves], [_stream(stream)], donate)[0])

    def run(self, arguments: list[tuple], *, streams: Optional[list] = None, donate: bool = False, device: str = "auto",
            ordinals: Optional[list[int]] = None) -> list[Any]:
        """Runs the program on all of its devices, of this process: one tuple of arguments for each of them, in the
        order of their numbers; gives their results. A program for one device runs as many replicas.

        >>> program = gxc.compile("HloModule m ENTRY e { i = u32[] replica-id() x = u32[] parameter(0) "
        ...                       "ROOT y = u32[] add(i, x) }")
        >>> [int(y) for y in program.run([(10,), (20,)], device="emu")]
        [10, 21]
        """
        count = self.replicas * self.partitions
        replicas = len(arguments) if count == 1 else 0
        if count not in (1, len(arguments)):
            raise RunError(f"{self.name} is for {count} devices, {len(arguments)} tuples of arguments were given")
        session = self.session(device, ordinals, replicas)
        leaves = [self._leaves(a if isinstance(a, tuple) else (a,), {}) for a in arguments]
        if streams and len(streams) != len(leaves):
            raise RunError(f"{self.name}: {len(streams)} streams were given for {len(leaves)} devices")
        handles = [_stream(s) for s in streams] if streams else [0] * len(leaves)
        return [self._tree(r) for r in self._execute(session, leaves, handles, donate)]

    def session(self, device: str = "auto", ordinals: Optional[list[int]] = None, replicas: int = 0) -> Session:
        """The program on its devices: made at the first call and after a device has failed, kept for the next. Making it
        uploads constants."""
        key = (device, tuple(ordinals or ()), replicas)
        if key not in self._sessions or self._sessions[key].failed:
            self._check_native(device)
            size = sum(v.bytes for v in self.arguments + self.results)
            self._sessions[key] = Session(self._file, device, self._native, replicas, ordinals,
                                          max(size, 64 << 20))
        return self._sessions[key]

    def _check_native(self, device: str) -> None:
        if self._native or not (device.startswith("emu") or device == "auto" and device_target() == "emu"):
            return
        name = self.name if isinstance(self._file.source, bytes) else self._file.source
        raise RunError(f"{name}: on the emulator its kernels are machine code that would run in this "
                       "process with all of its rights, and this process did not compile it; say allow_native=True if "
                       "you would run it as a program")

    def _execute(self, session: Session, leaves: list[list], streams: list[int], donate: bool) -> list[list[Array]]:
        with session.lock:
            inputs = []
            for d, (given, stream) in enumerate(zip(leaves, streams)):
                if stream and any(not (isinstance(g, Array) and g._memory is not None and session.reaches(d, g._memory))
                                  for g in given):
                    session.synchronize(d)  # copies wait for the default stream only, and memory is used again
                inputs.append([put(session, d, v, g, stream, donate) for v, g in zip(self.arguments, given)])
            outs = [[self._result_memory(session, d, v, inputs[d], streams[d]) for v in self.results]
                    for d in range(len(leaves))]
            runs = [self._run(inputs[d], outs[d], streams[d]) for d in range(len(leaves))]
            try:
                session.execute(runs)
            except RunError:
                if session.failed:
                    self._take(inputs)  # it may have begun
                raise
            self._take(inputs)
            for d, given in enumerate(inputs):
                for argument, value in zip(given, self.arguments):
                    if argument.is_foreign:
                        session.hold(d, argument.pointer, argument.owner, value.bytes)
        return [[Array(m, v) for m, v in zip(memories, self.results)] for memories in outs]

    @staticmethod
    def _take(inputs: list[list]) -> None:
        for argument in itertools.chain.from_iterable(inputs):
            argument.take()

    @staticmethod
    def _result_memory(session: Session, device: int, value: Value, inputs: list, stream: int) -> Memory:
        if value.alias >= 0 and inputs[value.alias].memory is not None:
            return inputs[value.alias].memory
        return Memory(session, device, value.bytes, stream)

    def _run(self, inputs: list, outs: list[Memory], stream: int) -> library.Run:
        size = ctypes.sizeof(library.Buffer)
        given = (library.Buffer * max(len(inputs), 1))(
            *[library.Buffer(size, p.pointer, v.bytes) for p, v in zip(inputs, self.arguments)])
        results = (library.Buffer * max(len(outs), 1))(
            *[library.Buffer(size, m.pointer, v.bytes) for m, v in zip(outs, self.results)])
        return library.Run(ctypes.sizeof(library.Run), stream or None, given, len(inputs), results, len(outs))

    # --- trees -----------------------------------------------------------------------------

    def _leaves(self, arguments: tuple, keywords: dict[str, Any]) -> list:
        if self._interface is None or not self._interface.arguments:
            return self._by_order(arguments, dict(self._paths(keywords.items())))
        names = self._interface.parameters
        if len(arguments) > len(names):
            raise RunError(f"{self.name} takes {len(names)} arguments ({', '.join(names)}), {len(arguments)} were given")
        given: dict[str, Any] = {}
        for path, leaf in self._paths([*zip(names, arguments), *keywords.items()]):
            if path in given:
                raise RunError(f"{self.name}: {path} was given twice")
            given[path] = leaf
        missing = [v for v in self.arguments if v.path not in given]
        if missing:
            raise RunError(f"{self.name}: no array was given for {_names(missing)}")
        wanted = {v.path for v in self.arguments}
        unknown = [path for path in given if path not in wanted]
        if unknown:
            raise RunError(f"{self.name} takes no {', '.join(unknown[:5])}, but {_names(self.arguments)}")
        return [given[v.path] for v in self.arguments]

    def _paths(self, named: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Key path and array of each array in arguments; lists of numbers are arrays where the program has one."""
        wanted = {v.path for v in self.arguments}
        out = []
        left = [(name + path, leaf) for name, argument in named for path, leaf in tree.flatten(argument, tree.is_numbers)]
        while left:
            path, leaf = left.pop()
            if path in wanted or not tree.is_numbers(leaf):
                out.append((path, leaf))
            else:
                left += [(f"{path}[{i}]", part) for i, part in enumerate(leaf)]
        return out[::-1]

    def _by_order(self, arguments: tuple, named: dict[str, Any]) -> list:
        """Arrays by the names of the parameters, the others by their order."""
        unknown = set(named) - {v.name for v in self.arguments}
        if unknown:
            raise RunError(f"{self.name} takes no {', '.join(sorted(unknown))}, but {_names(self.arguments)}")
        rest = [v for v in self.arguments if v.name not in named]
        leaves = [leaf for a in arguments for _, leaf in tree.flatten(a, tree.is_numbers)]
        if len(leaves) != len(rest) or any(tree.is_numbers(leaf) and not v.shape for v, leaf in zip(rest, leaves)):
            leaves = [leaf for _, leaf in tree.flatten(arguments)]
        if len(leaves) != len(rest):
            raise RunError(f"{self.name} takes {len(self.arguments)} arrays ({_names(self.arguments)}), "
                           f"{len(leaves) + len(named)} were given")
        left = iter(leaves)
        return [named[v.name] if v.name in named else next(left) for v in self.arguments]

    def _tree(self, leaves: list[Array]) -> Any:
        if self._interface is not None and self._interface.rebuild is not None:
            return self._interface.rebuild(leaves)
        if self._interface is not None:
            return tree.unflatten(list(self._interface.results), leaves) if leaves else ()
        return leaves[0] if len(leaves) == 1 else tuple(leaves)

    # --- files -----------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """The compiled file."""
        if isinstance(self._file.source, bytes):
            return self._file.source
        with open(self._file.path, "rb") as file:
            return file.read()

    def save(self, path: Union[str, os.PathLike], manifest: bool = True) -> None:
        """Writes the compiled file, and beside it, as PATH.json, the manifest: key paths of arguments and results, for
        `gxc.load` and `gxrun --manifest`."""
        _write(path, self.to_bytes())
        if manifest:
            _write(f"{os.fspath(path)}.json", (json.dumps(self.manifest(), indent=1) + "\n").encode())

    def manifest(self) -> dict:
        """Names, types and shapes of arguments and results."""
        def row(v: Value) -> dict:
            return {"path": v.path, "name": v.name, "dtype": v.dtype, "shape": list(v.shape)}
        interface = self._interface
        return {"gxc_manifest": 1, "module": self.name, "module_hash": self.module_hash,
                "parameters": list(interface.parameters) if interface else [],
                "arguments": [row(v) for v in self.arguments], "results": [row(v) for v in self.results]}

    def __repr__(self) -> str:
        given = ", ".join(map(str, self.arguments[:6])) + (", ..." if len(self.arguments) > 6 else "")
        made = ", ".join(map(str, self.results[:6])) + (", ..." if len(self.results) > 6 else "")
        return f"<gxc.Program {self.name}({given}) -> ({made}) for {', '.join(self.targets)}>"


def load(path: Union[str, os.PathLike], *, allow_native: bool = False,
         manifest: Union[str, os.PathLike, None] = None) -> Program:
    """Opens a compiled file. A manifest beside it (PATH.json), or the one given, says what a call looks like.

    On the emulator the file's kernels are machine code that runs in this process with all of its rights: that needs
    `allow_native=True`. Say so for files that you would run as programs.

    >>> gxc.compile("HloModule m ENTRY e { x = s32[2] parameter(0) ROOT y = s32[2] negate(x) }").save("negate.cubin")
    >>> negate = gxc.load("negate.cubin", allow_native=True)
    >>> negate
    <gxc.Program m(x s32[2]) -> (0 s32[2]) for sm_90a>
    >>> negate(np.int32([1, -2])).numpy()
    array([-1,  2], dtype=int32)
    """
    beside = manifest if manifest is not None else f"{os.fspath(path)}.json"
    program = Program(path, native=allow_native)
    if manifest is not None or os.path.exists(beside):
        read_manifest(program, beside)
    return program


def read_manifest(program: Program, path: Union[str, os.PathLike]) -> None:
    """Gives the program the interface that a manifest describes."""
    try:
        with open(path, encoding="utf-8") as file:
            m = json.load(file)
        if m["gxc_manifest"] != 1:
            raise FileError(f"{path}: a manifest of version {m['gxc_manifest']}, known is 1")
        arguments, results = m["arguments"], m["results"]
        same = [(a["name"], a["dtype"], tuple(a["shape"])) for a in arguments] == \
               [(v.name, v.dtype, v.shape) for v in program.arguments]
        same = same and [(r["dtype"], tuple(r["shape"])) for r in results] == \
            [(v.dtype, v.shape) for v in program.results]
        if not same or m["module_hash"] != program.module_hash:
            raise FileError(f"{path} describes another program ({m['module']}) than {program.name}")
        if not isinstance(m["parameters"], list):
            raise ValueError("parameters are a list")
        if not m["parameters"] and all(v["path"] == v["name"] for v in arguments + results):
            return  # of a text, which has no interface
        interface = Interface(tuple(map(str, m["parameters"])), tuple(str(a["path"]) for a in arguments),
                              tuple(str(r["path"]) for r in results))
        if results:
            tree.unflatten(list(interface.results), list(interface.results))  # a run that nothing can be made of is too late
    except FileError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError, RunError) as e:
        raise FileError(f"{path} is no manifest of gxc: {e!r}") from e
    program._interface = interface
    program.arguments = [v._replace(path=p) for v, p in zip(program.arguments, interface.arguments)]
    program.results = [v._replace(path=p) for v, p in zip(program.results, interface.results)]


def device_target(device: str = "auto") -> str:
    """The target for the GPU that programs would run on, "emu" where there is none."""
    out = ctypes.create_string_buffer(64)
    library.check_run(library.runtime().gxrt_device_target(device.encode(), out, len(out)))
    return out.value.decode()


def _names(values: list[Value]) -> str:
    return ", ".join(str(v) for v in values[:6]) + (f", ... ({len(values)})" if len(values) > 6 else "")


def _stream(stream: Any) -> int:
    """The address of a CUstream; 0 is the default one."""
    if stream is None:
        return 0
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    try:
        return operator.index(stream)
    except TypeError:
        raise TypeError(f"a stream is one of torch or cupy, or the address of a CUstream, not {stream!r}") from None


def _write(path: Union[str, os.PathLike], data: bytes) -> None:
    """The file is there whole or not at all."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise
