# How lit runs the tests in this folder. Substitutions: %gxc %gxrun %build %root %inputs; %make,
# and %cc, which compiles and links a C program the way the libraries were built.
# %gxc checks after each pass what it kept (--lint).
# Features: shared (libgxc.so can be loaded into python: no sanitizer), jax (`make check-python` made its environment; %python is the package in it), gpu, cuda (ptxas and libdevice were found), nvtx (its headers were), headers (of the
# driver, cuBLASLt and NCCL), cudnn (9.10 or newer), cudnn-headers, tileir (CUDA Tile IR's
# assembler), nvdisasm (make check-sass fetches it), cute (make check-layouts fetches it), emu, asan, chromium (%chromium), fish, zsh.
import ctypes
import importlib.util
import os
import shutil
import sys

import lit.formats

build = lit_config.params.get("build") or os.path.join(os.path.dirname(__file__), "..", "build")
build = os.path.abspath(build)
root = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
sys.path.insert(0, os.path.join(root, "tests"))
from tensor_cores import find_nvdisasm

config.name = "gxc"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".hlo", ".mlir", ".test"]
config.excludes = ["unit", "Inputs", "inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(build, "tests", "lit")
san = lit_config.params.get("san") or ""
if importlib.util.find_spec("psutil"):  # lit cannot limit the time of a test without it
    lit_config.maxIndividualTestTime = int(os.environ.get("LIMIT", 300))  # of tests/run

sanitize = f" -fsanitize={san}" if san else ""
cc = os.environ.get("CC") or "gcc"
config.substitutions += [
    ("%make", f"make -s -C {root} B={build} SAN={san} CC='{cc}'"),
    ("%gxc", os.path.join(build, "gxc") + " --lint"),
    ("%gxrun", os.path.join(build, "gxrun")),
    ("%build", build),
    ("%root", root),
    ("%inputs", os.path.join(root, "tests", "inputs")),
    ("%cc", cc + sanitize),
]
for name in ("HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "GXEMU_SHADOW", "GXC_CASES", "LLVM_PROFILE_FILE", "GXC_MUTANT", "GXC_REACHED"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

if shutil.which("nvidia-smi") or os.path.exists("/dev/nvidiactl"):
    config.available_features.add("gpu")
if os.path.isdir(os.path.join(build, "cute")):
    config.available_features.add("cute")
if shutil.which("ptxas") or os.path.exists(os.path.join(build, "cuda", "bin", "ptxas")):
    config.available_features.add("cuda")
    config.substitutions.append(("%ptxas", shutil.which("ptxas") or os.path.join(build, "cuda", "bin", "ptxas")))
for folder in (os.path.join(build, "tileir", "bin"), os.path.dirname(os.path.realpath(shutil.which("ptxas") or build))):
    disassembler = os.path.join(folder, "tileirdisasm")
    if os.path.exists(disassembler) and os.path.exists(os.path.join(folder, "tileiras")):
        config.available_features.add("tileir")
        config.substitutions.append(("%tileirdisasm", disassembler))
        break
if find_nvdisasm(build) is not None:
    config.available_features.add("nvdisasm")
ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
headers = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(ptxas))), "include")
if os.path.exists(os.path.join(headers, "nvtx3", "nvToolsExtMem.h")):
    config.available_features.add("nvtx")
if all(os.path.exists(os.path.join(headers, h)) for h in ("cuda.h", "cublasLt.h", "nccl.h")):
    config.available_features.add("headers")
if os.path.exists(os.path.join(headers, "cudnn_graph.h")):
    config.available_features.add("cudnn-headers")
try:
    if ctypes.CDLL("libcudnn.so.9").cudnnGetVersion() >= 91000:
        config.available_features.add("cudnn")
except OSError:
    pass
config.substitutions.append(("%cuda-include", headers))
if not san:
    config.available_features.add("shared")
python = os.path.join(build, "python", "bin", "python")
if os.path.exists(python) and not san:
    config.available_features.add("jax")
if os.path.exists(os.path.join(build, "torch", "bin", "python")) and not san:  # made by make check-torch
    config.available_features.add("torch")
config.substitutions.insert(0, ("%python", f"env GXC_LIBRARY_PATH={build} PYTHONPATH={root}/python {python}"))
for shell in ("fish", "zsh"):
    if shutil.which(shell):
        config.available_features.add(shell)
chromium = shutil.which("chromium") or shutil.which("chromium-browser")
if chromium:
    config.available_features.add("chromium")
    config.substitutions.append(("%chromium", chromium))
if os.path.exists(os.path.join(build, "libgxemu.so")):
    config.available_features.add("emu")
if "address" in san:
    config.environment["LD_LIBRARY_PATH"] = build  # its dlopen does not see libgxrt's own run path
    config.available_features.add("asan")
