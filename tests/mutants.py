#!/usr/bin/env python3
"""Mutation testing: small faults are put into the sources; each must be noticed by a test.

    tests/mutants.py BUILD [--area NAME] [--count N] [--seed N] [--only TEXT]

All faults of an area are compiled at once, behind a number that GXC_MUTANT chooses, so that a mutant costs a run of
the area's tests and no build. A mutant is known by file, function, kind and text, the second of a name on by its number
among them, too, not by a line. tests/mutants.txt keeps those that survive, with the reason why they may: one that
survives and is not there is an error. BUILD is an ordinary build; what is made lies in BUILD/mutants."""
import argparse
import functools
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 30  # a test that takes so much longer than without a mutant hangs, and has noticed

RUNNER = ["lit:runtime/async-call.hlo", "lit:runtime/damaged.test", "lit:runtime/describe.hlo", "lit:runtime/errors.hlo",
          "lit:runtime/graphs.hlo", "lit:runtime/initcheck.hlo", "lit:runtime/limits.test", "lit:runtime/measure.hlo",
          "lit:runtime/refused.test", "lit:runtime/replicas.hlo", "lit:runtime/swap*.hlo", "lit:runtime/tune.test",
          "lit:runtime/usage.test", "lit:runtime/worlds.test"]  # by gxrun, which is of the mutants there

# sources, then what tests them: unit programs, kept inputs of fuzzing (replay-), random modules, and lit tests by glob
AREAS = {
    "plan": (["runtime/plan/read.c", "runtime/plan/commands.c", "runtime/plan/check.c", "runtime/plan/graph.c",
              "runtime/plan/matmul.c", "runtime/plan/walk.c", "runtime/plan/capture.c", "runtime/plan/counts.c",
              "runtime/plan/elf.c", "runtime/plan/description.c", "runtime/plan/write.c"],
             ["plan", "plan_frame", "plan_limits", "plan_commands", "plan_check", "plan_graph", "plan_matmul", "plan_capture", "no_memory",
              "session_checks", "session_run", "misuse_gxrt", "replay-execute", *RUNNER]),
    "run": (["runtime/run/check.c", "runtime/run/execute.c", "runtime/run/session.c", "runtime/run/memory.c",
             "runtime/run/control.c", "runtime/run/select.c", "runtime/run/program.c", "runtime/run/requirements.c",
             "runtime/run/run.c", "runtime/run/workers.c"],
            ["session_checks", "session_libraries", "session_run", "session_program", "program_queries", "plan_capture", "plan_check", "plan_graph",
              "communicators", "locks", "no_memory", "misuse_gxrt", "emu_gxrt", "world", "wait", "replay-execute", *RUNNER]),
    "collective": (["runtime/collective/collective.c", "runtime/collective/resolve.c", "runtime/collective/world.c",
                    "runtime/collective/communicator.c", "runtime/collective/store_file.c",
                    "runtime/collective/store_tcp.c", "runtime/collective/watchdog.c"],
                   ["communicators", "watchdog", "locks", "no_memory", "world", "store", "session_program", "wait", "misuse_gxrt", "replay-execute",
                    "collectives", "collective_faults", "collective_stops"]),
    "check": (["codegen/check.c"],
              ["check_test", "lit:codegen/refused.hlo", "lit:codegen/refused-parts.hlo", "lit:codegen/sub-byte.hlo", "lit:codegen/many-operands.hlo",
               "lit:codegen/rank.hlo", "lit:codegen/devices.hlo", "lit:codegen/nested-refused.hlo",
               "lit:passes/collective-form.hlo", "lit:frontend/refused-calls.hlo", "lit:runtime/replicas.hlo",
               "lit:frontend/buffer-result.hlo", "lit:dynamic/unsupported.hlo", "lit:codegen/narrow-contract.hlo",
               "lit:frontend/forms.hlo", "lit:verify/collectives.hlo", "random"]),
    "schedule": (["passes/schedule/*.c"],
                 ["schedule_test", "memory_order", "tasks_test", "model_test", "lit:passes/copy-insertion*.hlo",
                  "lit:passes/schedule*.hlo", "lit:passes/scheduling-groups.hlo", "lit:passes/latency-hiding.hlo",
                  "lit:passes/overlap-limits.hlo", "lit:passes/async-c*.hlo", "lit:passes/simulate.hlo",
                  "lit:passes/stream-annotations.hlo", "lit:overlap/*.hlo", "lit:runtime/schedules.hlo",
                  "lit:runtime/control-successor*.hlo", "lit:runtime/swap*.hlo", "lit:runtime/donated_loop.hlo",
                  "lit:runtime/update-*.hlo", "lit:runtime/loop-*.hlo", "lit:codegen/streams.hlo", "random"]),
    "buffers": (["codegen/plan/buffers.c"],
                ["buffers_test", "lit:codegen/async-*.hlo", "lit:codegen/collective-memory.hlo", "lit:codegen/concatenate-many.hlo",
                 "lit:codegen/streams.hlo", "lit:codegen/plan-alone.hlo", "lit:codegen/reduction-in-place.hlo",
                 "lit:passes/in-place-bitcast.hlo", "lit:passes/host-memory.hlo", "lit:passes/unread-values.hlo",
                 "lit:passes/own-values.hlo", "lit:passes/left-out.hlo", "lit:runtime/swap*.hlo",
                 "lit:runtime/donated_loop.hlo", "lit:runtime/loop-*.hlo", "lit:runtime/update-*.hlo",
                 "lit:runtime/random-state.hlo", "lit:runtime/graphs.hlo", "lit:dynamic/control.hlo", "random"]),
    "number": (["ir/number/number.c", "ir/number/convert.c", "ir/number/text.c"], ["number_test", "number_convert_test", "narrow_test", "scalar_test", "format_test"]),
}

