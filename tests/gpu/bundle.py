"""Builds the bundle that tests and times gxc's kernels on a machine with a GPU and its driver.

    bundle.py BUILD OUT [EMITTERS]   BUILD holds gxc, gxrun, libgxrt.so, gpu-driver, unit tests; no
                                     GPU is needed. At most EMITTERS of the emitters' programs

Programs: the examples and the emitters' tests with random inputs and the reference evaluator's
results; the cases of GXC_CASES (or ../shared/cases) with theirs, in two forms: our kernels
only, and with library calls; programs for several devices; what the lit tests of GPU_TESTS compare
with the evaluator (record.py); those of GXC_KERNELS to be compared with XLA (programs.py). The bundle's `check` and `bench` run it. GPU_TARGETS names the targets; with emu among them `check emu` tests the bundle itself.
"""
import json
import os
import pathlib
import random
import re
import shutil
import string
import struct
import subprocess
import sys
import tempfile

TARGETS = os.environ.get("GPU_TARGETS", "sm_80 sm_90a sm_100 sm_120").split()
LIMIT = 50 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {"pred": 1, "c64": 8, "c128": 16}


def storage(dtype):
    if dtype in SIZES:
        return SIZES[dtype]
    return max(1, int(re.search(r"\d+", dtype).group()) // 8)


def descr(dtype):
    """numpy's name; types that numpy lacks are their bits."""
    if dtype == "pred":
        return "|b1"
    kind, size = dtype[0], storage(dtype)
    if dtype.startswith(("bf", "f8", "f4")):
        kind = "u"
    return ("|" if size == 1 else "<") + {"s": "i"}.get(kind, kind) + str(size)


def random_array(dtype, count, source):
    """Small integers, and small quarters, whose sums are exact in any order, as bytes."""
    if dtype == "pred":
        return bytes(source.randrange(2) for _ in range(count))
    size = storage(dtype)
    quarter = lambda: source.randrange(-6, 11) / 4
    if dtype[0] in "su":
        return b"".join(source.randrange(8).to_bytes(size, "little") for _ in range(count))
    if dtype == "bf16":
        return b"".join(struct.pack("<f", quarter())[2:] for _ in range(count))
    if dtype.startswith(("f8", "f4")):
        return bytes(source.randrange(8) for _ in range(count))
    code = {"f16": "e", "f32": "f", "f64": "d", "c64": "f", "c128": "d"}[dtype]
    count *= 2 if dtype[0] == "c" else 1
    return struct.pack(f"<{count}{code}", *(quarter() for _ in range(count)))


def write_npy(path, dtype, dims, data):
    shape = "(" + "".join(f"{d}," for d in dims) + ")"
    head = f"{{'descr': '{descr(dtype)}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


class Bundle:
    def __init__(self, build, out):
        self.build, self.out, self.manifest = build, out, []
        shutil.rmtree(out, ignore_errors=True)
        (out / "data").mkdir(parents=True)

    def gxc(self, *arguments):
        return subprocess.run([self.build / "gxc", *arguments], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def compile(self, hlo, name, *options):
        """Every target in one file; returns its name in the bundle."""
        cubin = f"data/{name}.cubin"
        targets = [f"--target={t}" for t in TARGETS]
        report = self.gxc(hlo, "-o", self.out / cubin, "--report=json", *targets, *options)
        return cubin, json.loads(report)

    def plan(self, hlo, libraries):
        """The plan as text, without the line that tells the options."""
        text = self.gxc(hlo, "--emit=plan", f"--target={TARGETS[0]}", f"--libraries={libraries}")
        return [line for line in text.splitlines() if not line.startswith("  options ")]

    def add_random(self, hlo, name, *options):
        """A program with inputs from a fixed seed and the evaluator's results."""
        cubin, _ = self.compile(hlo, name, *(options or ["--libraries=none"]))
        text = self.gxc("--emit=hlo", "--passes=none", hlo)
        layout = re.search(r"entry_computation_layout=\{\((.*)\)->(.*)\}", text.splitlines()[0])
        shapes = re.compile(r"([a-z]+\d*\w*)\[([\d,]*)\]")
        parameters, results = (shapes.findall(part) for part in layout.groups())
        self.manifest.append(f"program {name} {cubin}")
        source, arguments = random.Random(1), []
        for i, (dtype, dims) in enumerate(parameters):
            dims = [int(d) for d in dims.split(",") if d]
            count = 1
            for d in dims:
                count *= d
            path = f"data/{name}.in{i}.npy"
            write_npy(self.out / path, dtype, dims, random_array(dtype, count, source))
            self.manifest.append(f"input {path}")
            arguments.append(f"--input=@{self.out / path}")
        for i in range(len(results)):
            path = f"data/{name}.out{i}.npy"
            self.manifest.append(f"output {path}")
            arguments.append(f"--output=@{self.out / path}")
        subprocess.run([self.build / "gxrun", hlo, "--device=ref", *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def add_case(self, folder):
        case = json.loads((folder / "case.json").read_text())
        if case["devices"] != 1:
            return
        for kind in ("in", "out"):
            shutil.copytree(folder / kind, self.out / "data" / case["name"] / kind)
        forms = [("kernels", "none"), ("libraries", "all")]
        if self.plan(folder / "prog.hlo", "none") == self.plan(folder / "prog.hlo", "all"):
            forms.pop()  # nothing in it is worth a library call
        for form, libraries in forms:
            cubin, report = self.compile(folder / "prog.hlo", f"{case['name']}.{form}",
                                         f"--libraries={libraries}")
            data = f"data/{case['name']}"
            self.manifest.append(f"program {case['name']}.{form} {cubin} {report['bytes_accessed']}")
            self.manifest += [f"input {data}/in/{i}.npy" for i in range(len(case["params"]))]
            self.manifest += [f"output {data}/out/{i}.npy {r['rtol']} {r['atol']}"
                              for i, r in enumerate(case["results"])]

    def add_devices(self, hlo, devices):
        """For several devices: gxrun compares them with the evaluator's results."""
        name = f"{hlo.stem}.{devices}"
        text = string.Template(hlo.read_text()).substitute(N=devices)
        program = self.out / f"data/{name}.hlo"
        program.write_text(text)
        cubin, _ = self.compile(program, name, "--libraries=none")
        results = re.search(r"ROOT .*? = \((.*)\) tuple", text)[1].count("[")
        files = [f"data/{name}.out{i}.{{device}}.npy" for i in range(results)]
        subprocess.run([self.build / "gxrun", program, "--device=ref", "--quiet", "--input=random:1",
                        *(f"--output=@{self.out / f}" for f in files)], check=True)
        program.unlink()
        self.manifest.append(" ".join([name, cubin, "--input=random:1", *(f"--compare=@{f}" for f in files)]))

    def add_bench(self, hlo, name, libraries, ceiling):
        cubin, report = self.compile(hlo, f"bench.{name}", f"--libraries={libraries}")
        self.manifest.append(f"program {name} {cubin} {report['bytes_accessed']} {ceiling}")

    def add_program(self, hlo):
        """For programs.py: with libraries, by our kernels alone, by CUDA Tile IR, where these differ."""
        name = f"program.{hlo.stem}"  # a case may have the same name
        proto = f"data/{name}.pb"
        text = re.sub(r"input_output_alias=\{.*?\) ?\}, ", "", hlo.read_text(), count=1)  # XLA would take those buffers
        with tempfile.NamedTemporaryFile("w", suffix=".hlo") as f:
            f.write(text)
            f.flush()
            self.gxc("--emit=pb", "--passes=none", f.name, "-o", self.out / proto)
        cubin, report = self.compile(hlo, f"{name}.chosen")
        forms = [f"chosen={cubin}"]
        if any(k["grid"] == [0, 0, 0] for k in report["kernels"]):
            forms.append("kernels=" + self.compile(hlo, f"{name}.kernels", "--libraries=none")[0])
        cubin, report = self.compile(hlo, f"{name}.tileir", "--libraries=none", "-O2")
        if any(k["tileir"] for k in report["kernels"]):
            forms.append(f"tileir={cubin}")
        self.manifest.append(" ".join([hlo.stem, proto, *forms]))

    def add_tests(self, tests):
        """The lit tests' programs for the first target."""
        subprocess.run([sys.executable, ROOT / "tests/gpu/record.py", self.build, self.out / "data", TARGETS[0], *tests], check=True)
        (self.out / "data/recorded.txt").rename(self.out / "recorded.txt")

    def write(self, name):
        (self.out / name).write_text("\n".join(self.manifest) + "\n")
        self.manifest = []


def main():
    build, out = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    bundle = Bundle(build, out)
    for hlo in sorted((ROOT / "examples").glob("*/*.hlo")):
        if "custom-call" not in hlo.read_text():  # its function is in the example's C program
            bundle.add_random(hlo, hlo.stem)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([build / "tests/unit/codegen_emit_test"], check=True, capture_output=True,
                       env=os.environ | {"GXC_WRITE_PROGRAMS": folder})
        most = int(sys.argv[3]) if len(sys.argv) > 3 else None
        for hlo in sorted(pathlib.Path(folder).glob("*.hlo"))[:most]:
            bundle.add_random(hlo, hlo.stem)
    cases = pathlib.Path(os.environ.get("GXC_CASES", ROOT.parent / "shared/cases"))
    for folder in sorted(p.parent for p in cases.glob("*/case.json")):
        bundle.add_case(folder)
    inputs = ROOT / "tests/gpu/inputs"
    for hlo in sorted((inputs / "check").glob("*.hlo")):
        bundle.add_random(hlo, hlo.stem)
    for hlo in sorted((inputs / "libraries").glob("*.hlo")):  # their first line has the options
        bundle.add_random(hlo, hlo.stem, *hlo.read_text().splitlines()[0].removeprefix("//").split())
    bundle.write("manifest.txt")
    for hlo in sorted((inputs / "devices").glob("*.hlo")):
        for devices in (2, 4, 8):
            bundle.add_devices(hlo, devices)
    bundle.write("devices.txt")
    if "GPU_TESTS" in os.environ:
        bundle.add_tests(ROOT / t for t in os.environ["GPU_TESTS"].split())
    # What the others are a share of comes first: a copy's rate, or the library's for a product.
    for hlo in sorted(inputs.glob("*.hlo"), key=lambda p: (p.stem != "copy", p.stem)):
        if hlo.stem == "dot":
            bundle.add_bench(hlo, "dot.library", "all", "")
        bundle.add_bench(hlo, hlo.stem, "none", {"dot": "dot.library", "copy": ""}.get(hlo.stem, "copy"))
    bundle.write("bench.txt")
    for hlo in sorted(pathlib.Path(os.environ["GXC_KERNELS"]).glob("*.hlo")) if "GXC_KERNELS" in os.environ else []:
        bundle.add_program(hlo)
    bundle.write("programs.txt")
    for name in ["gxrun", "libgxrt.so"] + ["libgxemu.so"] * ("emu" in TARGETS):
        shutil.copy2(build / name, out / name)
    shutil.copy2(build / "gpu-driver", out / "driver")
    for name in ("gxrun", "libgxrt.so", "driver"):
        subprocess.run(["strip", "--strip-debug", out / name], check=True)
    for name in ("check", "bench", "libraries", "programs.py", "programs.rules"):
        shutil.copy2(ROOT / "tests/gpu" / name, out / name)
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{out}: {size / (1 << 20):.1f} MB; on a machine with a GPU run check or bench there")
    if size > LIMIT:
        sys.exit(f"the bundle may not have more than {LIMIT >> 20} MB")


if __name__ == "__main__":
    main()
