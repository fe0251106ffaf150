"""DLPack, the protocol by which libraries hand arrays to each other without a copy: reading the capsules of
others, and making capsules of device buffers."""

from __future__ import annotations

import ctypes
import gc
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64,
                    c_void_p, py_object, pythonapi)
from typing import Any, NamedTuple, Optional

from .errors import RunError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_READ_ONLY = 1  # of the flags of a versioned tensor


class Tensor(Structure):
    """DLTensor"""
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
                ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(Structure):
    """DLManagedTensor"""
    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class Versioned(Structure):
    """DLManagedTensorVersioned"""
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", Tensor)]


pythonapi.PyCapsule_GetPointer.restype = c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_IsValid.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_New.restype = py_object
pythonapi.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]


class View(NamedTuple):
    """An array of another library. Its memory lives as long as `owner`."""
    data: int
    device_type: int
    device_id: int
    code: int
    bits: int
    shape: tuple[int, ...]
    strides: Optional[tuple[int, ...]]  # in elements; None: row-major
    owner: Any


def view(array: Any, stream: Optional[int]) -> View:
    """What `array.__dlpack__()` hands over. Work on `stream` may begin when its producer's work is done."""
    device = array.__dlpack_device__()[0]
    arguments = {"stream": stream} if device in (CUDA, CUDA_MANAGED) else {}
    try:
        capsule = array.__dlpack__(max_version=(1, 1), **arguments)
    except TypeError:  # older than DLPack 1.0
        capsule = array.__dlpack__(**arguments)
    if pythonapi.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        pointer = pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        if Versioned.from_address(pointer).major > 1:  # its fields may lie elsewhere
            raise RunError(f"an array by DLPack {Versioned.from_address(pointer).major} was given; gxc reads 1 and older")
        tensor = Versioned.from_address(pointer).tensor
    else:
        pointer = pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
        tensor = Managed.from_address(pointer).tensor
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    if tensor.lanes != 1:
        raise RunError(f"an array of vectors of {tensor.lanes} elements was given: HLO has none")
    bits = tensor.bits
    # The capsule keeps its name, so it gives the tensor back when the last reference to it is gone.
    return View((tensor.data or 0) + tensor.byte_offset, tensor.device_type, tensor.device_id, tensor.code, bits,
                shape, strides, capsule)


# --- making capsules -----------------------------------------------------------------------

_exported: dict[int, tuple] = {}  # what capsules need, until their consumers are done
_capsules: dict[int, Any] = {}  # by the same address, until nobody else has them


@CFUNCTYPE(None, c_void_p)
def _delete(pointer: int) -> None:
    _exported.pop(pointer, None)


def _references(capsules: dict[int, Any], pointer: int) -> int:
    return sys.getrefcount(capsules[pointer])


_ALONE = _references({0: object()}, 0)


def sweep() -> None:
    """Gives back what capsules hold that are gone and that nobody consumed: a consumer changes the name. A destructor
    could not: a consumer that refuses a capsule drops it while its exception is set, which no function in Python outlives."""
    for pointer in list(_capsules):
        try:
            if _references(_capsules, pointer) > _ALONE:
                continue
            made = _capsules.pop(pointer)
        except KeyError:  # another thread was here
            continue
        entry = _exported.get(pointer)
        if entry is not None and pythonapi.PyCapsule_IsValid(made, entry[-1]):
            _exported.pop(pointer, None)


def _after_collection(phase: str, info: dict) -> None:
    if phase == "stop":
        sweep()


gc.callbacks.append(_after_collection)


def capsule(owner: Any, data: int, device: tuple[int, int], code: int, bits: int, shape: tuple[int, ...],
            strides: tuple[int, ...], versioned: bool) -> Any:
    """A capsule for memory that lives as long as `owner`."""
    n = len(shape)
    dims, steps = (c_int64 * max(n, 1))(*shape), (c_int64 * max(n, 1))(*strides)
    tensor = Tensor(data, device[0], device[1], n, code, bits, 1, ctypes.cast(dims, POINTER(c_int64)),
                    ctypes.cast(steps, POINTER(c_int64)), 0)
    deleter = ctypes.cast(_delete, c_void_p)
    managed = Versioned(1, 0, None, deleter, 0, tensor) if versioned else Managed(tensor, None, deleter)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    sweep()
    pointer = ctypes.addressof(managed)
    _exported[pointer] = (managed, dims, steps, owner, name)
    made = pythonapi.PyCapsule_New(pointer, _exported[pointer][-1], None)
    _capsules[pointer] = made
    return made
