"""Runs whole programs by XLA:GPU (JAX) and by gxc, with the same inputs; compares results and times.

    programs.py [--device D] [--only PART] [--time PART] [--forms PART] [--seconds N] [--table FILE] [--no-jax | --results-of-jax]

programs.txt has lines: NAME PROTO FORM=CUBIN ...; a form is a way to compile it: "chosen" with libraries where the model
prefers them, "kernels" without, "tileir" by CUDA Tile IR. Where JAX is not installed gxc's times are told alone. gxrun is a
process of its own for each run, XLA one for all that it does not end: so nothing that breaks ends the others.
Exit status: 0 all agree, 1 something differs or fails.
"""
import argparse
import concurrent.futures
import faulthandler
import importlib.util
import json
import os
import pathlib
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
DEVICE = "cuda"
TOLERANCE = 0.03  # of a result's norm: two ways to round 16-bit numbers
BATCH_SECONDS, BENCH_SECONDS, SAMPLES_LEAST = 0.005, 0.5, 5  # as runtime/gxrun/measure.c
PARALLEL = 6  # runs whose time does not count
WORKERS = 4  # that have XLA make results whose time does not count
TYPES = {"pred": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
         "c64": "complex64", "c128": "complex128", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
         "f8e8m0fnu": "float8_e8m0fnu"}


def numpy_type(name):
    name = TYPES.get(name) or {"s": "int", "u": "uint"}[name[0]] + name[1:]
    return np.dtype(getattr(ml_dtypes, name, name))


def block(t, source, below):
    """Numbers enough for any array: it repeats them, at a length that no dimension divides."""
    count = 1000003
    if t.name == "float8_e8m0fnu":  # powers of two around one
        return source.integers(126, 129, count).astype(np.uint8).view(t)
    if t.kind == "b":
        return source.integers(0, 2, count).astype(t)
    if "int" in t.name:
        low = -8 if t.name in ("int8", "int4") else 0
        return source.integers(low, min(below, 8) if low else below, count).astype(t)
    a = source.standard_normal(count, np.float32)
    if t.kind == "c":
        a = a + 1j * source.standard_normal(count, np.float32)
    return a.astype(t)


class Program:
    """A line of programs.txt; row: what is told about it."""

    def __init__(self, line):
        self.name, self.proto, *forms = line.split()
        self.forms = dict(f.split("=") for f in forms)
        self.row = {"name": self.name}

    def signature(self):
        """(types and dimensions of the parameters, number of results)"""
        text = subprocess.run([HERE / "gxrun", HERE / self.forms["chosen"], "--info=json"], check=True,
                              capture_output=True, text=True).stdout
        info = json.loads(text)
        return [(v["dtype"], v["dims"]) for v in info["arguments"]], len(info["results"])


def make_input(dtype, shape, number, rule):
    """rule: where integers end, which arrays are ordered, all of a value, or have a heavy diagonal."""
    t = numpy_type(dtype)
    some = block(t, np.random.default_rng([1, number]), rule.get("below", 8))
    a = np.resize(some, shape) if shape else some[1:2].reshape(())
    if "value" in rule:
        a = np.full(shape, rule["value"], t)
    if "sorted" in rule:
        a = np.sort(a)
    if "positive" in rule:
        a = np.abs(a)
    if "definite" in rule:
        a = (a + a.T) / 2
    if "diagonal" in rule:
        a = a + rule["diagonal"] * np.eye(len(a), dtype=t)
    return np.ascontiguousarray(a).reshape(shape)


def stored(a):
    """As gxrun reads it: types that .npy has not are integers."""
    if a.dtype.isbuiltin == 1:
        return a
    return a.astype(f"{a.dtype.name.rstrip('0123456789')}8") if "int" in a.dtype.name else a.view(f"uint{8 * a.dtype.itemsize}")


class Jax:
    def __init__(self):
        import jax
        from jax._src import compiler
        from jax._src.lib import xla_client
        from jaxlib import _jax
        jax.config.update("jax_enable_x64", True)
        self.jax, self.client, self.internal, self.compiler = jax, xla_client, _jax, compiler
        self.device = jax.local_devices()[0]

    def compile(self, proto):
        start = time.time()
        module = self.client._xla.mlir.hlo_to_stablehlo((HERE / proto).read_bytes())
        options = self.compiler.get_compile_options(num_replicas=1, num_partitions=1, device_assignment=np.array([[0]]))
        program = self.device.client.compile_and_load(module, self.internal.DeviceList((self.device,)), options)
        return program, time.time() - start

    def run(self, program, inputs, timed):
        """(results, microseconds or None)"""
        arguments = [self.jax.device_put(a, self.device) for a in inputs]
        results = [np.asarray(x) for x in program.execute(arguments)]
        if not timed:
            return results, None

        def batch(n):
            start = time.time()
            for _ in range(n):
                out = program.execute(arguments)
            for o in out:
                o.block_until_ready()
            return time.time() - start

        # As gxrun --bench: the median of batches, for as long. A GPU at its power limit slows down within that time, so the
        # least of a few batches would flatter whoever is measured that way.
        n = 1
        while batch(n) < BATCH_SECONDS and n < 1 << 20:
            n *= 2
        samples = []
        while len(samples) < SAMPLES_LEAST or sum(samples) < BENCH_SECONDS and len(samples) < 1000:
            samples.append(batch(n))
        return results, 1e6 * statistics.median(samples) / n


