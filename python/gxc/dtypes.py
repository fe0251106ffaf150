"""Element types: HLO's names, numpy's types and DLPack's codes.

On the host an element has one storage unit: types that numpy lacks are those of ml_dtypes where that is
installed, else their raw bits. On the device types below 8 bits are packed, the first element lowest."""

from __future__ import annotations

import functools
from typing import NamedTuple, Optional

import numpy as np

from .errors import RunError


class DType(NamedTuple):
    """One row: what an element type is called."""
    name: str          # HLO's
    bits: int          # in a buffer of the device
    numpy: str         # numpy's name, or that of ml_dtypes
    raw: str           # numpy's type of the same size
    code: int          # DLPack's

    @property
    def is_integer(self) -> bool:
        return self.code in (0, 1, 6)

    @property
    def is_complex(self) -> bool:
        return self.code == 5

    def range(self) -> tuple[int, int]:
        """The least value of an integer type, and what comes after the greatest."""
        bits = 1 if self.code == 6 else self.bits
        return (-(1 << (bits - 1)), 1 << (bits - 1)) if self.code == 0 else (0, 1 << bits)


_ROWS = [
    DType("pred", 8, "bool", "bool", 6),
    DType("s2", 2, "int2", "int8", 0), DType("s4", 4, "int4", "int8", 0),
    DType("s8", 8, "int8", "int8", 0), DType("s16", 16, "int16", "int16", 0),
    DType("s32", 32, "int32", "int32", 0), DType("s64", 64, "int64", "int64", 0),
    DType("u2", 2, "uint2", "uint8", 1), DType("u4", 4, "uint4", "uint8", 1),
    DType("u8", 8, "uint8", "uint8", 1), DType("u16", 16, "uint16", "uint16", 1),
    DType("u32", 32, "uint32", "uint32", 1), DType("u64", 64, "uint64", "uint64", 1),
    DType("f16", 16, "float16", "float16", 2), DType("f32", 32, "float32", "float32", 2),
    DType("f64", 64, "float64", "float64", 2), DType("bf16", 16, "bfloat16", "uint16", 4),
    DType("c64", 64, "complex64", "complex64", 5), DType("c128", 128, "complex128", "complex128", 5),
    DType("f8e3m4", 8, "float8_e3m4", "uint8", 7), DType("f8e4m3", 8, "float8_e4m3", "uint8", 8),
    DType("f8e4m3b11fnuz", 8, "float8_e4m3b11fnuz", "uint8", 9),
    DType("f8e4m3fn", 8, "float8_e4m3fn", "uint8", 10),
    DType("f8e4m3fnuz", 8, "float8_e4m3fnuz", "uint8", 11), DType("f8e5m2", 8, "float8_e5m2", "uint8", 12),
    DType("f8e5m2fnuz", 8, "float8_e5m2fnuz", "uint8", 13),
    DType("f8e8m0fnu", 8, "float8_e8m0fnu", "uint8", 14),
    DType("f4e2m1fn", 4, "float4_e2m1fn", "uint8", 17),
]
BY_NAME = {d.name: d for d in _ROWS}
_BY_NUMPY = {d.numpy: d for d in _ROWS}


@functools.cache
def host_type(name: str) -> np.dtype:
    """The numpy type that holds one element of HLO's type `name`."""
    d = find(name)
    if d.numpy == d.raw:
        return np.dtype(d.raw)
    try:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, d.numpy))
    except (ImportError, AttributeError):
        return np.dtype(d.raw)


def need_numbers(name: str) -> None:
    """Refuses what only has raw bits here."""
    d = find(name)
    if host_type(name) == np.dtype(d.raw) and d.numpy != d.raw and not d.is_integer:
        raise RunError(f"numbers of {name} need the package ml_dtypes, which is not installed; without it an array of {d.raw} "
                       "has their bits")


def find(name: str) -> DType:
    """The row of HLO's type `name`."""
    if name not in BY_NAME:
        raise RunError(f"{name} is not an element type that Python can hold")
    return BY_NAME[name]


def of_numpy(dtype: np.dtype) -> Optional[DType]:
    """The row of a numpy type; None if HLO has no such type."""
    return _BY_NUMPY.get(np.dtype(dtype).name)


def of_dlpack(code: int, bits: int) -> Optional[DType]:
    """The row of DLPack's code and width; None if HLO has no such type."""
    return next((d for d in _ROWS if d.code == code and d.bits == bits), None)


def pack(values: np.ndarray, bits: int) -> np.ndarray:
    """Elements below 8 bits, one a byte, as the device has them."""
    per = 8 // bits
    flat = values.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per, np.uint8)]).reshape(-1, per)
    return np.bitwise_or.reduce(flat << (np.arange(per, dtype=np.uint8) * bits), axis=1).astype(np.uint8)


def unpack(packed: np.ndarray, d: DType, count: int) -> np.ndarray:
    """The other way; elements are sign-extended where the type has a sign."""
    per = 8 // d.bits
    shifts = np.arange(per, dtype=np.uint8) * d.bits
    flat = ((packed[:, None] >> shifts) & ((1 << d.bits) - 1)).reshape(-1)[:count].astype(np.uint8)
    if d.code == 0:  # signed
        sign = np.uint8(1 << (d.bits - 1))
        flat = ((flat ^ sign) - sign).astype(np.uint8)
    return flat.view(host_type(d.name))
