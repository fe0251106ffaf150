"""A program on its devices: libgxrt's session, with memory that is used again."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Optional

from . import library
from .errors import GxcWarning, RunError

if TYPE_CHECKING:
    from .array import Memory

_FATAL = (7, 8)  # GXRT_DEVICE_FAILED, GXRT_WORLD_FAILED


def _destroy(runtime: ctypes.CDLL, handle: ctypes.c_void_p, kept: dict, needed: Any) -> None:
    for (device, _, _), pointers in kept.items():
        for pointer in pointers:
            runtime.gxrt_free(handle, device, ctypes.c_void_p(pointer))
    runtime.gxrt_session_destroy(handle)
    del needed  # the file, and what its runs read, had to be there until now


@library.LogFunction
def _log(user: Any, level: int, text: bytes) -> None:
    if level:
        warnings.warn(text.decode(errors="replace"), GxcWarning, stacklevel=2)


class Session:
    """Memory of a session is kept for later runs on the same stream, so that a loop allocates once."""

    def __init__(self, file: Any, device: str, allow_native: bool, replicas: int, ordinals: Optional[list[int]],
                 keep_bytes: int):
        if any(not 0 <= ordinal < 1 << 31 for ordinal in ordinals or ()):
            raise RunError(f"CUDA's devices are 0, 1, 2, ...; found {ordinals}")
        self.failed = False  # nothing can be done with it any more
        self.lock = threading.RLock()
        self._handle = ctypes.c_void_p()
        self._free: dict[tuple[int, int, int], list[int]] = {}
        self._kept, self._keep_bytes = 0, keep_bytes
        self._read: dict[int, dict[int, Any]] = {}  # by device and address: owner
        self._read_bytes: dict[int, int] = {}       # by device
        folder = next((f for f in library.folders()), None)
        chosen = (ctypes.c_int * len(ordinals))(*ordinals) if ordinals else None
        options = library.SessionOptions(
            struct_size=ctypes.sizeof(library.SessionOptions), device=device.encode(), devices=chosen,
            device_count=len(ordinals or ()), log=_log,
            library_path=os.fsencode(folder) if folder else None, replicas=replicas, allow_native=int(allow_native))
        library.check_run(self._runtime.gxrt_session_create(file.handle, options, self._handle))
        self._finalizer = weakref.finalize(self, _destroy, self._runtime, self._handle, self._free,
                                           (file, self._read))
        info = library.SessionInfo(struct_size=ctypes.sizeof(library.SessionInfo))
        library.check_run(self._runtime.gxrt_session_get_info(self._handle, info))
        self.emulated = bool(info.emulated)
        self.device_name = info.device_name.decode()
        self.device_count = info.device_count
        self.variant = info.variant
        self._ordinals = ordinals or list(range(info.first_ordinal, info.first_ordinal + info.device_count))

    @property
    def _runtime(self) -> ctypes.CDLL:
        return library.runtime()

    def ordinal(self, device: int) -> int:
        """CUDA's number of a device."""
        return self._ordinals[device]

    def reaches(self, device: int, memory: Memory) -> bool:
        """Whether a device can use memory, perhaps of another session, as it is."""
        other = memory.session
        return self.emulated == other.emulated and self.ordinal(device) == other.ordinal(memory.device)

    def stay(self) -> None:
        """Its memory is there until the process has ended, later than finalizers run."""
        self._finalizer.atexit = False

    def _check(self, status: int) -> None:
        self.failed |= status in _FATAL
        library.check_run(status)

    def execute(self, runs: list[library.Run]) -> None:
        array = (library.Run * len(runs))(*runs)
        self._check(self._runtime.gxrt_execute(self._handle, len(runs), array))

    def synchronize(self, device: int) -> None:
        with self.lock:
            done = self._read.pop(device, None)
            self._read_bytes.pop(device, None)
        self._check(self._runtime.gxrt_synchronize(self._handle, device))
        del done

    def hold(self, device: int, address: int, owner: Any, size: int) -> None:
        """Another library's memory, which what was queued reads, is its owner's until the device is through with it."""
        with self.lock:
            held = self._read.setdefault(device, {})
            if address not in held:
                held[address] = owner
                self._read_bytes[device] = self._read_bytes.get(device, 0) + max(size, 512)  # allocators' least
            many = self._read_bytes[device] > self._keep_bytes
        if many:
            self.synchronize(device)

    # --- memory ----------------------------------------------------------------------------

    def take(self, device: int, size: int, stream: int) -> int:
        with self.lock:
            kept = self._free.get((device, size, stream))
            if kept:
                self._kept -= size
                return kept.pop()
        out = ctypes.c_void_p()
        self._check(self._runtime.gxrt_allocate(self._handle, device, size, out))
        return out.value or 0

    def put_back(self, device: int, size: int, stream: int, pointer: int) -> None:
        with self.lock:
            if self._finalizer.alive and self._kept + size <= self._keep_bytes:
                self._free.setdefault((device, size, stream), []).append(pointer)
                self._kept += size
                return
        self.free(device, pointer)

    def free(self, device: int, pointer: int) -> None:
        if self._finalizer.alive and pointer:
            self._runtime.gxrt_free(self._handle, device, ctypes.c_void_p(pointer))

    def copy_to_device(self, device: int, to: int, source: int, size: int) -> None:
        self._check(self._runtime.gxrt_copy_to_device(self._handle, device, to, source, size))

    def copy_to_host(self, device: int, to: int, source: int, size: int) -> None:
        if size:
            self._check(self._runtime.gxrt_copy_to_host(self._handle, device, to, source, size))

    def copy(self, device: int, to: int, source: int, size: int) -> None:
        """From buffer to buffer, by way of the host."""
        self.synchronize(device)
        between = ctypes.create_string_buffer(max(size, 1))
        self.copy_to_host(device, ctypes.addressof(between), source, size)
        if size:
            self.copy_to_device(device, to, ctypes.addressof(between), size)
