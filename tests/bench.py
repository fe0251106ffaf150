"""What `make bench` prints: speed of the compiler and of what it makes. Nothing here is a test.

    bench.py BUILD [--only TEXT] [--repeat N] [--part compile,front,growth,work,emulator,launch]

Programs: the examples and, where they are, the single-device cases of GXC_CASES (or
../shared/cases). Processor times are the best of N runs with one thread.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import generate

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = pathlib.Path(os.environ.get("GXC_CASES", ROOT.parent / "shared/cases"))


def run(arguments, keep=True):
    """Processor seconds, peak memory in MB and standard output of a process that must succeed."""
    with tempfile.TemporaryFile() if keep else open(os.devnull, "w+b") as out:
        process = subprocess.Popen([str(a) for a in arguments], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"exit {process.returncode}: {' '.join(map(str, arguments))}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read().decode()


def timed(gxc, options, path):
    """Processor seconds, peak memory in MB and the notes of --timing. The memory is what gxc says: a process
    that this one starts is counted with what this one has."""
    process = subprocess.Popen([gxc, "--timing", *options, path], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    notes = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {path}\n{notes}")
    memory = float(re.search(r"note: memory +([0-9.]+) MB", notes).group(1))
    return usage.ru_utime + usage.ru_stime, memory, notes


def best(repeat, arguments):
    return min(run(arguments, False) for _ in range(repeat))


def programs(only):
    found = [(p.stem, p, []) for p in sorted((ROOT / "examples").glob("*/*.hlo"))]
    for path in sorted(CASES.glob("*/case.json")):
        case = json.loads(path.read_text())
        if case["devices"] == 1:
            inputs = [f"--input=@{path.parent}/in/{i}.npy" for i in range(len(case["params"]))]
            found.append((case["name"], path.parent / "prog.hlo", inputs))
    return [p for p in found if only in p[0]]


def compile_table(gxc, gxrun, repeat, only, folder):
    print("Compiling (sm_90a, one thread) and running on the emulator")
    print(f"{'program':28} {'HLO':>5} {'cpu s':>7} {'MB':>5} {'kernels':>7} {'launch':>6} {'copies':>6} "
          f"{'accessed':>10} {'temp':>9} {'peak':>9} {'spills':>6} {'emu s':>6}")
    logs, sums = [], {}
    for name, hlo, inputs in programs(only):
        text = hlo.read_text()
        options = [gxc, hlo, "-o", folder / "p.cubin", "--target=sm_90a", "--jobs=1"]
        seconds, memory, _ = best(repeat, options)
        report = json.loads(run(options + ["--report=json"])[2])
        run(options + ["--target=emu"])
        emulated, _, _ = run([gxrun, folder / "p.cubin", "--device=emu", *(inputs or ["--input=random:1"])])
        print(f"{name:28} {text.count(' = '):5} {seconds:7.3f} {memory:5.0f} {report['distinct_kernels']:7} "
              f"{report['launches']:6} {report['copies']:6} {report['bytes_accessed']:10} {report['temp_bytes']:9} "
              f"{report['peak_bytes']:9} {report['spill_bytes']:6} {emulated:6.2f}", flush=True)
        logs.append(math.log(seconds))
        for key in ("launches", "copies", "bytes_accessed", "temp_bytes", "peak_bytes", "spill_bytes",
                    "loop_bytes", "loop_bytes_wide"):
            sums[key] = sums.get(key, 0) + report[key]
        sums["compile seconds"] = sums.get("compile seconds", 0) + seconds
        sums["emulated seconds"] = sums.get("emulated seconds", 0) + emulated
    print("sums:", ", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in sums.items()))
    print(f"bytes of loops and row reductions by 16-byte accesses, where rows allow it: "
          f"{sums['loop_bytes_wide'] / max(1, sums['loop_bytes']):.3f}")
    print(f"geometric mean of compile times: {math.exp(sum(logs) / len(logs)):.3f} s")


def slope(points):
    """Of the logarithm of y over that of x: 1 is linear."""
    xs, ys = [math.log(x) for x, _ in points], [math.log(max(y, 1e-9)) for _, y in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def generated(folder, kind, n):
    """Path and number of instructions. By a process of its own: what this one has touched would count
    as memory of the processes that it starts."""
    path = folder / f"{kind}.{n}.hlo"
    if not path.exists():
        with open(path, "wb") as out:
            subprocess.run([sys.executable, generate.__file__, kind, str(n)], stdout=out, check=True)
    return path, int(subprocess.run(["grep", "-c", " = ", path], stdout=subprocess.PIPE, check=True).stdout)


def linear_passes(gxc):
    """Those before fusion, whose work in one kernel is quadratic in its size, which is bounded."""
    lines = run([gxc, "--list-passes"])[2].splitlines()
    names = [line.split()[0] for line in lines if "to be seen alone" not in line]
    return names[:names.index("fuse")]


def stages(gxc):
    """What large modules go through: title and options."""
    return (("parse, verify", ["--verify"]),
            ("parse, verify, print", ["--emit=hlo", "--passes=none"]),
            ("linear passes", ["--emit=hlo", "-O2", "--passes=" + ",".join(linear_passes(gxc))]),
            ("all passes", ["--emit=hlo", "-O2"]))


LARGE = (10 ** 4, 10 ** 5, 10 ** 6)
LARGE_KINDS = ("chain", "wide", "layers")


def front_table(gxc, repeat, folder):
    """Memory is what a process has at its peak beyond one that does nothing, without the text itself."""
    nothing = folder / "nothing.hlo"
    nothing.write_text("HloModule nothing\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n")
    start, least, _ = min(timed(gxc, ["--verify"], nothing) for _ in range(10))
    print(f"\nStart: {1e3 * start:.1f} ms\n\nLarge generated modules; linear passes: the {len(linear_passes(gxc))} "
          "before fusion")
    for title, options in stages(gxc):
        for kind in LARGE_KINDS:
            times, bytes_ = [], []
            for n in LARGE:
                path, instructions = generated(folder, kind, n)
                runs = [timed(gxc, options, path) for _ in range(1 if title == "all passes" else repeat)]
                seconds, memory = (min(r[i] for r in runs) for i in (0, 1))
                size = path.stat().st_size
                times.append((instructions, seconds - start))
                bytes_.append((instructions, (memory - least) * 2 ** 20 - size))
                print(f"  {title:21} {kind:6} {instructions:8} instructions, {size / 1e6:6.2f} MB: {seconds:6.3f} s, "
                      f"{size / 1e6 / max(1e-9, seconds - start):4.0f} MB/s, "
                      f"{bytes_[-1][1] / instructions:5.0f} bytes an instruction", flush=True)
            print(f"  {title:21} {kind:6} slope of time {slope(times):.3f}, of memory {slope(bytes_):.3f}", flush=True)


def pass_times(gxc, path):
    """Milliseconds by stage and by pass ("pass x") of all passes at -O2; memory in MB."""
    _, memory, notes = timed(gxc, ["--emit=hlo", "-O2"], path)
    found = re.findall(r"note: +(pass )?(\S+) +([0-9.]+) ms", notes)
    return {(p + name): float(ms) for p, name, ms in found}, memory


def growth_table(gxc, repeat, folder):
    """How passes grow: what is above 1.1 is listed with its time for the largest module."""
    sizes = (10 ** 4, 3 * 10 ** 4, 10 ** 5)
    print(f"\nGenerated modules of {', '.join(map(str, sizes))} instructions through all passes at -O2: "
          "seconds, slope, memory")
    for kind in generate.KINDS:
        paths, counts = zip(*(generated(folder, kind, n) for n in sizes))
        runs = [min((pass_times(gxc, p) for _ in range(repeat)), key=lambda r: r[0]["passes"]) for p in paths]
        total = [(n, times["passes"]) for n, (times, _) in zip(counts, runs)]
        slow = []
        for name in runs[-1][0]:
            points = [(n, times.get(name, 0) + 0.5) for n, (times, _) in zip(counts, runs)]
            if name.startswith("pass ") and points[-1][1] > 0.01 * total[-1][1] and slope(points) > 1.1:
                slow.append(f"{name[5:]} {slope(points):.2f} ({points[-1][1]:.0f} ms)")
        print(f"  {kind:12} {' '.join(f'{ms / 1e3:6.2f}' for _, ms in total)} s, slope {slope(total):.2f}, "
              f"{runs[-1][1]:5.0f} MB{'; above: ' + ', '.join(slow) if slow else ''}", flush=True)


def work(gxc, folder, arguments):
    """Machine instructions of a run."""
    process = subprocess.run(
        ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={folder / 'cachegrind'}", gxc,
         *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"I\s+refs:\s+([\d,]+)", process.stderr).group(1).replace(",", ""))


def work_table(gxc, folder):
    """Machine instructions per HLO instruction, and their slope: unlike times, they do not grow with what
    misses the caches."""
    if shutil.which("valgrind") is None:
        print("\nMachine instructions: no valgrind here")
        return
    plain = folder / "gxc"
    subprocess.run(["objcopy", "--strip-debug", gxc, plain], check=True)
    start = work(plain, folder, ["--version"])
    large, small = (10 ** 3, 10 ** 4, 10 ** 5), (3 * 10 ** 3, 3 * 10 ** 4)
    rows = [(title, options, kind, large) for title, options in stages(gxc)[:3] for kind in LARGE_KINDS]
    rows += [(title, options, kind, small) for title, options in stages(gxc)[3:] for kind in generate.KINDS]
    print("\nThousands of machine instructions for each instruction")
    for title, options, kind, sizes in rows:
        points = []
        for n in sizes:
            path, count = generated(folder, kind, n)
            points.append((count, work(plain, folder, [*options, path]) - start))
        print(f"  {title:21} {kind:12} {', '.join(f'{w / n / 1e3:.2f} of {n}' for n, w in points)}, "
              f"slope {slope(points):.3f}", flush=True)


LOOP = """HloModule steps
cond {{
  t = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  t = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[4,8] get-tuple-element(t), index=1
  w = f32[8,8] iota(), iota_dimension=0
  y = f32[4,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  z = f32[4,8] dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = (s32[], f32[4,8]) tuple(next, z)
}}
ENTRY main {{
  x = f32[4,8] parameter(0)
  zero = s32[] constant(0)
  i = (s32[], f32[4,8]) tuple(zero, x)
  w = (s32[], f32[4,8]) while(i), condition=cond, body=body
  ROOT r = f32[4,8] get-tuple-element(w), index=1
}}
"""
LAUNCH_MOST = 150  # instructions of the runtime from one call of the driver to the next


def runtime_instructions(gxc, gxrun, trips, folder):
    """Instructions of runtime/run in a run of a loop, and how many kernels its body launches."""
    hlo, program, counts = folder / "loop.hlo", folder / "loop.cubin", folder / "callgrind"
    hlo.write_text(LOOP.format(trips=trips))
    run([gxc, hlo, "--target=emu", "-o", program])
    plan = run([gxc, hlo, "--target=emu", "--emit=plan"])[2]
    run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counts}", gxrun, program,
         "--device=emu", "--no-sandbox", "--input=random:1"])
    rows = run(["callgrind_annotate", "--threshold=100", "--auto=no", counts])[2]
    found = re.findall(r"^ *([0-9,]+) .*runtime/run/[a-z_]+\.c:", rows, re.M)
    return sum(int(n.replace(",", "")) for n in found), len(re.findall(r"^  launch ", plan, re.M))


def launch_table(gxc, gxrun, folder):
    print("\nHost: instructions of the runtime for a launch, outside of CUDA graphs", flush=True)
    if not shutil.which("valgrind"):
        print("  not measured: there is no valgrind")
        return
    (few, launches), (many, _) = (runtime_instructions(gxc, gxrun, n, folder) for n in (100, 300))
    each = (many - few) / (200 * launches)
    print(f"  {each:.1f}, with the step of a loop of {launches} launches; at most {LAUNCH_MOST}"
          f"{'' if each <= LAUNCH_MOST else ': TOO MANY'}")


def emulator_table(build):
    print("\nEmulator: checked accesses, fibres with barriers and shuffles", flush=True)
    subprocess.run([build / "tests/unit/emu_engine", "--bench"], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--part", default="compile,front,growth,work,emulator,launch")
    options = parser.parse_args()
    gxc, gxrun = options.build / "gxc", options.build / "gxrun"
    parts = options.part.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if "compile" in parts:
            compile_table(gxc, gxrun, options.repeat, options.only, folder)
        if "front" in parts:
            front_table(gxc, options.repeat, folder)
        if "growth" in parts:
            growth_table(gxc, options.repeat, folder)
        if "work" in parts:
            work_table(gxc, folder)
        if "launch" in parts:
            launch_table(gxc, gxrun, folder)
    if "emulator" in parts:
        emulator_table(options.build)


if __name__ == "__main__":
    main()
