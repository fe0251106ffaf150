"""libgxc and libgxrt by ctypes: the structs of gxc.h and gxrt.h, and their functions.

The libraries are looked for in GXC_LIBRARY_PATH, in the package (a wheel brings them along), in `build` of a
source tree around the package, then where the system looks. Each is loaded when it is first needed, so a
program that only runs compiled files never loads the compiler."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint32,
                    c_uint64, c_void_p)

from .errors import (CompileError, DeviceError, Error, FileError, InternalError, MissingLibraryError, NoMemoryError,
                     RunError, UnsupportedError)

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def folders() -> list[str]:
    """Where the libraries are looked for, before the system's folders."""
    given = os.environ.get("GXC_LIBRARY_PATH")
    top = os.path.dirname(os.path.dirname(_PACKAGE))
    return [*(given.split(os.pathsep) if given else []), os.path.join(_PACKAGE, "lib"), os.path.join(top, "build")]


def _load(name: str) -> ctypes.CDLL:
    for folder in folders():
        path = os.path.join(folder, f"lib{name}.so")
        if os.path.exists(path):
            return ctypes.CDLL(path)
    try:
        return ctypes.CDLL(ctypes.util.find_library(name) or f"lib{name}.so")
    except OSError as e:
        raise MissingLibraryError(f"lib{name}.so was not found in {', '.join(folders())} or on the system: build it "
                                  "with make, or install gxc's wheel") from e


# --- gxc.h ---------------------------------------------------------------------------------


class CompileOptions(Structure):
    """gxc_options"""
    _fields_ = [("struct_size", c_size_t), ("targets", POINTER(c_char_p)), ("target_count", c_size_t),
                ("opt_level", c_int), ("opt_level_set", c_int), ("emit", c_char_p), ("print", c_char_p),
                ("verify_only", c_int), ("replicas", c_int64), ("partitions", c_int64), ("jobs", c_int),
                ("passes", c_char_p), ("skip", c_char_p), ("print_after", c_char_p), ("dump_dir", c_char_p),
                ("libraries", c_char_p), ("tiles", c_char_p), ("assembler", c_char_p), ("cuda", c_char_p),
                ("cache_dir", c_char_p), ("embed_hlo", c_int), ("fp_contract_off", c_int),
                ("settings", POINTER(c_char_p)), ("setting_count", c_size_t), ("replay_dir", c_char_p),
                ("timing", c_int), ("colour", c_int), ("progress", c_void_p), ("progress_user", c_void_p),
                ("lint", c_int), ("report", c_int), ("rounding", c_uint32), ("rounding_tf32", c_int),
                ("f32_dots", c_char_p), ("module", c_char_p), ("tuning", c_char_p), ("require_tuning", c_int),
                ("line_info", c_int), ("embed_ptx", c_int), ("embed_tileir", c_int),
                ("max_assembler_seconds", c_uint32), ("max_unpacked_bytes", c_size_t)]


class CompiledArray(Structure):
    """gxc_array"""
    _fields_ = [("dtype", c_char_p), ("rank", c_uint32), ("dims", POINTER(c_int64)), ("data", c_void_p),
                ("bytes", c_size_t)]


_GXC_FUNCTIONS = {
    "gxc_compile": (c_int, [c_char_p, c_char_p, c_size_t, POINTER(CompileOptions), POINTER(c_void_p)]),
    "gxc_evaluate": (c_int, [c_char_p, c_char_p, c_size_t, POINTER(CompileOptions), c_size_t, c_size_t,
                             POINTER(CompiledArray), POINTER(c_void_p)]),
    "gxc_signature": (c_int, [c_char_p, c_char_p, c_size_t, POINTER(CompileOptions), POINTER(c_void_p)]),
    "gxc_result_bytes": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "gxc_result_diagnostics": (c_char_p, [c_void_p]),
    "gxc_result_report": (c_char_p, [c_void_p, c_char_p]),
    "gxc_result_output_count": (c_size_t, [c_void_p]),
    "gxc_result_parameter_count": (c_size_t, [c_void_p]),
    "gxc_result_device_count": (c_size_t, [c_void_p]),
    "gxc_result_output": (CompiledArray, [c_void_p, c_size_t, c_size_t]),
    "gxc_result_parameter": (CompiledArray, [c_void_p, c_size_t]),
    "gxc_result_destroy": (None, [c_void_p]),
    "gxc_list": (c_char_p, [c_char_p]),
}


@functools.cache
def compiler() -> ctypes.CDLL:
    """libgxc"""
    return _declare(_load("gxc"), _GXC_FUNCTIONS)


def check_compiled(status: int, diagnostics: str) -> None:
    """Raises what a gxc_status means."""
    kinds = {1: CompileError, 2: CompileError, 3: InternalError, 4: UnsupportedError, 5: NoMemoryError}
    if status:
        raise kinds.get(status, Error)(diagnostics.rstrip() or "no memory")


# --- gxrt.h --------------------------------------------------------------------------------


