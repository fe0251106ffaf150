"""Arrays in the memory of a device, and how arrays of other libraries get there.

An Array is what a program gives. Other libraries take it by DLPack without a copy (torch.from_dlpack,
jax.dlpack.from_dlpack, numpy.from_dlpack where it lies in memory of the host, as on the emulator), and a
program takes it without one. Arrays of the host are copied to the device; arrays of other libraries that lie
on the device already are used where they are."""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np

from . import dlpack, dtypes
from .errors import RunError

if TYPE_CHECKING:
    from .session import Session


def shape_text(dtype: Any, shape: tuple[int, ...]) -> str:
    """As HLO writes it: f32[2,3]."""
    return f"{dtype}[{','.join(map(str, shape))}]"


class Value(NamedTuple):
    """An argument or a result of a program."""
    name: str                        # of the parameter; of results the index, "0" or "1.2"
    path: str                        # JAX's key path where it is known, else the name
    dtype: str                       # HLO's name: "f32"
    shape: tuple[int, ...]
    minor_to_major: tuple[int, ...]  # dimensions, the fastest varying one first
    bytes: int                       # of the device buffer
    alignment: int
    alias: int                       # argument: the result that may take its buffer; result: the argument; or -1
    must_alias: bool
    donated: bool                    # argument: a run overwrites it

    def __str__(self) -> str:
        return f"{self.path} {shape_text(self.dtype, self.shape)}".lstrip()

    def strides(self) -> tuple[int, ...]:
        """Of the device buffer, in elements."""
        strides, step = [0] * len(self.shape), 1
        for dimension in self.minor_to_major:
            strides[dimension] = step
            step *= self.shape[dimension]
        return tuple(strides)

    def major_to_minor(self) -> tuple[int, ...]:
        return tuple(reversed(self.minor_to_major))


class Memory:
    """Device memory that is given back when nothing refers to it."""

    def __init__(self, session: Session, device: int, size: int, stream: int):
        self.session, self.device, self.size, self.stream = session, device, size, stream
        self.pointer = session.take(device, size, stream)
        self._finalizer = weakref.finalize(self, session.put_back, device, size, stream, self.pointer)
        self._lease: Optional[weakref.ref] = None
        self._is_spread = False  # streams other than its own have used it

    def export(self) -> Lease:
        """What others hold as long as they use it. They may do so on streams of theirs: it is not used again before
        the device has come to rest; and until the process has ended, later than finalizers run."""
        if self._finalizer.detach():
            self._finalizer = weakref.finalize(self, self.session.free, self.device, self.pointer)
            self._finalizer.atexit = False
            self.session.stay()
            self._is_spread = True
        lease = self._lease() if self._lease is not None else None
        if lease is None:
            lease = Lease(self)
            self._lease = weakref.ref(lease)
        return lease

    def use_on(self, stream: int) -> None:
        """Work on another stream than its own uses it: it is not used again on its own one before that is done, but
        given back, for which the device comes to rest."""
        if stream != self.stream and self._finalizer.alive and not self._is_spread:
            self._is_spread = True
            self._finalizer.detach()
            self._finalizer = weakref.finalize(self, self.session.free, self.device, self.pointer)

    @property
    def is_shared(self) -> bool:
        """Whether others see it: then it is not overwritten."""
        dlpack.sweep()
        return self._lease is not None and self._lease() is not None


class Lease:
    """Keeps memory for those who use it, as long as one of them does."""

    def __init__(self, memory: Memory):
        self.memory = memory


