#!/usr/bin/env python3
"""Lines that the tests reach, by folder, and functions that none of them calls.

    tests/coverage.py BUILD [--report | --kept] [--uncalled] [lit arguments]

BUILD was made by `make coverage`: clang counts, in files that every process maps, so that forked, sandboxed and
killed ones count, too. --report prints what the last run has counted; --kept counts the kept inputs of fuzzing alone
(tests/fuzz/corpus); --uncalled lists every function that was not called. A function that may stay uncalled stands in tests/uncalled.txt with the reason; another is an error."""
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ["gxc", "gxrun", "gxc-cudnn", "libgxc.so", "libgxrt.so", "libgxemu.so"]
FOLDERS = ["ir", "frontend", "passes", "codegen", "runtime/plan", "runtime/run", "runtime/collective", "runtime/library",
           "runtime/gxrun", "runtime/emu", "runtime/planner"]
LIBRARY = ["runtime/plan", "runtime/run", "runtime/collective", "runtime/library"]  # of the runtime: libgxrt


def tool(name: str) -> str:
    """The one of the clang that compiled: others do not read its files."""
    return subprocess.run(["clang", f"-print-prog-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


def counts(build: Path, only_kept: bool) -> Path:
    return build / ("profile-kept" if only_kept else "profile")


def run_tests(build: Path, arguments: list, only_kept: bool) -> int:
    for fetched in ("cuda", "tileir"):  # what `make setup` fetched, which tests look for in the build
        if (ROOT / "build" / fetched).is_dir() and not os.path.lexists(build / fetched):
            (build / fetched).symlink_to(Path("..") / fetched)
    profile = counts(build, only_kept)
    profile.mkdir(exist_ok=True)
    for old in profile.iterdir():
        old.unlink()
    env = {**os.environ, "B": os.path.relpath(build, ROOT), "CC": "gcc", "LIMIT": "1500",
           "LLVM_PROFILE_FILE": f"{profile}/%m%c.profraw"}
    if only_kept:
        bindir = subprocess.run([os.environ.get("LLVM_CONFIG") or "llvm-config-22", "--bindir"], capture_output=True, text=True, check=True)
        env |= {"PATH": f"{bindir.stdout.strip()}:{os.environ['PATH']}", "GXEMU_SHADOW": "1"}
        tests = sorted((ROOT / "tests" / "fuzz").glob("replay*.test"))
        return subprocess.run(["lit", "-q", "-v", "-j", os.environ.get("J") or "2", "-D", f"build={build}", *tests, *arguments], env=env, cwd=ROOT).returncode
    # it builds again, with other flags
    without = ["--filter-out", "build/install"]
    return subprocess.run([ROOT / "tests" / "run", *without, *arguments], env=env, cwd=ROOT).returncode


def export(build: Path, profile: Path) -> dict:
    raw = sorted(map(str, profile.glob("*.profraw")))
    if not raw:
        sys.exit(f"coverage: nothing was counted in {profile}")
    merged = f"{profile}.profdata"
    subprocess.run([tool("llvm-profdata"), "merge", "-o", merged, *raw], check=True)
    objects = [a for p in PROGRAMS[1:] for a in ("-object", str(build / p))]
    text = subprocess.run([tool("llvm-cov"), "export", "-instr-profile", merged, "-skip-expansions", str(build / PROGRAMS[0]), *objects],
                          capture_output=True, text=True, check=True).stdout
    return json.loads(text)["data"][0]


def name_of(path: str) -> str:
    """Within the tree; "" of what is not."""
    path = os.path.normpath(os.path.join(ROOT, path))
    return os.path.relpath(path, ROOT) if path.startswith(f"{ROOT}/") and "/build" not in path else ""


def by_folder(files: list) -> None:
    lines = defaultdict(lambda: [0, 0])
    for f in files:
        name = name_of(f["filename"])
        folder = next((d for d in FOLDERS if name.startswith(d + "/")), None)
        for key in filter(None, (folder, folder in LIBRARY and "libgxrt", folder and "in all")):
            lines[key][0] += f["summary"]["lines"]["covered"]
            lines[key][1] += f["summary"]["lines"]["count"]
    for folder in [*FOLDERS, "libgxrt", "in all"]:
        reached, count = lines[folder]
        print(f"{folder:20} {count:7} lines {100 * reached / max(count, 1):6.2f} % reached")


def uncalled_functions(functions: list) -> set:
    """As FILE:NAME; a function of several programs is called if one of them calls it."""
    calls = defaultdict(int)
    for f in functions:
        name = name_of(f["filenames"][0])
        if name and any(name.startswith(d + "/") for d in FOLDERS):
            calls[f"{name}:{f['name'].rsplit(':', 1)[-1]}"] += f["count"]
    return {name for name, count in calls.items() if count == 0}


def check_reasons(uncalled: set) -> int:
    known = {}
    for line in (ROOT / "tests" / "uncalled.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            known[name] = reason.strip()
    for name in sorted(uncalled - known.keys()):
        print(f"not called: {name}")
    for name in sorted(known.keys() - uncalled):
        print(f"called, or gone, but listed in tests/uncalled.txt: {name}")
    print(f"{len(uncalled)} functions are not called, {len(uncalled & known.keys())} of them with a reason")
    return 1 if uncalled - known.keys() else 0


def main() -> int:
    build, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    only_report, only_kept, lists = ("--report" in arguments, "--kept" in arguments, "--uncalled" in arguments)
    arguments = [a for a in arguments if a not in ("--report", "--kept", "--uncalled")]
    failed = 0 if only_report else run_tests(build, arguments, only_kept)
    data = export(build, counts(build, only_kept))
    by_folder(data["files"])
    uncalled = uncalled_functions(data["functions"])
    if lists:
        print("\n".join(sorted(uncalled)))
    return failed if only_kept else check_reasons(uncalled) or failed


if __name__ == "__main__":
    sys.exit(main())