# Number 0 is no mutant: of each number whose code is reached then, a byte of the file GXC_REACHED is set. The file is
# mapped before main, since a process in a sandbox opens none.
SELECTOR = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static char *mutants_reached;
__attribute__((constructor)) static void map_mutants_reached(void)
{
    const char *path = getenv("GXC_REACHED");
    int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    void *all = fd >= 0 && ftruncate(fd, NUMBERS_MOST) == 0
                    ? mmap(0, NUMBERS_MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    mutants_reached = all != MAP_FAILED ? all : 0;
    if (fd >= 0)
        close(fd);
}
static inline int mutant(int n)
{
    static int chosen = -1;
    if (chosen < 0) {
        const char *text = getenv("GXC_MUTANT");
        chosen = text ? atoi(text) : 0;
    }
    if (chosen == 0 && mutants_reached)
        mutants_reached[n] = 1;
    return chosen == n;
}
"""
NUMBERS_MOST = 10000

CHAIN = r"[A-Za-z_][\w.]*(?:->\w+|\[\w+\])*|\d+"  # x, x.y->z, x[i], 12
COMPARE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}


@dataclass
class Mutant:
    path: str
    function: str
    kind: str
    line: int
    start: int  # in the file's text
    end: int
    text: str  # the new text, with N for the number


def keys_of(path: str, mutants: list) -> dict:
    """Of all mutants of a file, by their positions: a name; from the second of a name on, with its number."""
    source, names, seen = (ROOT / path).read_text(), {}, {}
    for m in sorted(mutants, key=lambda m: m.start):
        was = " ".join(source[m.start:m.end].split())
        name = f"{path} {m.function} {m.kind} {was[:100].rstrip()}"
        seen[name] = seen.get(name, 0) + 1
        names[path, m.start, m.end, m.kind] = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return names


def masked(text: str) -> str:
    """The same length; comments, strings and preprocessor lines are blank."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)


def closing(text: str, at: int) -> int:
    """Of the bracket at `at`: the position of its partner."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return len(text)


def terms(text: str, start: int, end: int) -> list:
    """(operator, start, end) of what && or || joins at the top."""
    found, depth, last, operator, i = [], 0, start, None, start
    while i < end:
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and text[i:i + 2] in ("&&", "||"):
            if operator not in (None, text[i:i + 2]):
                return []
            operator = text[i:i + 2]
            found.append((operator, last, i))
            last = i = i + 2
            continue
        if depth == 0 and text[i] in "?,":
            return []
        i += 1
    return [*found, (operator, last, end)] if found else []


def mutants_of_body(path: str, function: str, text: str, start: int, end: int) -> list:
    """`text` is masked; the body is [start, end)."""
    found = []

    def add(kind: str, at: int, to: int, new: str) -> None:
        found.append(Mutant(path, function, kind, text.count("\n", 0, at) + 1, at, to, new))

    def is_constant(at: int) -> bool:
        line = text[text.rfind("\n", 0, at) + 1:at]
        return re.search(r"\b(static|case|enum|_Static_assert|sizeof)\b", line) is not None

    body = text[start:end]
    for m in re.finditer(r"\b(if|while|return)\b\s*(\()?", body):
        if m[1] == "return":
            first, last = start + m.end(1), text.index(";", start + m.end(1))
        elif m[2]:
            first, last = start + m.end(), closing(text, start + m.end() - 1)
        else:
            continue
        for operator, a, b in terms(text, first, last):
            add("dropped-condition", a, b, f" (mutant(N) ? {1 if operator == '&&' else 0} : (bool)({{}}))")
        if m[1] == "if":
            add("negated", first, last, "mutant(N) != (bool)({})")
    around = rf"(?<=[(=!?:&|]|[ ,])\b({CHAIN}) ({'|'.join(map(re.escape, COMPARE))}|-) ({CHAIN})(?= ?(?:&&|\|\||[;)?:,]))"
    for m in re.finditer(around, body):
        before = body[:m.start()].rstrip()
        if not before.endswith(("(", "&&", "||", "return", "=", "?", ",")) or before.endswith(("==", "<=", ">=", "!=")):
            continue
        at, to = start + m.start(), start + m.end()
        if is_constant(at):
            continue
        a, operator, b = m[1], m[2], m[3]
        if operator == "-":
            add("swapped", at, to, f"(mutant(N) ? {b} - {a} : {a} - {b})")
        else:
            add("comparison", at, to, f"(mutant(N) ? {a} {COMPARE[operator]} {b} : {a} {operator} {b})")
    for m in re.finditer(r"(?<![\w.\[])(\d+)(?![\w.\]])", body):
        if not is_constant(start + m.start()):
            add("constant", start + m.start(), start + m.end(), f"(mutant(N) ? {m[1]} + 1 : {m[1]})")
    statement = r"^ +(?:\*?[A-Za-z_][\w.]*(?:->\w+|\[[^\]\n]*\])* (?:[-+*/|&^]?=)|[A-Za-z_]\w*\()[^;{}]*;$"
    for m in re.finditer(statement, body, flags=re.M):
        if not re.match(r" *(if|for|while|switch|return|sizeof|PLAN_\w+|ARENA_\w+ )\b", m[0]):
            add("dropped-statement", start + m.start(), start + m.end(), "{{ if (!mutant(N)) {{ {} }} }}")
    return found


def mutants_of(path: str) -> list:
    text = masked((ROOT / path).read_text())
    found = []
    for m in re.finditer(r"^[A-Za-z_][^\n;={}]*?\b(\w+)\([^;{}]*\)\n\{", text, flags=re.M):
        found += mutants_of_body(path, m[1], text, m.end(), text.find("\n}", m.end()))
    return found


def is_statement(m: Mutant) -> bool:
    """Not a macro's call that stands before a declaration, nor the last line of a longer call."""
    text = masked((ROOT / m.path).read_text())[m.start:m.end]
    call = re.match(r" *[A-Za-z_]\w*(\()", text)
    return call is None or text[closing(text, call.start(1)) + 1:][:1] in (";", "[")


def apart(mutants: list) -> list:
    """At most one of those that share text: a file holds them all."""
    kept = []
    for m in mutants:
        if all(m.path != k.path or m.end <= k.start or m.start >= k.end for k in kept):
            kept.append(m)
    return kept


def write_source(out: Path, path: str, mutants: list) -> None:
    source = (ROOT / path).read_text()
    for number, m in sorted(mutants, key=lambda x: -x[1].start):
        new = m.text.replace("{{", "\0").replace("}}", "\1").replace("{}", source[m.start:m.end])
        new = new.replace("\0", "{").replace("\1", "}").replace("(N)", f"({number})")
        source = source[:m.start] + new + source[m.end:]
    out.parent.mkdir(parents=True, exist_ok=True)
    wants = "".join(re.findall(r"^#define _\w+_SOURCE.*\n", source, flags=re.M))  # before any header
    selector = SELECTOR.replace("NUMBERS_MOST", str(NUMBERS_MOST))
    out.write_text(f"{wants}#include <stdbool.h>{selector}#line 1 \"{path}\"\n{source}")


def lit_folder(b: Path, paths: list) -> Path:
    """What lit takes for a build: with the compiler or with the runner of the mutants."""
    return b / "mutants" / ("lit-run" if paths[0].startswith("runtime/") else "lit")


def program(b: Path, test: str, paths: list) -> Path:
    """What runs it."""
    if test.startswith("lit:"):
        folder = lit_folder(b, paths)
        return folder / ("gxrun" if folder.name == "lit-run" else "gxc")
    return b / "mutants" / (test if test.startswith("replay-") or test == "random" else f"unit/{test}")


def command(b: Path, tests: list, sources: list) -> list:
    if tests[0].startswith("lit:"):
        paths = [f"tests/{t.removeprefix('lit:')}" for t in tests]
        return ["lit", "-q", "-j1", "--max-failures=1", "-D", f"build={lit_folder(b, sources)}", *paths]
    if tests[0] == "random":
        return [program(b, "random", sources), "-n", "30", "-t", "60", "-j", "1", "-R", "-o", b / "mutants" / "random-found"]
    if tests[0].startswith("replay-"):
        return [program(b, tests[0], sources), ROOT / "tests" / "fuzz" / "corpus" / f"{tests[0].removeprefix('replay-')}.hex"]
    return [program(b, tests[0], sources)]


def found_tests(patterns: list) -> list:
    """Names of lit tests in place of their globs."""
    tests = []
    for p in patterns:
        found = sorted(ROOT.glob(f"tests/{p.removeprefix('lit:')}")) if p.startswith("lit:") else []
        if p.startswith("lit:") and not found:
            sys.exit(f"mutants: no test is called {p}")
        tests += [f"lit:{f.relative_to(ROOT / 'tests')}" for f in found] or [p]
    return tests


def build(b: Path, numbered: dict, tests: list) -> dict:
    """Compiles; what does not compile goes. The mutants that are left."""
    for _ in range(10):
        paths = sorted({m.path for m in numbered.values()})
        for path in paths:
            write_source(b / "mutants" / "src" / path, path, [(n, m) for n, m in numbered.items() if m.path == path])
        programs = sorted({os.path.relpath(program(b, t, paths), ROOT) for t in tests})
        made = subprocess.run(["make", "-s", "-k", f"B={os.path.relpath(b, ROOT)}", f"MUTATED={' '.join(paths)}", *programs], cwd=ROOT,
                              capture_output=True, text=True)
        wrong = {(m[1], int(m[2])) for m in re.finditer(r"^([\w/.-]+):(\d+):\d+: error", made.stderr, flags=re.M)}
        if not wrong:
            if made.returncode:
                sys.exit(f"mutants: the build fails: {made.stderr[-2000:]}")
            return numbered
        numbered = {n: m for n, m in numbered.items()
                    if not any(p == m.path and abs(line - m.line) <= 2 for p, line in wrong)}
    sys.exit("mutants: what was put in does not compile")


@functools.cache
def llvm_folder() -> str:
    llvm_config = os.environ.get("LLVM_CONFIG", "llvm-config-22")
    return subprocess.run([llvm_config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip()


def passes(b: Path, tests: list, sources: list, number: int, seconds: float = 600) -> bool:
    """One test, or several of lit."""
    leaks = 0 if tests == ["wait"] else 1  # what a device may still use is kept there
    env = {**os.environ, "LSAN_OPTIONS": f"suppressions={ROOT}/tests/lsan.supp", "ASAN_OPTIONS": f"detect_leaks={leaks}",
           "GXC_MUTANT": str(number), "GXEMU_SHADOW": "1", "PATH": f"{llvm_folder()}:{os.environ['PATH']}"}
    if number == 0:
        env["GXC_REACHED"] = str(reached_file(b, tests[0]))
    where = ROOT if tests[0].startswith("lit:") else b
    with subprocess.Popen(command(b, tests, sources), env=env, cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return False


def fails_one(b: Path, reaching: list, sources: list, seconds: dict, number: int) -> bool:
    """A program at a time, the quick ones first, then all lit tests in one run of lit."""
    lit = [t for t in reaching if t.startswith("lit:")]
    for one in [*([t] for t in reaching if t not in lit), *([lit] if lit else [])]:
        if not passes(b, one, sources, number, SECONDS + 4 * sum(seconds[t] for t in one)):
            return True
    return False


def reached_file(b: Path, test: str) -> Path:
    return b / "mutants" / f"{test.replace('/', '-')}.reached"


def run_without(b: Path, tests: list, sources: list) -> tuple:
    """Each test's seconds and the numbers of the mutants that it reaches."""
    seconds, reached = {}, {}
    for t in tests:
        reached_file(b, t).unlink(missing_ok=True)
        start = time.monotonic()
        if not passes(b, [t], sources, 0):
            sys.exit(f"mutants: {t} fails without a mutant")
        seconds[t] = time.monotonic() - start
        flags = reached_file(b, t).read_bytes() if reached_file(b, t).exists() else b""
        reached[t] = {n for n, flag in enumerate(flags) if flag}
    return seconds, reached


def known_survivors() -> dict:
    """Of tests/mutants.txt: KEY | reason."""
    lines = (ROOT / "tests" / "mutants.txt").read_text().splitlines()
    return dict(tuple(part.strip() for part in line.rsplit(" | ", 1)) for line in lines if line and line[0] != "#")


def run_area(b: Path, area: str, count: int, seed: int, only: list) -> tuple:
    """(mutants, killed, survivors without a reason)"""
    globs, tests = AREAS[area][0], found_tests(AREAS[area][1])
    paths = sorted({str(p.relative_to(ROOT)) for g in globs for p in ROOT.glob(g)})
    found = {p: mutants_of(p) for p in paths}
    all_of_them = [m for p in paths for m in found[p]]
    names = {position: name for p in paths for position, name in keys_of(p, found[p]).items()}
    random.Random(seed).shuffle(all_of_them)
    if only:
        all_of_them = [m for m in all_of_them if any(text in names[m.path, m.start, m.end, m.kind] for text in only)]
    whole = [m for m in all_of_them if m.kind != "dropped-statement" or is_statement(m)]
    numbered = dict(enumerate(apart(whole)[:count], 1))
    numbered = build(b, numbered, tests)
    keys = {n: names[m.path, m.start, m.end, m.kind] for n, m in numbered.items()}
    seconds, reached = run_without(b, tests, paths)
    reasons, killed, unknown = known_survivors(), 0, []
    for number, m in sorted(numbered.items()):
        reaching = sorted((t for t in tests if number in reached[t]), key=seconds.get)
        if fails_one(b, reaching, paths, seconds, number):
            killed += 1
            continue
        key = keys[number]
        known = key in reasons
        how = f"survives{' (known)' if known else ''}" if reaching else f"not reached{' (known)' if known else ''}"
        print(f"{how}: {m.path}:{m.line}: {key}", flush=True)
        if not known:
            unknown.append(key)
    print(f"{area}: {len(numbered)} mutants, {killed} killed, {len(unknown)} survive without a reason", flush=True)
    return len(numbered), killed, unknown


def link_beside(folder: Path, b: Path, names: list) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (b / name).exists() and not (folder / name).exists():
            (folder / name).symlink_to(b / name)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--area", choices=AREAS, action="append", help="of these only")
    p.add_argument("--count", type=int, default=60, help="mutants of each area")
    p.add_argument("--seed", type=int, default=1, help="which of them")
    p.add_argument("--only", action="append", default=[], metavar="TEXT", help="those with this in their names")
    a = p.parse_args()
    b = Path(a.build).resolve()
    link_beside(b / "mutants", b, ["programs", "libgxemu.so"])
    others = ["libgxemu.so", "libgxrt.so", "gxc-cudnn", "libgxc-nodriver.so", "tileir"]
    link_beside(b / "mutants" / "lit", b, ["gxrun", *others])
    link_beside(b / "mutants" / "lit-run", b, ["gxc", "libgxc.so", *others])
    results = [run_area(b, area, a.count, a.seed, a.only) for area in a.area or AREAS]
    total, killed = sum(r[0] for r in results), sum(r[1] for r in results)
    print(f"{total} mutants, {killed} killed ({100 * killed / max(total, 1):.1f} %)")
    return 1 if any(r[2] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