def difference(got, want):
    """|got - want| / |want|, of numbers that are finite in both; 9 where others differ."""
    got = got.view(want.dtype) if got.dtype != want.dtype else got
    if got.shape != want.shape:
        return 9.0
    if want.dtype.kind in "biu" or "int" in want.dtype.name:
        return float(np.mean(got != want))
    wide = np.complex64 if want.dtype.kind == "c" else np.float64 if want.dtype == np.float64 else np.float32
    g, w = got.astype(wide).ravel(), want.astype(wide).ravel()
    fine = np.isfinite(g) & np.isfinite(w)
    if not fine.all():
        odd = ~fine
        if not np.array_equal(g[odd], w[odd], equal_nan=True):
            return 9.0
        g, w = g[fine], w[fine]
    norm = float(np.linalg.norm(w))
    return float(np.linalg.norm(g - w)) / norm if norm else float(np.linalg.norm(g))


def gxrun(cubin, arguments, seconds=120):
    try:
        p = subprocess.run([HERE / "gxrun", HERE / cubin, f"--device={DEVICE}", *arguments], capture_output=True, text=True,
                           timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, "timeout"
    return (p.stdout, None) if p.returncode == 0 else (None, (p.stderr.strip() or f"exit {p.returncode}")[-300:])


def commands(path):
    events = json.loads(path.read_text())["traceEvents"]
    out = {}
    for e in events:
        if e.get("ph") == "X" and e["pid"] < 1000000:
            a = e["args"]
            slot = out.setdefault(e["name"], [0, 0.0, 0.0])
            slot[0] += 1
            slot[1] += a["measured_us"]
            slot[2] += a.get("modelled_us", 0)
    return [[k, n, round(m, 2), round(x, 2)] for k, (n, m, x) in out.items()]


def check_form(p, form):
    """Runs once, beside others; its results against XLA's."""
    row = p.row.setdefault(form, {})
    outs = [p.folder / f"{form}{i}.npy" for i in range(p.results)]
    _, error = gxrun(p.forms[form], ["-q", *p.inputs, *(f"--output=@{o}" for o in outs)])
    if error:
        row["error"] = error
        return
    try:
        if p.wanted:
            row["differences"] = [difference(np.load(o), pickle.loads(w.read_bytes())) for o, w in zip(outs, p.wanted)]
    finally:
        for o in outs:
            o.unlink(missing_ok=True)


def time_form(p, form):
    row = p.row.setdefault(form, {})
    if "error" in row:
        return
    text, error = gxrun(p.forms[form], ["-q", "--bench=json", *p.inputs])
    if error:
        row["error"] = error
        return
    row["us"] = json.loads(text.strip().splitlines()[-1])["median_us"]
    trace = p.folder / "trace.json"
    _, error = gxrun(p.forms[form], ["-q", f"--profile={trace}", *p.inputs])
    if not error:
        row["commands"] = commands(trace)


def prepare(p, folder, rules, jax, timed):
    """Makes the inputs and XLA's results, as files; prints what is known, a line each."""
    parameters, results = p.signature()
    (folder / p.name).mkdir()
    arrays = [make_input(*v, i, rules.get(f"{p.name}.{i}", {})) for i, v in enumerate(parameters)]
    for i, a in enumerate(arrays):
        np.save(folder / p.name / f"in{i}.npy", stored(a))
    print(json.dumps({"inputs": len(arrays), "results": results}), flush=True)
    if not jax:
        return
    program, seconds = jax.compile(p.proto)
    wanted, us = jax.run(program, arrays, timed)
    for i, r in enumerate(wanted):
        (folder / p.name / f"want{i}").write_bytes(pickle.dumps(r, protocol=5))
    print(json.dumps(({"jax_us": us} if timed else {}) | {"jax_compile_s": round(seconds, 2), "has_wanted": True}), flush=True)


def work(programs, folder, rules, options):
    faulthandler.enable()
    jax = Jax() if not options.no_jax and importlib.util.find_spec("jax") else None
    for p in programs:
        print(json.dumps({"begin": p.name}), flush=True)
        try:
            prepare(p, folder, rules, jax, not options.results_of_jax)
        except Exception as e:
            print(json.dumps({"jax_error": f"{type(e).__name__}: {e}".split("\n")[0][:200]}), flush=True)
    sys.stdout.flush()
    os._exit(0)


def prepare_some(programs, folder, options, end):
    """In a process of its own: one that XLA ends is followed by another from the next program on."""
    by_name, next_one, deaths = {p.name: p for p in programs}, 0, 0
    while next_one < len(programs) and time.time() < end:
        command = [sys.executable, "-u", __file__, "--worker", str(folder), "--device", options.device, "--only",
                   f"^({'|'.join(p.name for p in programs[next_one:])})$"]
        command += ["--results-of-jax"] * options.results_of_jax
        worker = subprocess.Popen(command + ["--no-jax"] * (options.no_jax or deaths > 6), stdout=subprocess.PIPE, text=True)
        watch = threading.Timer(max(1, end - time.time()), worker.kill)
        watch.start()
        now = None
        for line in worker.stdout:
            told = json.loads(line)
            if "begin" in told:
                now = by_name[told["begin"]]
                next_one += 1
            elif now:
                now.row.update(told)
        watch.cancel()
        if worker.wait() and now:
            deaths += 1
            now.row.setdefault("jax_error", f"the process ended: {worker.returncode}")
        elif not now:
            break


def prepare_all(programs, folder, options, end):
    """One after the other where XLA's times count, else side by side."""
    workers = WORKERS if options.results_of_jax or options.no_jax else 1
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda i: prepare_some(programs[i::workers], folder, options, end), range(workers)))
    for p in programs:
        p.folder = folder / p.name
        p.inputs = [f"--input=@{p.folder}/in{i}.npy" for i in range(p.row.get("inputs", 0))]
        p.results = p.row.get("results", 0)
        p.wanted = [p.folder / f"want{i}" for i in range(p.results)] if p.row.get("has_wanted") else []
    return [p for p in programs if "results" in p.row]


