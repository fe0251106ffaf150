"""What `make bench` prints: speed of the compiler and of what it makes. Nothing here is a test.

    bench.py BUILD [--only TEXT] [--repeat N]

Programs: the examples and, where they are, the single-device cases of GXC_CASES (or
../shared/cases). Processor times are the best of N runs with one thread.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CASES = pathlib.Path(os.environ.get("GXC_CASES", ROOT.parent / "shared/cases"))


def run(arguments):
    """Processor seconds, peak memory in MB and standard output of a process that must succeed."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([str(a) for a in arguments], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"exit {process.returncode}: {' '.join(map(str, arguments))}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read().decode()


def best(repeat, arguments):
    return min(run(arguments) for _ in range(repeat))


def programs(only):
    found = [(p.stem, p, []) for p in sorted((ROOT / "examples").glob("*/*.hlo"))]
    for path in sorted(CASES.glob("*/case.json")):
        case = json.loads(path.read_text())
        if case["devices"] == 1:
            inputs = [f"--input=@{path.parent}/in/{i}.npy" for i in range(len(case["params"]))]
            found.append((case["name"], path.parent / "prog.hlo", inputs))
    return [p for p in found if only in p[0]]


def chain(n):
    """A module of about n elementwise instructions."""
    lines = ["HloModule chain", "ENTRY main {", "  x0 = f32[64,128]{1,0} parameter(0)"]
    for i in range(1, n):
        op = ("add", "multiply", "maximum", "subtract")[i % 4]
        lines.append(f"  x{i} = f32[64,128]{{1,0}} {op}(x{i - 1}, x{max(0, i - 7)})")
    lines.append(f"  ROOT r = f32[64,128]{{1,0}} negate(x{n - 1})")
    return "\n".join(lines + ["}", ""])


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
        for key in ("launches", "copies", "bytes_accessed", "temp_bytes", "peak_bytes", "spill_bytes"):
            sums[key] = sums.get(key, 0) + report[key]
        sums["compile seconds"] = sums.get("compile seconds", 0) + seconds
        sums["emulated seconds"] = sums.get("emulated seconds", 0) + emulated
    print("sums:", ", ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in sums.items()))
    print(f"geometric mean of compile times: {math.exp(sum(logs) / len(logs)):.3f} s")


def front_table(gxc, repeat, folder):
    start = best(10, [gxc, "--version"])[0]
    print(f"\nStart: {1e3 * start:.1f} ms\n\nParse and verify")
    for n in (1000, 10000, 100000):
        path = folder / "chain.hlo"
        path.write_text(chain(n))
        seconds, memory, _ = best(repeat, [gxc, "--verify", path])
        size = path.stat().st_size
        print(f"  {n:7} instructions, {size / 1e6:6.2f} MB: {seconds:.3f} s, "
              f"{size / 1e6 / max(1e-9, seconds - start):5.0f} MB/s, {memory:.0f} MB of memory")


def emulator_table(build):
    print("\nEmulator: checked accesses, fibres with barriers and shuffles", flush=True)
    subprocess.run([build / "tests/unit/emu_engine", "--bench"], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    gxc, gxrun = options.build / "gxc", options.build / "gxrun"
    with tempfile.TemporaryDirectory() as folder:
        compile_table(gxc, gxrun, options.repeat, options.only, pathlib.Path(folder))
        front_table(gxc, options.repeat, pathlib.Path(folder))
    emulator_table(options.build)


if __name__ == "__main__":
    main()
