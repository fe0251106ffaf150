"""Modules of about N instructions, for measuring how time and memory grow (tests/bench.py).

    generate.py KIND N > OUT.hlo
"""
import sys

F32 = "f32[64,128]{1,0}"
ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n"
OPS = ("add", "multiply", "maximum", "subtract")


def steps(first, n, value="x0"):
    """n elementwise instructions, each of the one before and of one further back."""
    names, lines = [value] * 7, []
    for i in range(first, first + n):
        lines.append(f"  y.{i} = {F32} {OPS[i % 4]}({names[-1]}, {names[-7]})")
        names.append(f"y.{i}")
    return lines, names[-1]


def chain(n):
    lines, last = steps(1, n - 2)
    return "", [f"  x0 = {F32} parameter(0)", *lines, f"  ROOT r = {F32} negate({last})"]


def wide(n):
    """16 layers of n / 16 values, each read twice in the next layer; their sum."""
    width = max(8, n // 18)
    lines = [f"  p = f32[{width},128]{{1,0}} parameter(0)"]
    for i in range(width):
        lines.append(f"  v0_{i} = f32[1,128]{{1,0}} slice(p), slice={{[{i}:{i + 1}], [0:128]}}")
    for layer in range(1, 17):
        for i in range(width):
            other = (i + 1 + layer % 7) % width
            lines.append(f"  v{layer}_{i} = f32[1,128]{{1,0}} {OPS[(i + layer) % 4]}"
                         f"(v{layer - 1}_{i}, v{layer - 1}_{other})")
    names, layer = [f"v16_{i}" for i in range(width)], 0
    while len(names) > 1:
        layer += 1
        sums = []
        for i in range(0, len(names) - 1, 2):
            lines.append(f"  s{layer}_{i} = f32[1,128]{{1,0}} add({names[i]}, {names[i + 1]})")
            sums.append(f"s{layer}_{i}")
        names = sums + names[len(names) // 2 * 2:]
    lines[-1] = lines[-1].replace("  s", "  ROOT s", 1)
    return "", lines


def block(i, value):
    """Nine instructions as a model's layer has them: a dot, a bias, a maximum, a mean taken off."""
    return [
        f"  d.{i} = {F32} dot({value}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"  e.{i} = {F32} add(d.{i}, bias)",
        f"  f.{i} = {F32} maximum(e.{i}, zeros)",
        f"  g.{i} = f32[64]{{0}} reduce(f.{i}, zero), dimensions={{1}}, to_apply=add",
        f"  h.{i} = f32[64]{{0}} multiply(g.{i}, share)",
        f"  k.{i} = {F32} broadcast(h.{i}), dimensions={{0}}",
        f"  l.{i} = {F32} subtract(f.{i}, k.{i})",
        f"  m.{i} = {F32} exponential(l.{i})",
        f"  n.{i} = {F32} add(m.{i}, {value})"]


LAYER_VALUES = [
    "  zero = f32[] constant(0)", f"  zeros = {F32} broadcast(zero), dimensions={{}}",
    "  part = f32[] constant(0.0078125)", "  share = f32[64]{0} broadcast(part), dimensions={}",
    f"  bias = {F32} broadcast(b), dimensions={{1}}"]


def layers(n):
    lines = [f"  x0 = {F32} parameter(0)", "  w = f32[128,128]{1,0} parameter(1)",
             "  b = f32[128]{0} parameter(2)", *LAYER_VALUES]
    value = "x0"
    for i in range(max(1, n // 9)):
        lines += block(i, value)
        value = f"n.{i}"
    return ADD, [*lines, f"  ROOT r = {F32} negate({value})"]


def collectives(n):
    """A chain of n / 2 all-reduces with an addition between two of them."""
    lines, value = [f"  x0 = {F32} parameter(0)"], "x0"
    for i in range(max(1, n // 2)):
        lines += [f"  a.{i} = {F32} all-reduce({value}), replica_groups={{{{0,1,2,3}}}}, to_apply=add",
                  f"  b.{i} = {F32} add(a.{i}, x0)"]
        value = f"b.{i}"
    return ADD, [*lines, f"  ROOT r = {F32} negate({value})"]


def gathers(n):
    """n / 3 all-gathers of slices, none of which waits for another: combiners and schedules."""
    count = max(2, n // 3)
    lines = [f"  p = f32[{count},128]{{1,0}} parameter(0)", "  zero = f32[] constant(0)",
             "  s = f32[4,128]{1,0} broadcast(zero), dimensions={}"]
    value = "s"
    for i in range(count):
        lines += [f"  c.{i} = f32[1,128]{{1,0}} slice(p), slice={{[{i}:{i + 1}], [0:128]}}",
                  f"  g.{i} = f32[4,128]{{1,0}} all-gather(c.{i}), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}",
                  f"  t.{i} = f32[4,128]{{1,0}} add({value}, g.{i})"]
        value = f"t.{i}"
    return ADD, [*lines, f"  ROOT r = f32[4,128]{{1,0}} negate({value})"]


def loop(n):
    """A loop of ten steps whose body has n instructions: layers, each followed by an all-reduce."""
    tuple_type = f"(s32[], {F32}, f32[128,128]{{1,0}}, f32[128]{{0}})"
    body = [f"body {{\n  t = {tuple_type} parameter(0)", "  i = s32[] get-tuple-element(t), index=0",
            f"  x0 = {F32} get-tuple-element(t), index=1",
            "  w = f32[128,128]{1,0} get-tuple-element(t), index=2",
            "  b = f32[128]{0} get-tuple-element(t), index=3", *LAYER_VALUES]
    value = "x0"
    for k in range(max(1, n // 10)):
        body += block(k, value)
        body.append(f"  z.{k} = {F32} all-reduce(n.{k}), replica_groups={{{{0,1,2,3}}}}, to_apply=add")
        value = f"z.{k}"
    body += ["  one = s32[] constant(1)", "  j = s32[] add(i, one)",
             f"  ROOT r = {tuple_type} tuple(j, {value}, w, b)\n}}"]
    condition = ["condition {", f"  t = {tuple_type} parameter(0)", "  i = s32[] get-tuple-element(t), index=0",
                 "  ten = s32[] constant(10)", "  ROOT c = pred[] compare(i, ten), direction=LT\n}\n"]
    main = [f"  x0 = {F32} parameter(0)", "  w = f32[128,128]{1,0} parameter(1)", "  b = f32[128]{0} parameter(2)",
            "  i = s32[] constant(0)", f"  t = {tuple_type} tuple(i, x0, w, b)",
            f"  l = {tuple_type} while(t), condition=condition, body=body",
            f"  ROOT y = {F32} get-tuple-element(l), index=1"]
    return ADD + "\n" + "\n".join(body) + "\n\n" + "\n".join(condition), main


def sums(n):
    """A loop of ten steps whose body adds n / 4 all-reduces to as many accumulators: code motion."""
    count = max(1, n // 4)
    kind = "f32[4]{0}"
    tuple_type = "(s32[], " + ", ".join([kind] * (count + 1)) + ")"
    body = [f"body {{\n  t = {tuple_type} parameter(0)", "  i = s32[] get-tuple-element(t), index=0",
            f"  x = {kind} get-tuple-element(t), index=1", "  one = s32[] constant(1)", "  j = s32[] add(i, one)"]
    for k in range(count):
        body += [f"  o.{k} = {kind} get-tuple-element(t), index={k + 2}" if k + 1 < count else f"  o.{k} = {kind} copy(x)",
                 f"  m.{k} = {kind} {OPS[k % 4]}(x, x)",
                 f"  a.{k} = {kind} all-reduce(m.{k}), replica_groups={{{{0,1,2,3}}}}, to_apply=add",
                 f"  n.{k} = {kind} add(o.{k}, a.{k})"]
    body.append(f"  ROOT r = {tuple_type} tuple(j, x, " + ", ".join(f"n.{k}" for k in range(count)) + ")\n}")
    condition = ["condition {", f"  t = {tuple_type} parameter(0)", "  i = s32[] get-tuple-element(t), index=0",
                 "  ten = s32[] constant(10)", "  ROOT c = pred[] compare(i, ten), direction=LT\n}\n"]
    main = [f"  x0 = {kind} parameter(0)", "  i = s32[] constant(0)",
            f"  t = {tuple_type} tuple(i, " + ", ".join(["x0"] * (count + 1)) + ")",
            f"  ROOT l = {tuple_type} while(t), condition=condition, body=body"]
    return ADD + "\n" + "\n".join(body) + "\n\n" + "\n".join(condition), main


def permutes(n):
    """A chain of n / 2 collective-permutes, and beside it a second one: combiners."""
    lines, values = [f"  x0 = {F32} parameter(0)", f"  x1 = {F32} parameter(1)"], ["x0", "x1"]
    for i in range(max(1, n // 4)):
        for k in (0, 1):
            lines += [f"  p{k}.{i} = {F32} collective-permute({values[k]}), source_target_pairs={{{{0,1}},{{1,2}},{{2,3}}}}",
                      f"  q{k}.{i} = {F32} negate(p{k}.{i})"]
            values[k] = f"q{k}.{i}"
    return "", [*lines, f"  ROOT r = {F32} add({values[0]}, {values[1]})"]


def pipelined(n):
    """A loop of three steps whose body has n instructions: weights are gathered layer by layer, every
    eighth layer's sum over devices is stored."""
    count = max(1, n // 8)
    stores = max(1, count // 8)
    row, rows, table = "f32[4,128]{1,0}", "f32[3,4,128]{2,1,0}", "f32[3,1,128]{2,1,0}"
    tuple_type = f"(s32[], {row}, {table}, " + ", ".join([rows] * stores) + ")"
    body = [f"body {{\n  t = {tuple_type} parameter(0)", "  i = s32[] get-tuple-element(t), index=0",
            f"  x = {row} get-tuple-element(t), index=1", f"  w = {table} get-tuple-element(t), index=2",
            "  one = s32[] constant(1)", "  zero = s32[] constant(0)", "  j = s32[] add(i, one)"]
    value, stored = "x", []
    for k in range(count):
        body += [f"  c.{k} = s32[] constant({k})", f"  v.{k} = s32[] subtract(c.{k}, i)",
                 f"  d.{k} = f32[1,1,128]{{2,1,0}} dynamic-slice(w, v.{k}, zero, zero), dynamic_slice_sizes={{1,1,128}}",
                 f"  e.{k} = f32[1,128]{{1,0}} reshape(d.{k})", f"  f.{k} = f32[1,128]{{1,0}} negate(e.{k})",
                 f"  g.{k} = {row} all-gather(f.{k}), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}",
                 f"  h.{k} = {row} {OPS[k % 4]}({value}, g.{k})"]
        value = f"h.{k}"
        if k % 8 == 0 and len(stored) < stores:
            body += [f"  a.{k} = {row} all-reduce({value}), replica_groups={{{{0,1,2,3}}}}, to_apply=add",
                     f"  l.{k} = f32[1,4,128]{{2,1,0}} reshape(a.{k})",
                     f"  b.{k} = {rows} get-tuple-element(t), index={3 + len(stored)}",
                     f"  u.{k} = {rows} dynamic-update-slice(b.{k}, l.{k}, i, zero, zero)"]
            stored.append(f"u.{k}")
    body.append(f"  ROOT r = {tuple_type} tuple(j, {value}, w, {', '.join(stored)})\n}}")
    condition = ["condition {", f"  t = {tuple_type} parameter(0)", "  i = s32[] get-tuple-element(t), index=0",
                 "  three = s32[] constant(3)", "  ROOT c = pred[] compare(i, three), direction=LT\n}\n"]
    main = [f"  x = {row} parameter(0)", f"  w = {table} parameter(1)", f"  b = {rows} parameter(2)",
            "  i = s32[] constant(0)", f"  t = {tuple_type} tuple(i, x, w, {', '.join(['b'] * stores)})",
            f"  ROOT l = {tuple_type} while(t), condition=condition, body=body"]
    return ADD + "\n" + "\n".join(body) + "\n\n" + "\n".join(condition), main


def calls(n):
    """n / 10 calls of as many computations."""
    count, functions, main = max(1, n // 10), [], [f"  x0 = {F32} parameter(0)"]
    value = "x0"
    for i in range(count):
        lines, last = steps(1, 8)
        lines[-1] = lines[-1].replace("  y", "  ROOT y", 1)
        functions.append("\n".join([f"f.{i} {{", f"  x0 = {F32} parameter(0)", *lines, "}\n"]))
        main.append(f"  c.{i} = {F32} call({value}), to_apply=f.{i}")
        value = f"c.{i}"
    return "\n".join(functions), [*main, f"  ROOT r = {F32} negate({value})"]


KINDS = {"chain": chain, "wide": wide, "layers": layers, "calls": calls,
         "collectives": collectives, "gathers": gathers, "loop": loop, "sums": sums,
         "permutes": permutes, "pipelined": pipelined}


def module(kind, n):
    functions, main = KINDS[kind](n)
    devices = "" if kind in ("chain", "wide", "layers", "calls") else ", replica_count=4"
    return f"HloModule {kind}{devices}\n\n{functions}\nENTRY main {{\n" + "\n".join(main) + "\n}\n"


if __name__ == "__main__":
    print(module(sys.argv[1], int(sys.argv[2])), end="")