class ProgramInfo(Structure):
    """gxrt_program_info"""
    _fields_ = [("struct_size", c_size_t), ("module", c_char_p), ("gxc_version", c_char_p),
                ("argument_count", c_size_t), ("result_count", c_size_t), ("replicas", c_uint32),
                ("partitions", c_uint32), ("variant_count", c_size_t), ("module_hash", c_uint8 * 16),
                ("hlo", c_void_p), ("hlo_size", c_size_t), ("has_tf32", c_uint32)]


class ValueInfo(Structure):
    """gxrt_value_info"""
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("dtype", c_char_p), ("element_bits", c_uint32),
                ("rank", c_uint32), ("dims", POINTER(c_int64)), ("minor_to_major", POINTER(c_int64)),
                ("bytes", c_uint64), ("alignment", c_uint64), ("alias", c_int64), ("must_alias", c_int),
                ("size_of", c_int64), ("size_dimension", c_int64), ("donated", c_int)]


class VariantInfo(Structure):
    """gxrt_variant_info, as far as the package uses it"""
    _fields_ = [("struct_size", c_size_t), ("target", c_char_p), ("assembler", c_char_p),
                ("minimum_driver", c_uint32), ("has_emulator", c_int), ("constant_bytes", c_uint64),
                ("temp_bytes", c_uint64), ("workspace_bytes", c_uint64), ("peak_bytes", c_uint64),
                ("launch_count", c_size_t), ("copy_count", c_size_t), ("collective_count", c_size_t),
                ("host_syncs", c_uint32), ("host_bytes", c_uint64)]


LogFunction = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class SessionOptions(Structure):
    """gxrt_session_options, as far as the package uses it"""
    _fields_ = [("struct_size", c_size_t), ("device", c_char_p), ("devices", POINTER(c_int)),
                ("device_count", c_size_t), ("world", c_void_p), ("allocator", c_void_p), ("host_calls", c_void_p),
                ("host_call_count", c_size_t), ("log", LogFunction), ("log_user", c_void_p),
                ("library_path", c_char_p), ("exact_emulated_devices", c_int), ("replicas", c_uint32),
                ("timeout_seconds", c_double), ("streams", c_void_p), ("max_channels", c_uint32),
                ("allow_native", c_int)]


class SessionInfo(Structure):
    """gxrt_session_info"""
    _fields_ = [("struct_size", c_size_t), ("device_name", c_char_p), ("emulated", c_int), ("variant", c_size_t),
                ("device_count", c_size_t), ("first_device", c_uint32), ("first_ordinal", c_int)]


class Buffer(Structure):
    """gxrt_buffer"""
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p), ("bytes", c_uint64), ("dtype", c_char_p),
                ("dims", POINTER(c_int64)), ("rank", c_uint32)]


class Run(Structure):
    """gxrt_run"""
    _fields_ = [("struct_size", c_size_t), ("stream", c_void_p), ("arguments", POINTER(Buffer)),
                ("argument_count", c_size_t), ("results", POINTER(Buffer)), ("result_count", c_size_t)]


_GXRT_FUNCTIONS = {
    "gxrt_last_error": (c_char_p, []),
    "gxrt_version": (c_char_p, []),
    "gxrt_program_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "gxrt_program_open_memory": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "gxrt_program_destroy": (None, [c_void_p]),
    "gxrt_program_get_info": (c_int, [c_void_p, POINTER(ProgramInfo)]),
    "gxrt_program_get_argument": (c_int, [c_void_p, c_size_t, POINTER(ValueInfo)]),
    "gxrt_program_get_result": (c_int, [c_void_p, c_size_t, POINTER(ValueInfo)]),
    "gxrt_program_get_variant": (c_int, [c_void_p, c_size_t, POINTER(VariantInfo)]),
    "gxrt_device_target": (c_int, [c_char_p, c_char_p, c_size_t]),
    "gxrt_session_create": (c_int, [c_void_p, POINTER(SessionOptions), POINTER(c_void_p)]),
    "gxrt_session_destroy": (None, [c_void_p]),
    "gxrt_session_get_info": (c_int, [c_void_p, POINTER(SessionInfo)]),
    "gxrt_execute": (c_int, [c_void_p, c_size_t, POINTER(Run)]),
    "gxrt_allocate": (c_int, [c_void_p, c_size_t, c_size_t, POINTER(c_void_p)]),
    "gxrt_free": (None, [c_void_p, c_size_t, c_void_p]),
    "gxrt_copy_to_device": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_size_t]),
    "gxrt_copy_to_host": (c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_size_t]),
    "gxrt_synchronize": (c_int, [c_void_p, c_size_t]),
}


@functools.cache
def runtime() -> ctypes.CDLL:
    """libgxrt"""
    return _declare(_load("gxrt"), _GXRT_FUNCTIONS)


def check_run(status: int) -> None:
    """Raises what a gxrt_status means."""
    kinds = {2: FileError, 3: UnsupportedError, 4: MissingLibraryError, 5: DeviceError, 6: DeviceError, 7: DeviceError}
    if status:
        raise kinds.get(status, RunError)(runtime().gxrt_last_error().decode(errors="replace"))


def _declare(library: ctypes.CDLL, functions: dict) -> ctypes.CDLL:
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
