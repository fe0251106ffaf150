"""gxc: compiles HLO and StableHLO ahead of time for NVIDIA GPUs, and runs what it compiled.

    import gxc
    program = gxc.compile(f, x)            # a function for JAX, or text, bytes, a file
    program.save("f.cubin")                # with a manifest, f.cubin.json, beside it
    y = gxc.load("f.cubin", allow_native=True)(x)   # needs neither JAX nor the compiler

`gxc.jit` is like jax.jit. Arrays come and go by DLPack. Without a GPU programs run on the
emulator, those of files only if `allow_native` is set.
"""

from . import errors
from .array import Array, Value
from .compiler import compile
from .errors import (CompileError, DeviceError, Error, FileError, GxcWarning, InternalError, MissingLibraryError,
                     NoMemoryError, RunError, UnsupportedError)
from .from_jax import jit
from .library import runtime as _runtime
from .program import Program, device_target, load
from .pytorch import from_torch

__all__ = ["Array", "CompileError", "DeviceError", "Error", "FileError", "GxcWarning", "InternalError",
           "MissingLibraryError", "NoMemoryError", "Program", "RunError", "UnsupportedError", "Value", "compile", "device_target",
           "errors", "from_torch", "jit", "load", "version"]


def version() -> str:
    """Of libgxrt."""
    return _runtime().gxrt_version().decode()
