"""Makes programs for a GPU of lit tests: of all that agree with the evaluator on the emulator.

    record.py BUILD OUT TARGET TEST...

The tests run with stand-ins for gxc and gxrun. What gxc makes for the emulator alone it makes for TARGET, too; where gxrun
compares such a file with the evaluator, and it agrees, OUT gets the file, the evaluator's results, and a line of recorded.txt,
which `check` runs: a name, and gxrun's arguments. Tests that fail are not recorded: what they say is not told.
"""
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

MOST_BYTES = 3 << 20  # of a program with its results
STAND_IN = '#!/bin/sh\nexec "{python}" "{script}" {name} "{build}" "{out}" {target} "$@"\n'


def as_gxc(build, out, target, arguments):
    targets = [a for a in arguments if a.startswith("--target=")]
    if targets == ["--target=emu"] and not any(a.startswith("--emit") for a in arguments):
        arguments = [*arguments, f"--target={target}"]
    os.execv(build / "gxc", ["gxc", *arguments])


def keep(build, out, target, program, hlo, inputs, tolerances):
    """A line of recorded.txt, once for the same bytes with the same inputs."""
    info = json.loads(subprocess.run([build / "gxrun", program, "--info=json"], check=True, capture_output=True, text=True).stdout)
    if not any(target in v["target"] for v in info["variants"] if v["target"]):
        return
    name = hashlib.sha256(pathlib.Path(program).read_bytes() + " ".join(inputs).encode()).hexdigest()[:16]
    kept = out / f"{name}.cubin"
    files = [out / f"{name}.{i}.npy" for i in range(len(info["results"]))]
    if kept.exists():
        return
    shutil.copy(program, kept)
    subprocess.run([build / "gxrun", hlo, "--device=ref", "-q", *inputs, *(f"--output=@{f}" for f in files)], check=True,
                   capture_output=True)
    if sum(f.stat().st_size for f in [kept, *files]) > MOST_BYTES:
        for f in [kept, *files]:
            f.unlink()
        return
    line = " ".join([f"{pathlib.Path(hlo).name}.{name}", f"data/{kept.name}", *inputs, *tolerances,
                     *(f"--compare=@data/{f.name}" for f in files)])
    with open(out / "recorded.txt", "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.write(line + "\n")


def as_gxrun(build, out, target, arguments):
    code = subprocess.run([build / "gxrun", *arguments]).returncode
    options = [a for a in arguments if a.startswith("-")]
    files = [a for a in arguments if not a.startswith("-")]
    hlo = [a[len("--hlo="):] for a in options if a.startswith("--hlo=")]
    inputs = [a for a in options if a.startswith("--input=")]
    tolerances = [a for a in options if re.match("--[ra]tol=", a)]
    known = {"--compare=ref", "-q", "--quiet", *inputs, *tolerances, *(f"--hlo={h}" for h in hlo)}
    on_emulator = [a for a in options if re.match("--device=emu", a)]
    if code == 0 and len(files) == 1 and hlo and on_emulator and "--compare=ref" in options and \
            not set(options) - known - set(on_emulator) and not any("@" in a for a in inputs):
        keep(build, out, target, files[0], hlo[0], inputs, tolerances)
    sys.exit(code)


def record(build, out, target, tests):
    out.mkdir(parents=True, exist_ok=True)
    stand_ins = out / "build"
    shutil.rmtree(stand_ins, ignore_errors=True)
    (stand_ins / "tests").mkdir(parents=True)
    for entry in build.iterdir():  # not what tests write to
        if entry.name not in ("gxc", "gxrun", "obj", "tests"):
            (stand_ins / entry.name).symlink_to(entry)
    for name in ("gxc", "gxrun"):
        path = stand_ins / name
        path.write_text(STAND_IN.format(python=sys.executable, script=pathlib.Path(__file__).resolve(), name=name, build=build,
                                        out=out, target=target))
        path.chmod(0o755)
    llvm = subprocess.run([os.environ.get("LLVM_CONFIG", "llvm-config-22"), "--bindir"], check=True, capture_output=True, text=True)
    environment = os.environ | {"PATH": f"{llvm.stdout.strip()}:{os.environ['PATH']}"}
    subprocess.run(["lit", "-q", "-D", f"build={stand_ins}", "-D", "san=", *tests], stdout=subprocess.DEVNULL,
                   env=environment)
    shutil.rmtree(stand_ins)
    lines = out / "recorded.txt"
    text = "".join(sorted(lines.read_text().splitlines(keepends=True))) if lines.exists() else ""
    lines.write_text(text)
    print(f"{text.count(chr(10))} programs recorded")
    return 0 if text else 1


def main():
    if sys.argv[1] in ("gxc", "gxrun"):
        build, out, target = pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
        {"gxc": as_gxc, "gxrun": as_gxrun}[sys.argv[1]](build, out, target, sys.argv[5:])
    build, out = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    return record(build, out, sys.argv[3], sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
