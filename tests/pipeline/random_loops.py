"""Random loops with collectives: the evaluator gives the same values before and after passes.

    random_loops.py PASSES COUNT FIRST_SEED FOLDER GXC... -- GXRUN...

PASSES "all": everything that -O2 does, on the emulator. Integers only, so values are equal bit by bit. Fails at the first seed that differs, whose module and
outputs stay in FOLDER; says at the end how many modules the passes changed.
"""
import pathlib
import random
import subprocess
import sys

DEVICES = 4
ROWS, WIDTH = 6, 8


class Body:
    """The text of one loop's body, with arrays s32[WIDTH] to choose from."""

    def __init__(self, rng, number):
        self.rng, self.number, self.lines, self.arrays, self.count = rng, number, [], [], 0

    def say(self, shape, text, **more):
        self.count += 1
        name = f"v{self.number}_{self.count}"
        self.lines.append(f"  {name} = {shape} {text}")
        return name

    def pick(self):
        return self.rng.choice(self.arrays)

    def index(self, counter):
        """A row: the counter, mirrored, shifted, or fixed; always in range by clamping."""
        kind = self.rng.randrange(5)
        if kind == 0:
            return self.say("s32[]", f"constant({self.rng.randrange(ROWS)})")
        if kind == 1:
            most = self.say("s32[]", f"constant({ROWS - 1})")
            return self.say("s32[]", f"subtract({most}, {counter})")
        if kind == 2:
            by = self.say("s32[]", "constant(1)")
            return self.say("s32[]", f"add({counter}, {by})")
        return counter

    def row(self, table, index, zero):
        sliced = self.say(f"s32[1,{WIDTH}]", f"dynamic-slice({table}, {index}, {zero}), dynamic_slice_sizes={{1,{WIDTH}}}")
        return self.say(f"s32[{WIDTH}]", f"reshape({sliced})")

    def half(self, x):
        return self.say(f"s32[{WIDTH // 4}]", f"slice({x}), slice={{[0:{WIDTH // 4}]}}")

    def maybe_barrier(self, x, shape=f"s32[{WIDTH}]"):
        return self.say(shape, f"opt-barrier({x})") if self.rng.random() < 0.1 else x

    def collective(self, x):
        kind = self.rng.randrange(5)
        wide = f"s32[{WIDTH}]"
        if kind == 0:
            return self.say(wide, f"all-reduce({x}), replica_groups={{}}, to_apply=sum")
        if kind == 1:
            return self.say(wide, f"all-gather({self.half(x)}), replica_groups={{}}, dimensions={{0}}")
        if kind == 2:
            part = self.say(f"s32[{WIDTH // 4}]", f"reduce-scatter({x}), replica_groups={{}}, dimensions={{0}}, to_apply=sum")
            return self.say(wide, f"concatenate({part}, {part}, {part}, {part}), dimensions={{0}}")
        pairs = self.rng.choice(["{{0,1},{1,2},{2,3},{3,0}}", "{{0,1},{2,3}}", "{{0,3},{1,0},{2,1},{3,2}}"])
        return self.say(wide, f"collective-permute({x}), source_target_pairs={pairs}")

    def compute(self, x, y):
        op = self.rng.choice(["add", "subtract", "multiply", "maximum", "xor"])
        control = f", control-predecessors={{{y}}}" if self.rng.random() < 0.05 else ""
        return self.say(f"s32[{WIDTH}]", f"{op}({x}, {y}){control}")


def tuple_shape(shapes):
    return "(" + ", ".join(shapes) + ")"


