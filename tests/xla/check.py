"""make check-xla: random modules on XLA:CPU, and the same on gxc's reference evaluator.

    check.py BUILD [--seeds FIRST:COUNT] [--seconds N]

BUILD holds gxc, gxrun and tests/random, whose modules are of operations that XLA:CPU has, too. Workers are
processes of their own, since XLA may end one; what StableHLO has no form for is skipped.
Exit status: 0 all equal, 1 something differs.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

TYPE = {"pred": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
        "c64": "complex64", "c128": "complex128"}
PARAMETER = re.compile(r"^\s*(\w+) = (\w+)\[([\d,]*)\](?:\{[^}]*\})? parameter\((\d+)\)", re.M)


def numpy_type(name):
    import ml_dtypes
    import numpy as np
    name = TYPE.get(name) or {"s": "int", "u": "uint"}[name[0]] + name[1:]
    return np.dtype(getattr(ml_dtypes, name, name))


def make_inputs(text, seed):
    import numpy as np
    entry = text[text.index("ENTRY "):]
    out = {}
    for name, dtype, dims, number in PARAMETER.findall(entry):
        shape = [int(d) for d in dims.split(",")] if dims else []
        r = np.random.default_rng([seed, int(number)])
        t = numpy_type(dtype)
        if t.kind == "b":
            a = r.integers(0, 2, shape)
        elif t.kind == "u":
            a = r.integers(0, 16, shape)
        elif t.kind == "i":
            a = r.integers(-8, 8, shape)
        else:
            a = r.integers(-8, 9, shape) / 4
        if t.kind == "c":
            a = a + 1j * (r.integers(-8, 9, shape) / 4)
        out[int(number)] = np.asarray(a).astype(t)
    return [out[i] for i in range(len(out))]


def stored(a):
    """As gxrun reads and writes it: types that .npy has not are unsigned integers."""
    return a if a.dtype.kind in "biufc" and a.dtype.name != "bfloat16" else a.view(f"uint{8 * a.dtype.itemsize}")


def run_gxc(build, folder, inputs, results):
    import numpy as np
    command = [f"{build}/gxrun", f"{folder}/m.hlo", "--device=ref", "-q"]
    for i, a in enumerate(inputs):
        np.save(f"{folder}/in{i}.npy", stored(a))
        command.append(f"--input=@{folder}/in{i}.npy")
    command += [f"--output=@{folder}/out{i}.npy" for i in range(results)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return [np.load(f"{folder}/out{i}.npy") for i in range(results)]


def run_xla(build, folder, inputs):
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    from jaxlib import _jax
    subprocess.run([f"{build}/gxc", "--emit=pb", "--passes=none", f"{folder}/m.hlo", "-o", f"{folder}/m.pb"], check=True,
                   capture_output=True, text=True)
    with open(f"{folder}/m.pb", "rb") as f:
        module = xla_client._xla.mlir.hlo_to_stablehlo(f.read())
    device = jax.local_devices(backend="cpu")[0]
    options = xla_client.CompileOptions()
    program = device.client.compile_and_load(module, _jax.DeviceList((device,)), options)
    arguments = [jax.device_put(a, device) for a in inputs]
    return [np.asarray(x) for x in program.execute(arguments)]


def tolerance(dtype):
    return {"float64": 1e-10, "complex128": 1e-10, "float16": 8e-3, "bfloat16": 6e-2}.get(dtype.name, 2e-4)


def difference(got, want):
    """What differs, or None. got: of gxc, in storage form; want: XLA's."""
    import numpy as np
    got = got.view(want.dtype) if want.dtype != got.dtype else got
    if got.shape != want.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    if want.dtype.kind in "biu":
        bad = got != want
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        g, w = got.astype(wide), want.astype(wide)
        finite = np.isfinite(w)
        scale = np.max(np.abs(w[finite]), initial=0)
        with np.errstate(invalid="ignore"):
            bad = np.where(finite & np.isfinite(g), np.abs(g - w) > tolerance(want.dtype) * (scale + 1e-3),
                           ~((g == w) | (np.isnan(g) & np.isnan(w))))
    if not bad.any():
        return None
    at = np.unravel_index(np.argmax(bad), bad.shape)
    return f"{want.dtype.name}{list(want.shape)} at {[int(i) for i in at]}: {got[at]}, XLA has {want[at]}"


def check(build, seed):
    """'good', 'skipped', or what went wrong."""
    text = subprocess.run([f"{build}/tests/random", "-x", "-p", str(seed)], check=True, capture_output=True,
                          text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/m.hlo", "w") as f:
            f.write(text)
        inputs = make_inputs(text, seed)
        try:
            wanted = run_xla(build, folder, inputs)
        except Exception as e:  # what StableHLO or XLA:CPU does not take
            return "skipped: " + str(e).strip().split("\n")[0][:150]
        try:
            results = run_gxc(build, folder, inputs, len(wanted))
        except subprocess.CalledProcessError as e:
            return "gxrun: " + e.stderr.strip()
        for i, (got, want) in enumerate(zip(results, wanted)):
            what = difference(got, want)
            if what:
                return f"result {i}: {what}"
    return "good"


def work(build, first, count):
    import jax
    jax.config.update("jax_enable_x64", True)
    for seed in range(first, first + count):
        print(seed, "begin", flush=True)
        print(seed, check(build, seed), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--seeds", default="1:1000")
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--worker", action="store_true")
    p.add_argument("-v", action="store_true", help="says why modules are skipped")
    o = p.parse_args()
    first, count = map(int, o.seeds.split(":"))
    if o.worker:
        return work(o.build, first, count)
    counts = {"good": 0, "skipped": 0, "different": 0, "dead": 0}
    end, last = time.time() + o.seconds, first + count
    while first < last and time.time() < end:
        worker = subprocess.Popen(
            [sys.executable, __file__, o.build, "--worker", "--seeds", f"{first}:{last - first}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"})
        done = True
        for line in worker.stdout:
            seed, what = line.rstrip().split(" ", 1)
            first, done = int(seed) + 1, what != "begin"
            if not done:
                continue
            kind = what if what == "good" else "skipped" if what.startswith("skipped") else "different"
            counts[kind] += 1
            if kind == "different" or (o.v and ":" in what):
                print(f"seed {seed}: {what}", flush=True)
            if time.time() > end:
                worker.terminate()
                break
        worker.wait()
        if not done and time.time() < end:
            counts["dead"] += 1  # XLA's own checks end the process
            print(f"seed {first - 1}: the worker died")
    print("check-xla:", ", ".join(f"{n} {k}" for k, n in counts.items()))
    return counts["different"] != 0 or counts["good"] == 0


if __name__ == "__main__":
    sys.exit(main())
