"""What SASS says of products: tensor-core instructions of each program, and bytes that threads spill.

    tensor_cores.py BUILD FOLDER|FILE... [--targets sm_80,sm_90a] [--only A,B] [--rates bf16,s8] [--without A,B]
                    [--twice] [-- OPTION...]

Each program is compiled for each target without libraries, with the OPTIONs of gxc, and all of its file is read: the
kernels of ptxas and those of CUDA Tile IR beside them. A row says how many kernels it has, which instructions multiply
matrices and how many of them, how many tiles are loaded by TMA, what is stored to and loaded from local memory, and how many kernels are by Tile IR.
Exit 1 if a program has no such instruction, or spills, or if the assembler says that a kernel loses time (wgmma that
is serialized), or if it cannot be compiled. A folder with a kernels.json, a rate for
each program, may be read in part: --rates. --without: programs that multiply no matrices. --twice: compiled again
with one thread, the file must be the same.
"""
import argparse
import collections
import glob
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")
TENSOR = re.compile(r"(UTC)?[A-Z]*MMA$")
TMA = "UTMALDG"
BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
ALIGNMENT = 256  # of an image in .gxc.images


def sections(data, at=0):
    """Name, offset in `data` and size of each section of the ELF there."""
    offset, = struct.unpack_from("<Q", data, at + 40)
    entry, count, names = struct.unpack_from("<HHH", data, at + 58)
    heads = [struct.unpack_from("<IIQQQQ", data, at + offset + i * entry) for i in range(count)]
    for name, kind, _, _, start, size in heads:
        begin = at + heads[names][4] + name
        yield data[begin:data.index(b"\0", begin)].decode(), at + start, 0 if kind == 8 else size


def elf_end(data, at):
    """Behind its sections and both tables of headers."""
    segments, offset = struct.unpack_from("<QQ", data, at + 32)
    segment, segment_count, entry, count = struct.unpack_from("<HHHH", data, at + 54)
    tables = [at + segments + segment * segment_count, at + offset + entry * count]
    return max(tables + [start + size for _, start, size in sections(data, at)])


def codes(data):
    """The ELF of gxc, and those in it that CUDA Tile IR made."""
    yield data
    for name, at, size in sections(data):
        end = at + size
        while name == ".gxc.images" and at < end:
            if data[at:at + 4] != b"\x7fELF":
                break
            stop = elf_end(data, at)
            yield data[at:stop]
            at += -(-(stop - at) // ALIGNMENT) * ALIGNMENT


class Count:
    def __init__(self):
        self.kernels = self.images = self.spilled = self.tma = 0
        self.tensor = collections.Counter()

    def add(self, text):
        for opcode in INSTRUCTION.findall(text):
            name, *rest = opcode.split(".")
            if TENSOR.match(name):
                self.tensor[name] += 1
            elif name == TMA:
                self.tma += 1
            elif name in ("STL", "LDL"):
                self.spilled += next((BYTES[r] for r in rest if r in BYTES), 4)


def count(nvdisasm, data, folder):
    result = Count()
    for i, code in enumerate(codes(data)):
        path = os.path.join(folder, "code")
        pathlib.Path(path).write_bytes(code)
        result.kernels += sum(n.startswith(".text.") for n, _, _ in sections(code)) if i == 0 else 0
        result.images += i > 0
        result.add(subprocess.run([nvdisasm, "-c", path], check=True, capture_output=True, text=True).stdout)
    return result


def find_nvdisasm(build):
    here = [shutil.which("nvdisasm"), "/usr/local/cuda/bin/nvdisasm",
            *glob.glob(f"{build}/sass/lib/python*/site-packages/nvidia/cu*/bin/nvdisasm")]
    return next((p for p in here if p and os.path.exists(p)), None)


def programs(options):
    found = []
    for path in map(pathlib.Path, options.paths):
        rates = {}
        if options.rates:
            rates = json.loads((path / "kernels.json").read_text())
        files = sorted(path.glob("*.hlo")) if path.is_dir() else [path]
        found += [f for f in files if not options.rates or rates.get(f.stem, {}).get("rate") in options.rates.split(",")]
    only = options.only.split(",") if options.only else None
    return [f for f in found if only is None or f.stem in only]


def check(options, nvdisasm, program, target, folder):
    """The row of a program, and what is wrong with it."""
    out = os.path.join(folder, "out")
    command = [f"{options.build}/gxc", program, f"--target={target}", "--libraries=none", *options.rest, "-o"]
    made = subprocess.run([*command, out, "--report=json"], capture_output=True, text=True)
    if made.returncode:
        return "", made.stderr.strip() or f"exit {made.returncode}"
    data = pathlib.Path(out).read_bytes()
    n = count(nvdisasm, data, folder)
    tensor = " ".join(f"{name} {k}" for name, k in [*sorted(n.tensor.items()), (TMA, n.tma)] if k) or "-"
    row = f"{n.kernels:3} kernels  {tensor:24} {n.spilled:6} spilled  {n.images} by Tile IR"
    wrong = []
    if not n.tensor and program.stem not in options.without.split(","):
        wrong.append("no tensor instruction")
    if n.spilled:
        wrong.append("spills")
    for kernel in json.loads(made.stdout).get("kernels", []):
        if "loss" in kernel:
            wrong.append(f"{kernel['name']}: {kernel['loss']}")
    if options.twice:
        subprocess.run([*command, out, "--jobs=1"], check=True, capture_output=True)
        if pathlib.Path(out).read_bytes() != data:
            wrong.append("other bytes")
    return row, ", ".join(wrong)


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--targets", default="sm_80,sm_90a,sm_120a")
    for name in ("--only", "--rates"):
        parser.add_argument(name)
    parser.add_argument("--without", default="")
    parser.add_argument("--twice", action="store_true")
    options = parser.parse_args(sys.argv[1:split])
    options.rest = sys.argv[split + 1:]
    nvdisasm = find_nvdisasm(options.build)
    if nvdisasm is None:
        sys.exit("tensor_cores: no nvdisasm; make check-sass fetches it")
    found = programs(options)
    good = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for program in found:
            for target in options.targets.split(","):
                row, wrong = check(options, nvdisasm, program, target, folder)
                print(f"{program.stem:24} {target:8} {row}{'  WRONG: ' + wrong if wrong else ''}", flush=True)
                good, bad = good + (not wrong), bad + bool(wrong)
    print(f"{good} passed, {bad} failed")
    sys.exit(bad != 0 or good == 0)


if __name__ == "__main__":
    main()
