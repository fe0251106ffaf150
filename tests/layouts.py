"""Fragments of mma.sync as tensor_cores.def says them, against what CuTe's traits say of the same instructions.

    layouts.py ROWS FOLDER

ROWS is tensor_cores.def; FOLDER has the unpacked wheel nvidia-cutlass (`make check-layouts` fetches it; without it this
says that it was skipped). Of each row that CuTe has, all three operands are compared at each element of each lane. A trait
that puts two elements at one offset says nothing and is counted apart: CuTe 4.2 has four, B of m16n8k32 of 4 bits. Exit 1 if
one differs or CuTe has fewer rows than it had.
"""
import itertools
import pathlib
import re
import sys

TYPES = {"F32": "TF32", "F8E4M3FN": "E4M3", "F8E5M2": "E5M2"}
LEAST = 34  # rows that CuTe 4.2 has whole


def rows(text):
    """Each row: its shape, its types, its three layouts."""
    names = dict(re.findall(r'#define (TENSOR_\w+) +"([^"]*)"', text))
    for line in re.findall(r"^TENSOR_CORE\((.*)\)", text, re.M):
        f = [x.strip() for x in line.split(",")]
        yield tuple(map(int, f[2:5])), f[5:8], [names[x] for x in f[10:13]]


def own(layout):
    """Where element v of lane t is, by letter."""
    values, lanes = [half.split() for half in layout.split("|")]
    values = [] if values == ["-"] else values
    for t, v in itertools.product(range(1 << len(lanes)), range(1 << len(values))):
        at = dict.fromkeys("mnk", 0)
        for bits, number in ((values, v), (lanes, t)):
            for i, bit in enumerate(bits):
                at[bit[0]] |= (number >> i & 1) << int(bit[1:])
        yield t, v, at


def tree(text):
    """Shape<_4,Shape<_2,_2>> as nested lists."""
    text = re.sub(r"(Shape|Stride)\s*<", "[", text).replace(">", "]").replace("_", "").replace(" ", "")
    return eval(text, {"__builtins__": {}})  # digits, commas and brackets only: see LAYOUT


def flat(x):
    return [y for z in x for y in flat(z)] if isinstance(x, list) else [x]


def offset(shape, stride, number):
    for size, step in zip(flat(shape), flat(stride)):
        yield number % size * step
        number //= size


LAYOUT = re.compile(r"Layout\s*<\s*(Shape[\s<>,_\dShape]*?)\s*,\s*(Stride[\s<>,_\dStride]*>)\s*>\s*;")


def traits(folder):
    """Layouts by the name of the instruction."""
    aliases, found = {}, {}
    for path in sorted(folder.glob("**/cute/atom/mma_traits_sm[789][05-9].hpp")):
        text = re.sub(r"//.*", "", path.read_text())
        for name, value in re.findall(r"using (SM\w+)\s*=\s*(Layout[^;]*;)", text):
            aliases[name] = value
        for name, base, body in re.findall(r"struct MMA_Traits<(\w+)>\s*(?::\s*MMA_Traits<(\w+)>)?\s*\{(.*?)\}", text, re.S):
            own_layouts = dict(re.findall(r"using ([ABC])Layout\s*=\s*([^;]*;)", body))
            found[name] = {**found.get(base, {}), **own_layouts}
    for name, layouts in found.items():
        yield name, {k: LAYOUT.match(aliases.get(v[:-1].strip(), v)) for k, v in layouts.items()}


def differs(layout, theirs, which, m, n):
    """The first element that lies elsewhere; "" where the trait is no map of its own."""
    shape, stride = tree(theirs[1]), tree(theirs[2])
    elements, first = list(own(layout)), None
    offsets = [sum(offset([shape[0]], [stride[0]], t)) + sum(offset([shape[1]], [stride[1]], v)) for t, v, _ in elements]
    if len(set(offsets)) != len(offsets):
        return ""
    for (t, v, at), there in zip(elements, offsets):
        here = {"A": at["m"] + m * at["k"], "B": at["n"] + n * at["k"], "C": at["m"] + m * at["n"]}[which]
        if here != there and first is None:
            first = f"{which}: element {v} of lane {t} is {here}, CuTe says {there}"
    return first


def main():
    defs, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    if not list(folder.glob("**/mma_traits_sm80.hpp")):
        print("layouts: skipped: the wheel nvidia-cutlass is not here and could not be fetched")
        return 0
    known, good, bad, odd = dict(traits(folder)), 0, 0, 0
    for (m, n, k), (a, b, c), layouts in rows(defs.read_text()):
        name = f"_{m}x{n}x{k}_{c}{TYPES.get(a, a)}{TYPES.get(b, b)}{c}_TN"
        theirs = [known[sm + name] for sm in ("SM75", "SM80", "SM89", "SM90") if sm + name in known]
        for layout_of in theirs[:1]:
            found = [differs(text, layout_of[w], w, m, n) for text, w in zip(layouts, "ABC")]
            good += found == [None] * 3
            odd += "" in found
            for what in filter(None, found):
                print(f"layouts: {name[1:]} {what}")
                bad += 1
    print(f"layouts: {good} instructions as CuTe has them, {bad} operands otherwise, {odd} traits that are no map")
    return bad != 0 or good < LEAST


if __name__ == "__main__":
    sys.exit(main())
