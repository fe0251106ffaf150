#!/usr/bin/env python3
"""Mutation testing: small faults are put into the sources; each must be noticed by a test.

    tests/mutants.py BUILD [--area NAME] [--count N] [--seed N] [--list]

All faults of an area are compiled at once, behind a number that GXC_MUTANT chooses, so that a mutant costs a run of
the area's tests and no build. A mutant is known by file, function, kind and text, not by a line. tests/mutants.txt
keeps those that survive, with the reason why they may: one that survives and is not there is an error. BUILD is an
ordinary build; what is made lies in BUILD/mutants."""
import argparse
import os
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 30  # a test that takes longer hangs, and has noticed

# sources, then what tests them: unit programs, quick ones first, and folders of inputs to replay
AREAS = {
    "plan": (["runtime/plan/read.c", "runtime/plan/commands.c", "runtime/plan/check.c", "runtime/plan/graph.c",
              "runtime/plan/matmul.c", "runtime/plan/walk.c", "runtime/plan/capture.c", "runtime/plan/counts.c",
              "runtime/plan/elf.c", "runtime/plan/description.c", "runtime/plan/write.c"],
             ["plan", "plan_limits", "plan_check", "plan_graph", "session_checks", "session_run", "misuse_gxrt", "replay-execute"]),
    "run": (["runtime/run/check.c", "runtime/run/execute.c", "runtime/run/session.c", "runtime/run/memory.c",
             "runtime/run/control.c", "runtime/run/select.c", "runtime/run/program.c"],
            ["session_checks", "session_run", "misuse_gxrt", "emu_gxrt", "world", "replay-execute"]),
    "collective": (["runtime/collective/collective.c", "runtime/collective/resolve.c", "runtime/collective/world.c",
                    "runtime/collective/communicator.c", "runtime/collective/store_file.c",
                    "runtime/collective/store_tcp.c", "runtime/collective/watchdog.c"],
                   ["communicators", "world", "store", "misuse_gxrt", "replay-execute", "collectives",
                    "collective_faults", "collective_stops"]),
    "check": (["codegen/check.c"], ["codegen_test", "plan_check"]),
    "schedule": (["passes/schedule/*.c"], ["schedule_test", "memory_order", "tasks_test", "model_test"]),
    "buffers": (["codegen/plan/buffers.c"], ["memory_colour", "memory_order"]),
    "number": (["ir/number*.c"], ["number_test", "narrow_test", "scalar_test", "format_test"]),
}

SELECTOR = """
#include <stdlib.h>
static inline int mutant(int n)
{
    static int chosen = -1;
    if (chosen < 0) {
        const char *text = getenv("GXC_MUTANT");
        chosen = text ? atoi(text) : 0;
    }
    return chosen == n;
}
"""

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
    text: str  # what takes the place, with N for the number

    def key(self, source: str) -> str:
        was = " ".join(source[self.start:self.end].split())
        return f"{self.path} {self.function} {self.kind} {was[:100]}"


def masked(text: str) -> str:
    """The same length; comments, strings and preprocessor lines are blank."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)


def closing(text: str, at: int) -> int:
    """Of the bracket at `at`: the place of its partner."""
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
    out.write_text(f"#include <stdbool.h>{SELECTOR}#line 1 \"{path}\"\n{source}")


def program(b: Path, test: str) -> Path:
    return b / "mutants" / (test if test.startswith("replay-") else f"unit/{test}")


def build(b: Path, numbered: dict, tests: list) -> dict:
    """Compiles; what does not compile goes. The mutants that are left."""
    for _ in range(10):
        paths = sorted({m.path for m in numbered.values()})
        for path in paths:
            write_source(b / "mutants" / "src" / path, path, [(n, m) for n, m in numbered.items() if m.path == path])
        programs = [os.path.relpath(program(b, t), ROOT) for t in tests]
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


def passes(b: Path, test: str, number: int) -> bool:
    arguments = [ROOT / "tests" / "fuzz" / "corpus" / f"{test.removeprefix('replay-')}.hex"] if test.startswith("replay-") else []
    env = {**os.environ, "GXC_MUTANT": str(number), "GXEMU_SHADOW": "1"}
    try:
        return subprocess.run([program(b, test), *arguments], env=env, cwd=b, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              stdin=subprocess.DEVNULL, timeout=SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def known_survivors() -> dict:
    """Of tests/mutants.txt: KEY | reason."""
    lines = (ROOT / "tests" / "mutants.txt").read_text().splitlines()
    return dict(tuple(part.strip() for part in line.rsplit(" | ", 1)) for line in lines if line and line[0] != "#")


def run_area(b: Path, area: str, count: int, seed: int) -> tuple:
    """(mutants, killed, survivors without a reason)"""
    globs, tests = AREAS[area]
    paths = sorted({str(p.relative_to(ROOT)) for g in globs for p in ROOT.glob(g)})
    all_of_them = [m for p in paths for m in mutants_of(p)]
    random.Random(seed).shuffle(all_of_them)
    numbered = dict(enumerate(apart(all_of_them)[:count], 1))
    numbered = build(b, numbered, tests)
    tests = [t for t in tests if passes(b, t, 0) or sys.exit(f"mutants: {t} fails without a mutant")]
    reasons, killed, unknown = known_survivors(), 0, []
    for number, m in sorted(numbered.items()):
        if any(not passes(b, t, number) for t in tests):
            killed += 1
            continue
        key = m.key((ROOT / m.path).read_text())
        known = key in reasons
        print(f"survives{' (known)' if known else ''}: {m.path}:{m.line}: {key}", flush=True)
        if not known:
            unknown.append(key)
    print(f"{area}: {len(numbered)} mutants, {killed} killed, {len(unknown)} survive without a reason", flush=True)
    return len(numbered), killed, unknown


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--area", choices=AREAS, action="append", help="of these only")
    p.add_argument("--count", type=int, default=60, help="mutants of each area")
    p.add_argument("--seed", type=int, default=1, help="which of them")
    a = p.parse_args()
    b = Path(a.build).resolve()
    (b / "mutants").mkdir(parents=True, exist_ok=True)
    for name in ("programs", "libgxemu.so"):
        link = b / "mutants" / name
        if not link.exists():
            link.symlink_to(f"../{name}")
    results = [run_area(b, area, a.count, a.seed) for area in a.area or AREAS]
    total, killed = sum(r[0] for r in results), sum(r[1] for r in results)
    print(f"{total} mutants, {killed} killed ({100 * killed / max(total, 1):.1f} %)")
    return 1 if any(r[2] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