def describe(p):
    r, parts = p.row, []
    for name, f in ((n, r.get(n, {})) for n in p.forms):
        if "us" in f:
            parts.append(f"{name} {f['us']:.1f}")
        if "differences" in f:
            parts.append(f"d={max(f['differences'], default=0):.1e}")
        if "error" in f:
            parts.append(f"{name} ERROR {f['error'][-160:]}")
    xla = f"{r['jax_us']:.1f}" if "jax_us" in r else r.get("jax_error", "-")[:60]
    return f"{p.name:24} xla {xla} | " + " | ".join(parts)


def is_wrong(p):
    rows = [p.row.get(f, {"error": "not run"}) for f in p.forms]
    return any("error" in r or max(r.get("differences", []), default=0) > TOLERANCE for r in rows)


def measure(programs, options, rules):
    """Results first, side by side; then times, one after the other."""
    end = time.time() + options.seconds
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        prepared = prepare_all(programs, folder, options, end - 0.35 * options.seconds)
        with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda pf: check_form(*pf), [(p, f) for p in prepared for f in p.forms]))
        for p in prepared:
            for form in p.forms:
                if time.time() < end and re.search(options.forms, form) and re.search(options.time, p.name):
                    time_form(p, form)
            print(describe(p), flush=True)
            shutil.rmtree(p.folder)
    finally:
        shutil.rmtree(folder)
    pathlib.Path(options.table).write_text(json.dumps([p.row for p in programs], indent=0))
    return any(is_wrong(p) for p in programs)


def main():
    global DEVICE
    o = argparse.ArgumentParser(description="whole programs by XLA and by gxc")
    o.add_argument("--device", default=DEVICE)
    o.add_argument("--only", default="", help="programs whose names have this pattern")
    o.add_argument("--time", default="", help="of those, the programs that are timed")
    o.add_argument("--forms", default="", help="of those, the forms that are timed")
    o.add_argument("--seconds", type=float, default=1e9, help="begin nothing later")
    o.add_argument("--table", default="programs.json", help="where all numbers go")
    o.add_argument("--no-jax", action="store_true")
    o.add_argument("--results-of-jax", action="store_true", help="XLA is not timed, nor need its autotuner be on")
    o.add_argument("--worker", help=argparse.SUPPRESS)
    o = o.parse_args()
    DEVICE = o.device
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    rules = json.loads((HERE / "programs.rules").read_text())
    programs = [Program(line) for line in (HERE / "programs.txt").read_text().splitlines()]
    programs = [p for p in programs if re.search(o.only, p.name)]
    if o.worker:
        work(programs, pathlib.Path(o.worker), rules, o)
    return measure(programs, o, rules)


if __name__ == "__main__":
    sys.exit(main())