class Array:
    """An array on a device: what a program gives, and may be given to one again without a copy.

    >>> twice = gxc.jit(lambda x: x + x)
    >>> y = twice(np.float32([1, 2]))
    >>> y.shape, y.dtype, twice(y).numpy()
    ((2,), dtype('float32'), array([4., 8.], dtype=float32))

    Others take it without a copy; the memory lives as long as any of them:

    >>> np.from_dlpack(y), jax.dlpack.from_dlpack(y)
    (array([2., 4.], dtype=float32), Array([2., 4.], dtype=float32))
    """

    def __init__(self, memory: Memory, value: Value):
        self._memory: Optional[Memory] = memory
        self._value = value
        self._dtype = dtypes.find(value.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape

    @property
    def ndim(self) -> int:
        return len(self._value.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self._value.shape, dtype=np.int64))

    @property
    def dtype(self) -> np.dtype:
        return dtypes.host_type(self._value.dtype)

    @property
    def is_donated(self) -> bool:
        """Whether a program has taken the memory; the array can be used no more."""
        return self._memory is None

    def block_until_ready(self) -> Array:
        """Waits until it has been computed."""
        memory = self._live()
        memory.session.synchronize(memory.device)
        return self

    def numpy(self) -> np.ndarray:
        """Its elements: a copy from a GPU, on the emulator the memory itself where types and layouts allow."""
        memory = self.block_until_ready()._live()
        size = max(self._value.bytes, 1)
        if memory.session.emulated:
            piece = (ctypes.c_uint8 * size).from_address(memory.pointer or 0) if memory.pointer else bytearray(size)
            if memory.pointer:
                piece._gxc_lease = memory.export()  # the view keeps it
            raw = np.frombuffer(piece, np.uint8)
        else:
            raw = np.empty(size, np.uint8)
            memory.session.copy_to_host(memory.device, raw.ctypes.data, memory.pointer, self._value.bytes)
        return self._elements(raw[:self._value.bytes])

    def _elements(self, raw: np.ndarray) -> np.ndarray:
        order = self._value.major_to_minor()
        if self._dtype.bits < 8:
            flat = dtypes.unpack(raw, self._dtype, self.size)
        else:
            flat = raw.view(self.dtype)
        return flat.reshape([self.shape[d] for d in order]).transpose(np.argsort(order))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        array = self.numpy()
        casts = dtype is not None and np.dtype(dtype) != array.dtype
        if copy is False and (casts or self._dtype.bits < 8 or not self._live().session.emulated):
            raise ValueError("these elements of a gxc.Array cannot be had without a copy")
        if copy or casts:
            return array.astype(dtype or array.dtype)
        return array

    def __dlpack_device__(self) -> tuple[int, int]:
        session = self._live().session
        return (dlpack.CPU, 0) if session.emulated else (dlpack.CUDA, session.ordinal(self._live().device))

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[tuple[int, int]] = None,
                   dl_device: Optional[tuple[int, int]] = None, copy: Optional[bool] = None) -> Any:
        here = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != here):
            raise BufferError("gxc hands out arrays where they are, without a copy: use numpy() for one on the host")
        if self._dtype.bits < 8:
            raise BufferError(f"{self._dtype.name} is packed on the device; use numpy()")
        memory = self.block_until_ready()._live()
        return dlpack.capsule(memory.export(), memory.pointer, here, self._dtype.code, self._dtype.bits, self.shape,
                              self._value.strides(), bool(max_version and max_version[0] >= 1))

    def __copy__(self) -> Array:
        """In memory of its own: a donation of one is none of the other."""
        have = self.block_until_ready()._live()
        made = Memory(have.session, have.device, self._value.bytes, have.stream)
        with have.session.lock:
            have.session.copy(have.device, made.pointer, have.pointer, self._value.bytes)
        return Array(made, self._value)

    def __deepcopy__(self, memo: dict) -> Array:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError("a gxc.Array is memory of a device, which cannot be pickled: pickle its numpy()")

    def __repr__(self) -> str:
        where = "donated" if self._memory is None else self._memory.session.device_name
        return f"gxc.Array({shape_text(self._value.dtype, self.shape)}, {where})"

    def __float__(self) -> float:
        return float(self._numbers())

    def __int__(self) -> int:
        return int(self._numbers())

    def __bool__(self) -> bool:
        return bool(self._numbers())

    def _numbers(self) -> np.ndarray:
        dtypes.need_numbers(self._value.dtype)
        return self.numpy()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.numpy())

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def _live(self) -> Memory:
        if self._memory is None:
            raise RunError(f"the array {self._value} was donated to a program: its memory holds something else now")
        return self._memory


# --- arguments -----------------------------------------------------------------------------


class Argument(NamedTuple):
    """An argument where the program can read it."""
    pointer: int
    owner: Any                # keeps the memory
    memory: Optional[Memory]  # where the program may overwrite it: a copy of ours, or that of a donated array
    donor: Optional[Array] = None  # can be used no more when the program runs
    is_foreign: bool = False  # memory of another library

    def take(self) -> None:
        if self.donor is not None:
            self.donor._memory = None


