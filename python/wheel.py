#!/usr/bin/env python3
"""Writes the wheel of the package: wheel.py BUILD VERSION FOLDER. `make wheel` runs it.

A wheel is a zip file with a list of its contents. This one has no compiled extension: the package finds
libgxc, libgxrt and libgxemu in its folder `lib`, by ctypes, so one wheel is for every Python 3. The same files give
the same bytes."""
import base64
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import zipfile

LIBRARIES = ("libgxc.so", "libgxrt.so", "libgxemu.so", "gxc-cudnn", "libgxc-nodriver.so")
METADATA = """Metadata-Version: 2.1
Name: gxc
Version: {version}
Summary: Compiles HLO and StableHLO ahead of time for NVIDIA GPUs, and runs it
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: numpy>=1.24
Provides-Extra: cuda
Requires-Dist: nvidia-cuda-nvcc>=13.0; extra == "cuda"
Requires-Dist: nvidia-nvvm>=13.0; extra == "cuda"
Requires-Dist: nvidia-nvjitlink>=13.0; extra == "cuda"
Provides-Extra: jax
Requires-Dist: jax>=0.5; extra == "jax"
Description-Content-Type: text/markdown

"""


def stripped(path, folder):
    """Without symbols for debuggers, which are most of a library."""
    out = os.path.join(folder, os.path.basename(path))
    subprocess.run(["strip", "--strip-unneeded", "-o", out, path], check=True)
    with open(out, "rb") as file:
        return file.read()


def files(build, version, top):
    package = os.path.join(top, "python", "gxc")
    for name in sorted(os.listdir(package)):
        if name.endswith((".py", ".typed")):
            with open(os.path.join(package, name), "rb") as file:
                yield f"gxc/{name}", file.read(), 0o644
    with tempfile.TemporaryDirectory() as folder:
        for name in LIBRARIES:
            yield f"gxc/lib/{name}", stripped(os.path.join(build, name), folder), 0o755
    with open(os.path.join(top, "LICENSE"), encoding="utf-8") as file:
        license_text = file.read()
    with open(os.path.join(top, "README.md"), encoding="utf-8") as file:
        description = file.read()
    info = f"gxc-{version}.dist-info"
    yield f"{info}/METADATA", (METADATA.format(version=version) + description).encode(), 0o644
    tag = f"py3-none-linux_{platform.machine()}"
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: gxc\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644
    yield f"{info}/LICENSE", license_text.encode(), 0o644


def main(build, version, folder):
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"gxc-{version}-py3-none-linux_{platform.machine()}.whl")
    record = []
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as out:
        def add(name, data, mode):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
        for name, data, mode in files(build, version, top):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            add(name, data, mode)
        name = f"gxc-{version}.dist-info/RECORD"
        add(name, ("\n".join([*record, f"{name},,"]) + "\n").encode(), 0o644)
    os.replace(path + ".part", path)
    print(path)


main(*sys.argv[1:])