def loop(rng, number, depth):
    """Definitions of a loop over (counter, carried array, tables read, buffers stored into)."""
    trips = rng.choice([0, 1, 2, 2, 3, 3, 4, 5, 7])
    first, step = rng.choice([0, 0, 0, 1, -2]), rng.choice([1, 1, 1, 2, -1])
    if rng.random() < 0.3:  # every row once
        trips, first, step = ROWS, 0, 1
    tables, buffers = rng.randrange(1, 3), rng.randrange(0, 3)
    table = f"s32[{ROWS},{WIDTH}]"
    wide = f"s32[{WIDTH}]"
    shapes = ["s32[]", wide, wide] + [table] * (tables + buffers)
    b = Body(rng, number)
    b.lines.append(f"  p{number} = {tuple_shape(shapes)} parameter(0)")
    names = [b.say(s, f"get-tuple-element(p{number}), index={i}") for i, s in enumerate(shapes)]
    counter, b.arrays = names[0], [names[1], names[2]]
    zero, by = b.say("s32[]", "constant(0)"), b.say("s32[]", f"constant({step})")
    following = b.say("s32[]", f"add({counter}, {by})")
    inner = ""
    if depth > 0 and rng.random() < 0.5:
        inner, call = loop(rng, number * 10 + 1, depth - 1)
        x = call(b, b.pick(), b.pick(), [names[3]] * 8)
        b.arrays.append(x)
    for t in range(tables):
        row = b.row(names[3 + t], b.index(counter), zero)
        row = b.maybe_barrier(row)
        b.arrays.append(b.collective(row) if rng.random() < 0.8 else row)
    for _ in range(rng.randrange(1, 6)):
        b.arrays.append(b.compute(b.pick(), b.pick()))
        if rng.random() < 0.3:
            b.arrays.append(b.collective(b.pick()))
    results = [following, b.arrays[-1], b.collective(b.pick()) if rng.random() < 0.4 else b.pick()]
    results += names[3:3 + tables]
    for t in range(buffers):
        x = b.collective(b.maybe_barrier(b.pick()))
        if rng.random() < 0.5:
            x = b.compute(x, b.pick())
        x = b.maybe_barrier(x)
        line = b.say(f"s32[1,{WIDTH}]", f"reshape({x})")
        base = b.maybe_barrier(names[3 + tables + t], table)
        results.append(b.say(table, f"dynamic-update-slice({base}, {line}, {b.index(counter)}, {zero})"))
    rng_sum = "" if number != 1 else "sum { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b) }\n"
    shape = tuple_shape(shapes)
    last = first + step * trips
    direction = rng.choice(["NE", "LT" if step > 0 else "GT"])
    text = (f"{rng_sum}{inner}body{number} {{\n" + "\n".join(b.lines) +
            f"\n  ROOT r{number} = {shape} tuple({', '.join(results)})\n}}\n"
            f"condition{number} {{\n  q{number} = {shape} parameter(0)\n"
            f"  j{number} = s32[] get-tuple-element(q{number}), index=0\n"
            f"  n{number} = s32[] constant({last})\n"
            f"  ROOT l{number} = pred[] compare(j{number}, n{number}), direction={direction}\n}}\n")

    def call(outer, x, y, arrays):
        start = outer.say("s32[]", f"constant({first})")
        init = outer.say(shape, f"tuple({', '.join([start, x, y] + arrays[:tables + buffers])})")
        w = outer.say(shape, f"while({init}), condition=condition{number}, body=body{number}")
        got = [outer.say(shapes[i], f"get-tuple-element({w}), index={i}") for i in range(1, len(shapes))]
        result = outer.say(wide, f"add({got[0]}, {got[1]})")
        for buffer in got[2 + tables:]:
            result = outer.say(wide, f"add({result}, {outer.row(buffer, outer.say('s32[]', f'constant({rng.randrange(ROWS)})'), outer.say('s32[]', 'constant(0)'))})")
        return result

    return text, call


def module(seed):
    rng = random.Random(seed)
    text, call = loop(rng, 1, 1)
    main = Body(rng, 0)
    table = f"s32[{ROWS},{WIDTH}]"
    x, y = (main.say(f"s32[{WIDTH}]", f"parameter({i})") for i in range(2))
    tables = [main.say(table, f"parameter({i + 2})") for i in range(4)]
    first = call(main, x, y, tables)
    main.say(f"s32[{WIDTH}]", f"add({first}, {x})")
    main.lines[-1] = "  ROOT" + main.lines[-1][1:]
    return f"HloModule random, replica_count={DEVICES}\n{text}ENTRY main {{\n" + "\n".join(main.lines) + "\n}\n"


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    passes, count, first, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    tools = sys.argv[5:]
    gxc, gxrun = tools[:tools.index("--")], tools[tools.index("--") + 1:]
    folder.mkdir(parents=True, exist_ok=True)
    before, after = folder / "before.hlo", folder / "after.hlo"
    moved = 0
    for seed in range(first, first + count):
        before.write_text(module(seed))
        if passes == "all":
            program = folder / "program.cubin"
            run([*gxc, "-O2", "--target=emu", before, "-o", program])
            run([*gxrun, "-q", program, f"--hlo={before}", "--device=emu", f"--devices={DEVICES}", "--compare=ref"])
            continue
        report = run([*gxc, "-O2", f"--passes={passes}", "--emit=hlo", before, "-o", after, "--report"])
        moved += len(report.splitlines()) > 1
        outputs = f"@{folder}/{{device}}.npy"
        run([*gxrun, "-q", before, "--device=ref", f"--output={outputs}"])
        run([*gxrun, "-q", after, "--device=ref", f"--compare={outputs}"])
    print(f"{count} modules, {moved} changed")
    sys.exit(0 if passes == "all" or moved > count // 2 else "the modules are not what the passes look for")


main()