def put(session: Session, device: int, value: Value, given: Any, stream: int, donate: bool) -> Argument:
    """Makes `given` an argument on a device."""
    refuse_traced(given)
    overwritten = value.donated or value.must_alias
    if is_key(given):
        given = sys.modules["jax"].random.key_data(given)
    if isinstance(given, Array) and given._memory is not None and session.reaches(device, given._memory):
        return _put_array(session, device, value, given, stream, donate)
    if hasattr(given, "__dlpack_device__") and not isinstance(given, Array):
        kind = given.__dlpack_device__()
        if kind[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED) and not session.emulated:
            if overwritten and not donate:
                raise RunError(f"{value}: the program overwrites this argument: call it with donate=True, or with a copy")
            return _put_view(session, device, value, given, kind, stream)
    if isinstance(given, Array):
        given = given.numpy()
    memory = Memory(session, device, value.bytes, stream)
    _copy_in(memory, value, host_array(given, value))
    return Argument(memory.pointer, memory, memory)


def _put_array(session: Session, device: int, value: Value, given: Array, stream: int, donate: bool) -> Argument:
    memory = given._live()
    have = given._value
    if (have.dtype, have.shape) != (value.dtype, value.shape):
        raise RunError(f"an array of {shape_text(have.dtype, have.shape)} was given for {value}")
    if have.minor_to_major != value.minor_to_major:
        copy = Memory(session, device, value.bytes, stream)
        _copy_in(copy, value, given.numpy())
        return Argument(copy.pointer, copy, copy)
    memory.use_on(stream)
    donor = given if donate and (value.alias >= 0 or value.donated) else None
    if donor is not None and not memory.is_shared:
        return Argument(memory.pointer, memory, memory, donor)
    if value.donated or value.must_alias:
        copy = Memory(session, device, value.bytes, stream)
        session.copy(device, copy.pointer, memory.pointer, value.bytes)
        return Argument(copy.pointer, copy, copy, donor)
    return Argument(memory.pointer, memory, None, donor)


def _put_view(session: Session, device: int, value: Value, given: Any, kind: tuple, stream: int) -> Argument:
    if kind[1] != session.ordinal(device):
        raise RunError(f"{value}: the array is on GPU {kind[1]}, the program runs on GPU {session.ordinal(device)}")
    view = dlpack.view(given, stream or 1)
    d = dtypes.of_dlpack(view.code, view.bits)
    if d is None or d.name != value.dtype or view.shape != value.shape:
        raise RunError(f"an array of {shape_text(d.name if d else 'another type', view.shape)} was given for {value}")
    wanted = value.strides()
    row_major = value._replace(minor_to_major=tuple(reversed(range(len(value.shape)))))
    strides = view.strides if view.strides is not None else row_major.strides()
    if any(n > 1 and have != want for n, have, want in zip(value.shape, strides, wanted)):
        raise RunError(f"{value}: the array has strides {strides}, the program wants {wanted}: make it contiguous")
    if view.data % max(value.alignment, 1):
        raise RunError(f"{value}: the array lies at {view.data:#x}, the program wants a multiple of {value.alignment}")
    if value.must_alias:  # the result has to be memory of ours
        copy = Memory(session, device, value.bytes, stream)
        session.copy(device, copy.pointer, view.data, value.bytes)
        return Argument(copy.pointer, copy, copy)
    return Argument(view.data, view.owner, None, is_foreign=True)


def _copy_in(memory: Memory, value: Value, array: np.ndarray) -> None:
    d = dtypes.find(value.dtype)
    dense = np.ascontiguousarray(array.transpose(value.major_to_minor()))
    if d.bits < 8:
        dense = dtypes.pack(dense, d.bits)
    if dense.nbytes:
        memory.session.copy_to_device(memory.device, memory.pointer, dense.ctypes.data, dense.nbytes)


def host_array(given: Any, value: Value) -> np.ndarray:
    """`given` as an array of numpy of the value's type and shape."""
    wanted, raw = dtypes.host_type(value.dtype), np.dtype(dtypes.find(value.dtype).raw)
    if isinstance(given, (bool, int, float, complex, list, tuple)):
        array = _from_numbers(given, value, wanted)
    else:
        array = foreign(given)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype == raw:
        _check_bits(array, value)
        array = array.view(wanted)
    if array.dtype != wanted or array.shape != value.shape:
        have = dtypes.of_numpy(array.dtype)
        raise RunError(f"an array of {shape_text(have.name if have else array.dtype, array.shape)} was given for {value}")
    return array


def _check_bits(raw: np.ndarray, value: Value) -> None:
    """Raw bits of a type that is narrower than what holds them."""
    d = dtypes.find(value.dtype)
    least, end = d.range() if d.is_integer else (0, 1 << d.bits)
    wrong = np.flatnonzero((raw < least) | (raw >= end)) if d.bits < 8 else ()
    if len(wrong):
        raise RunError(f"element {wrong[0]} is {raw.reshape(-1)[wrong[0]]}: no value of {d.name} (for {value})")


def _from_numbers(given: Any, value: Value, wanted: np.dtype) -> np.ndarray:
    try:
        d = dtypes.find(value.dtype)
        array = np.asarray(given)
        if d.is_integer and array.dtype.kind == "f":
            array = np.asarray(given, object)  # NumPy has rounded integers beside others
        elif not d.is_integer and array.dtype.kind == "O" and all(isinstance(number, int) for number in array.flat):
            array = array.astype(np.float64)  # NumPy has no integers beyond 64 bits
        fits = _has_values(d, array)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if fits:
        dtypes.need_numbers(value.dtype)
        return array.astype(wanted)
    raise RunError(f"{given!r} was given for {value}: it has no such values")


def _has_values(d: dtypes.DType, numbers: np.ndarray) -> bool:
    """Whether a type has such numbers, those of floating-point types rounded."""
    if numbers.dtype.kind == "c":
        return d.is_complex
    if not d.is_integer:
        return numbers.dtype.kind in "biuf"
    if numbers.dtype.kind == "b":
        return True
    least, end = d.range()
    if numbers.dtype.kind == "O":
        return all(least <= number < end and number % 1 == 0 for number in numbers.flat)
    with np.errstate(invalid="ignore"):
        return numbers.dtype.kind in "biuf" and bool(np.all((numbers >= least) & (numbers < end) & (numbers % 1 == 0)))


def is_key(given: Any) -> bool:
    """Whether it is an array of keys of jax.random: for a program one of numbers."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(given, jax.Array) and jax.dtypes.issubdtype(given.dtype, jax.dtypes.prng_key)


def refuse_traced(given: Any) -> None:
    """What a transformation of JAX puts in place of an array has no elements yet."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(given, jax.core.Tracer):
        raise TypeError("jax.jit, jax.grad and their like cannot trace what gxc runs: apply them within the function that gxc "
                        f"compiles; found {type(given).__name__}")


def is_on_host(given: Any) -> bool:
    return not hasattr(given, "__dlpack_device__") or given.__dlpack_device__()[0] in (dlpack.CPU, dlpack.CUDA_HOST)


def foreign(given: Any) -> np.ndarray:
    """An array of any library as one of numpy, without a copy where it is in memory of the host."""
    if isinstance(given, (np.ndarray, np.generic)):
        return np.asarray(given)
    if hasattr(given, "__dlpack__") and is_on_host(given):
        if getattr(given, "requires_grad", False):
            given = given.detach()
        try:
            view = dlpack.view(given, None)
        except Exception:  # a type that the library does not hand out so: int4 of JAX
            view = None
        d = dtypes.of_dlpack(view.code, view.bits) if view is not None else None
        if d is not None and d.bits >= 8:
            return _strided(view, d)
    try:
        return np.asarray(given)
    except Exception as e:
        raise RunError(f"a {type(given).__name__} is no array that gxc can read: {e}") from e


def _strided(view: dlpack.View, d: dtypes.DType) -> np.ndarray:
    size = d.bits // 8
    elements = int(np.prod(view.shape, dtype=np.int64))
    if elements == 0:
        return np.empty(view.shape, dtypes.host_type(d.name))
    strides = view.strides
    if strides is None:
        strides = tuple(int(np.prod(view.shape[i + 1:], dtype=np.int64)) for i in range(len(view.shape)))
    if any(s < 0 for s in strides):
        raise RunError("an array with negative strides was given: make a copy of it")
    reach = 1 + sum((n - 1) * s for n, s in zip(view.shape, strides))
    piece = (ctypes.c_uint8 * (reach * size)).from_address(view.data)
    piece._gxc_owner = view.owner  # the array keeps its producer's
    flat = np.frombuffer(piece, np.dtype(d.raw)).view(dtypes.host_type(d.name))
    return np.lib.stride_tricks.as_strided(flat, view.shape, [s * size for s in strides])
