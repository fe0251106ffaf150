#!/usr/bin/env python3
"""Runs kernels of CUDA Tile IR without a GPU: what tileirdisasm prints of gxc's bytecode, tile by tile, against the
evaluator. What an operation does is what NVIDIA's Tile IR documentation says of it, nothing of gxc's.

Usage: tileir_run.py GXC GXRUN TILEIRDISASM TARGET FOLDER PROGRAM.hlo..."""
import math
import os
import random
import re
import struct
import subprocess
import sys

BITS = {"i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "tf32": 32,
        "f64": 64, "f8E4M3FN": 8, "f8E5M2": 8}
HLO = {"bf16": "bf16", "f16": "f16", "f32": "f32", "f64": "f64", "s32": "i32", "s8": "i8", "f8e4m3fn": "f8E4M3FN",
       "f8e5m2": "f8E5M2", "f8e8m0fnu": "i8", "pred": "i8"}


def small_float(bits, exponent_bits, bias, top):
    """The value of a float of 8 bits; top: its last exponent has infinities."""
    fraction_bits = 7 - exponent_bits
    sign = -1.0 if bits & 0x80 else 1.0
    exponent, fraction = bits >> fraction_bits & (1 << exponent_bits) - 1, bits & (1 << fraction_bits) - 1
    if top and exponent == (1 << exponent_bits) - 1:
        return sign * (math.nan if fraction else math.inf)
    if not top and bits & 0x7F == 0x7F:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)


SMALL = {"f8E4M3FN": [small_float(b, 4, 7, False) for b in range(256)],
         "f8E5M2": [small_float(b, 5, 15, True) for b in range(256)]}


def to_bits(t, x):
    if t[0] == "i":
        return int(x) & (1 << BITS[t]) - 1
    if t == "f64":
        return struct.unpack("<Q", struct.pack("<d", x))[0]
    if t in SMALL:  # to nearest even, the largest at most
        if math.isnan(x):
            return 0x7F
        finite = [b for b in range(128) if math.isfinite(SMALL[t][b])]
        best = min(finite, key=lambda b: (abs(SMALL[t][b] - abs(x)), b & 1))
        return best | (0x80 if math.copysign(1, x) < 0 else 0)
    if t == "f16":
        try:
            return struct.unpack("<H", struct.pack("<e", x))[0]
        except OverflowError:
            return 0x7C00 if x > 0 else 0xFC00
    try:
        bits = struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        bits = 0x7F800000 if x > 0 else 0xFF800000
    dropped = {"f32": 0, "bf16": 16, "tf32": 13}[t]
    if dropped and bits & 0x7F800000 != 0x7F800000:
        bits += (1 << dropped - 1) - 1 + (bits >> dropped & 1)
    return bits >> dropped if t == "bf16" else bits >> dropped << dropped


def from_bits(t, bits):
    if t == "i1":
        return bits & 1
    if t[0] == "i":
        return bits - (1 << BITS[t]) if bits >> BITS[t] - 1 else bits
    if t in SMALL:
        return SMALL[t][bits]
    if t == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if t == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << 16 if t == "bf16" else bits))[0]


def rounded(t, x):
    return int(x) & 1 if t == "i1" else from_bits(t, to_bits(t, x))


class Tile:
    def __init__(self, kind, shape, data):
        self.kind, self.shape, self.data = kind, tuple(shape), data
        assert len(data) == math.prod(self.shape), (shape, len(data))


class View:
    """Of an array: its pointer, sizes, strides; tile: of the partition."""
    tile = None


def tile_type(text):
    inner = re.match(r"tile<(.*)>$", text).group(1)
    sizes, kind = re.match(r"((?:\d+x)*)(.*)$", inner).groups()
    return kind, tuple(int(n) for n in sizes.split("x") if n)


def indices(shape):
    """All indices, the last fastest."""
    out = [()]
    for size in shape:
        out = [at + (i,) for at in out for i in range(size)]
    return out


def offset_of(at, shape):
    number = 0
    for i, size in zip(at, shape):
        number = number * size + i
    return number


def parse(text):
    """Operations of a block: (line, block inside or None)."""
    block, outer = [], []
    for line in (l.strip() for l in text.splitlines()):
        if not line or line.startswith("(%"):  # arguments of the block that was opened
            continue
        if line == "}":
            block = outer.pop()
            continue
        opens = line.endswith("{") or " = reduce " in line or " = scan " in line
        block.append((line, [] if opens else None))
        if opens:
            outer.append(block)
            block = block[-1][1]
    return block


def divided(x, y, rest):
    q = x // y
    return q if "negative_inf" in rest else (-q if q < 0 else q) if (x < 0) == (y < 0) else -(abs(x) // abs(y))


def guarded(f):
    def g(*x):
        try:
            return f(*x)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan
    return g


def quotient(x, y):
    if y == 0:
        return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)
    return x / y


def log(x):
    return -math.inf if x == 0 else math.log(x)


BINARY = {"addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y, "maxi": max, "mini": min,
          "andi": lambda x, y: x & y, "ori": lambda x, y: x | y, "xori": lambda x, y: x ^ y,
          "shli": lambda x, y: x << y, "addf": lambda x, y: x + y, "subf": lambda x, y: x - y,
          "mulf": lambda x, y: x * y, "divf": quotient, "pow": guarded(math.pow)}
UNARY = {"exp": guarded(math.exp), "exp2": guarded(lambda x: 2.0**x), "tanh": math.tanh, "log": guarded(log),
         "sqrt": guarded(math.sqrt), "rsqrt": guarded(lambda x: 1 / math.sqrt(x)), "negf": lambda x: -x, "absf": abs,
         "floor": guarded(math.floor), "ceil": guarded(math.ceil), "sin": guarded(math.sin), "cos": guarded(math.cos)}
COMPARE = {"equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less_than": lambda x, y: x < y,
           "less_than_or_equal": lambda x, y: x <= y, "greater_than": lambda x, y: x > y,
           "greater_than_or_equal": lambda x, y: x >= y}


def extreme(name, x, y, rest):
    if math.isnan(x) or math.isnan(y):
        return math.nan if "propagate_nan" in rest else y if math.isnan(x) else x
    return max(x, y) if name == "maxf" else min(x, y)


def unsigned(kind, x):
    return x & (1 << BITS[kind]) - 1


class Kernel:
    def __init__(self, text, arrays):
        head, self.body = parse(text)[0]
        kinds = re.findall(r"%arg\d+: tile<ptr<(\w+)>>", head)
        assert kinds == [kind for kind, _ in arrays], (kinds, [kind for kind, _ in arrays])
        self.memory = [data for _, data in arrays]
        self.kinds = kinds

    def run(self, block_id):
        self.block_id = block_id
        names = {f"%arg{i}": Tile("ptr", (), [(i, 0)]) for i in range(len(self.memory))}
        self.block(self.body, names)

    def block(self, ops, names):
        for line, body in ops:
            word = line.split(" ", 1)[0]
            if word in ("return", "continue", "yield"):
                found = re.findall(r"%[\w#-]+", line.split(" : ")[0])
                return [names[n] for n in found]
            self.op(line, body, names)
        return []

    @staticmethod
    def number(kind, text):
        if text in ("true", "false"):
            return int(text == "true")
        return from_bits(kind, int(text, 16)) if text.startswith("0x") else int(text) if kind[0] == "i" else float(text)

    def load(self, address):
        array, at = address
        assert 0 <= at < len(self.memory[array]), "a load behind the end"
        return self.memory[array][at]

    def store(self, address, value):
        array, at = address
        assert 0 <= at < len(self.memory[array]), "a store behind the end"
        self.memory[array][at] = value

    def view_addresses(self, view, index):
        """Each element's address; None behind the view's sizes."""
        array, first = view.pointer.data[0]
        for at in indices(view.tile):
            whole = [i * t + k for i, t, k in zip(index, view.tile, at)]
            inside = all(0 <= w < s for w, s in zip(whole, view.shape))
            yield (array, first + sum(w * s for w, s in zip(whole, view.strides))) if inside else None

    def loop(self, names, outs, args, rest, body):
        carried = re.findall(r"(%\w+) = (%[\w#-]+)", rest)
        values = [names[start] for _, start in carried]
        for i in range(names[args[1]].data[0], names[args[2]].data[0]):
            inner = dict(names)
            inner[args[0]] = Tile("i32", (), [i])
            inner.update({name: v for (name, _), v in zip(carried, values)})
            values = self.block(body, inner)
        base = outs[0].split(":")[0]
        for i, v in enumerate(values):
            names[f"{base}#{i}"] = v
            if i == 0:
                names[base] = v

    def combine(self, x, rest, body, is_scan):
        dim = int(re.search(r"dim=(\d+)", rest).group(1))
        assert dim == len(x.shape) - 1
        name, size = re.search(r"= (\w+) ", body[0][0]).group(1), x.shape[-1]
        f = {"addf": lambda a, b: rounded(x.kind, a + b), "addi": lambda a, b: a + b,
             "maxf": lambda a, b: extreme("maxf", a, b, ""), "maxi": max}[name]
        out = []
        for i in range(0, len(x.data), size):
            value = x.data[i]
            row = [value]
            for v in x.data[i + 1 : i + size]:
                value = f(value, v)
                row.append(value)
            out += row if is_scan else [value]
        return out

    def multiply(self, name, a, b, sums, rest):
        (rows, terms), columns = a.shape, b.shape[1]
        x, y = a.data, b.data
        if name == "mmai":
            signs = re.findall(r"\b(signed|unsigned)\b", rest)
            x = [unsigned(a.kind, v) if signs[0] == "unsigned" else v for v in x]
            y = [unsigned(b.kind, v) if signs[1] == "unsigned" else v for v in y]
        across = [y[j::columns] for j in range(columns)]
        out = []
        for i in range(rows):
            row = x[i * terms : (i + 1) * terms]
            out += [sums.data[i * columns + j] + sum(map(lambda p, q: p * q, row, across[j])) for j in range(columns)]
        return out

    def op(self, line, body, names):
        left, rest = line.split(" = ", 1)
        outs = [n.strip() for n in left.split(",")]
        name = rest.split(" ", 1)[0]
        args = re.findall(r"%[\w#-]+", rest)
        types = re.findall(r"tile<(?:[^<>]|<[^<>]*>)*>", rest)
        kind, shape = tile_type(types[-1]) if types else (None, ())
        arg = lambda i: names[args[i]]

        def give(data):
            names[outs[0]] = Tile(kind, shape, [rounded(kind, v) for v in data])

        if name == "assume":
            names[outs[0]] = arg(0)
        elif name == "get_tile_block_id":
            for out, v in zip(outs, (self.block_id, 0, 0)):
                names[out] = Tile("i32", (), [v])
        elif name == "constant":
            text = re.search(r"constant <\w+: ([^>]*)>", rest).group(1)
            values = [self.number(kind, v.strip()) for v in text.strip("[]").split(",")]
            give(values if len(values) == math.prod(shape) else values * math.prod(shape))
        elif name in ("reshape", "broadcast", "permute"):
            x = arg(0)
            if name == "reshape":
                data = x.data
            elif name == "broadcast":
                data = [x.data[offset_of([i if s > 1 else 0 for i, s in zip(at, x.shape)], x.shape)]
                        for at in indices(shape)]
            else:
                order = [int(n) for n in re.search(r"\[(.*?)\]", rest).group(1).split(",")]
                data = []
                for at in indices(shape):
                    source = [0] * len(order)
                    for i, d in enumerate(order):
                        source[d] = at[i]
                    data.append(x.data[offset_of(source, x.shape)])
            names[outs[0]] = Tile(x.kind, shape, data)
        elif name == "extract":
            x = arg(0)
            first = [names[a].data[0] * size for a, size in zip(args[1:], shape)]
            names[outs[0]] = Tile(x.kind, shape, [x.data[offset_of([f + i for f, i in zip(first, at)], x.shape)]
                                                  for at in indices(shape)])
        elif name == "make_tensor_view":
            view = View()
            view.pointer = arg(0)
            for field in ("shape", "strides"):
                numbers = re.search(field + r" = \[(.*?)\]", rest).group(1)
                setattr(view, field, [int(n) for n in numbers.split(",")])
            names[outs[0]] = view
        elif name == "make_partition_view":
            view = View()
            view.__dict__.update(arg(0).__dict__)
            view.tile = [int(n) for n in re.search(r"tile=\(([\dx]+)\)", rest).group(1).split("x")]
            names[outs[0]] = view
        elif name == "load_view_tko":
            view = arg(0)
            found = self.view_addresses(view, [names[a].data[0] for a in args[1:]])
            data = [0 if address is None else self.load(address) for address in found]
            names[outs[0]] = Tile(self.kinds[view.pointer.data[0][0]], view.tile, data)
        elif name == "store_view_tko":
            view = arg(1)
            for address, v in zip(self.view_addresses(view, [names[a].data[0] for a in args[2:]]), arg(0).data):
                if address is not None:
                    self.store(address, v)
        elif name == "offset":
            p, by = arg(0), arg(1)
            names[outs[0]] = Tile("ptr", p.shape, [(a, at + n) for (a, at), n in zip(p.data, by.data)])
        elif name in ("load_ptr_tko", "store_ptr_tko"):
            p, masked = arg(0), 1 if name[0] == "l" else 2
            ok = arg(masked).data if len(args) > masked else [1] * len(p.data)
            if name[0] == "s":
                for address, v, there in zip(p.data, arg(1).data, ok):
                    if there:
                        self.store(address, v)
            else:
                fill = arg(2).data if len(args) > 2 else [0] * len(p.data)
                data = [self.load(address) if there else f for address, there, f in zip(p.data, ok, fill)]
                names[outs[0]] = Tile(self.kinds[p.data[0][0]], p.shape, data)
        elif name == "for":
            self.loop(names, outs, args, rest, body)
        elif name in ("reduce", "scan"):
            give(self.combine(arg(0), rest, body, name == "scan"))
        elif name in ("mmaf", "mmai"):
            give(self.multiply(name, arg(0), arg(1), arg(2), rest))
        elif name == "iota":
            give(range(shape[0]))
        elif name == "divi":
            give([divided(x, y, rest) for x, y in zip(arg(0).data, arg(1).data)])
        elif name == "fma":
            give([x * y + z for x, y, z in zip(arg(0).data, arg(1).data, arg(2).data)])
        elif name in BINARY:
            give(map(BINARY[name], arg(0).data, arg(1).data))
        elif name in ("maxf", "minf"):
            give([extreme(name, x, y, rest) for x, y in zip(arg(0).data, arg(1).data)])
        elif name in ("cmpi", "cmpf"):
            f = COMPARE[re.search(r"\b(" + "|".join(sorted(COMPARE, key=len, reverse=True)) + r")\b", rest).group(1)]
            give(map(f, arg(0).data, arg(1).data))
        elif name == "select":
            give([x if c else y for c, x, y in zip(arg(0).data, arg(1).data, arg(2).data)])
        elif name in ("exti", "itof"):
            x = arg(0)
            wraps = "unsigned" in rest or x.kind == "i1"
            give([unsigned(x.kind, v) if wraps and x.kind != "i1" else v for v in x.data])
        elif name == "ftoi":
            low, high = -(1 << BITS[kind] - 1), (1 << BITS[kind] - 1) - 1
            give([0 if math.isnan(v) else int(min(max(v, low), high)) for v in arg(0).data])
        elif name in ("ftof", "trunci"):
            give(arg(0).data)
        elif name == "bitcast":
            x = arg(0)
            names[outs[0]] = Tile(kind, shape, [from_bits(kind, to_bits(x.kind, v)) for v in x.data])
        elif name in UNARY:
            give(map(UNARY[name], arg(0).data))
        else:
            raise SystemExit(f"an operation that this interpreter does not know: {line}")


# -- programs ------------------------------------------------------------------------------------------------------


def write_npy(path, hlo_kind, shape, data):
    kind = HLO[hlo_kind]
    width = BITS[kind] // 8
    named = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "s32": "<i4", "s8": "|i1"}
    descr = named[hlo_kind] if hlo_kind in named else {8: "|u1", 16: "<u2"}[BITS[kind]]
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(b"".join(to_bits(kind, v).to_bytes(width, "little") for v in data))


def read_npy(path, kind):
    with open(path, "rb") as f:
        text = f.read()
    body, width = text[10 + struct.unpack("<H", text[8:10])[0] :], BITS[kind] // 8
    return [from_bits(kind, int.from_bytes(body[i : i + width], "little")) for i in range(0, len(body), width)]


def shape_of(text):
    kind, sizes = re.match(r"(\w+)\[([\d,]*)\]", text).groups()
    return kind, tuple(int(n) for n in sizes.split(",") if n)


def random_values(hlo_kind, kind, count, generator, text):
    most = re.search(r"// random below (\d+)", text)
    if hlo_kind == "s32":  # sizes of groups
        return [generator.randrange(int(most.group(1)) if most else 4) for _ in range(count)]
    if hlo_kind in ("f8e8m0fnu",):
        return [generator.randrange(124, 130) - 256 for _ in range(count)]
    if kind == "i8":
        return [generator.randrange(-9, 10) for _ in range(count)]
    return [rounded(kind, generator.gauss(0, 1)) for _ in range(count)]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def operands(hlo):
    """Of the program's only kernel: numbers of the program's parameters."""
    entry = hlo[hlo.index("ENTRY") :]
    numbers = {name: int(n) for name, n in re.findall(r"(\S+) = \S+ parameter\((\d+)\)", entry)}
    return [numbers[name] for name in re.search(r" fusion\(([^)]*)\)", entry).group(1).split(", ")]


def check(gxc, gxrun, disassembler, target, folder, path):
    with open(path) as f:
        text = f.read()
    entry = text[text.index("ENTRY") :]
    parameters = sorted((int(n), shape) for shape, n in re.findall(r"= (\w+\[[\d,]*\])\S* parameter\((\d+)\)", entry))
    generator, arrays, inputs = random.Random(1), [], []
    for n, shape in parameters:
        hlo_kind, sizes = shape_of(shape)
        kind = HLO[hlo_kind]
        data = random_values(hlo_kind, kind, math.prod(sizes), generator, text)
        for least, instead in re.findall(rf"// where parameter {n} is below (\S+) it is (\S+)", text):
            data = [v if v >= float(least) else rounded(kind, float(instead)) for v in data]
        file = os.path.join(folder, f"in{n}.npy")
        write_npy(file, hlo_kind, sizes, data)
        inputs.append(f"--input=@{file}")
        arrays.append((kind, data))
    hlo_kind, sizes = shape_of(re.search(r"ROOT \S+ = (\w+\[[\d,]*\])", entry).group(1))
    kind, count = HLO[hlo_kind], math.prod(sizes)
    out = [math.nan if kind[0] != "i" else -77] * count
    options = [path, f"--target={target}", "--libraries=none", "--tiles=tileir", "-O2"]
    code, made = os.path.join(folder, "code"), os.path.join(folder, "made")
    run([*gxc.split(), *options, "--emit=tileir", "-o", code])
    listing = run([disassembler, code])
    if listing.count("entry @") != 1:
        raise SystemExit(f"{path}: {listing.count('entry @')} kernels by CUDA Tile IR, expected one")
    report = run([*gxc.split(), *options, "-o", made, "--report"])
    assert "by CUDA Tile IR" in report and "not by CUDA Tile IR" not in report, report
    order = operands(run([*gxc.split(), *options, "--emit=hlo", "--print=short"]))
    kernel = Kernel(listing, [*[arrays[n] for n in order], (kind, out)])
    for block in range(int(re.search(r" (\d+) x \d+ ", report).group(1))):
        kernel.run(block)
    result = os.path.join(folder, "out.npy")
    run([*gxrun.split(), path, "--device=ref", f"--output=@{result}", *inputs])
    expected = read_npy(result, kind)
    tolerance = 0 if kind[0] == "i" else {8: 0.13, 16: 0.02}.get(BITS[kind], 2e-3)
    largest = max((abs(v) for v in expected if math.isfinite(v)), default=0)
    for i, (x, y) in enumerate(zip(out, expected)):
        same = x == y or (math.isnan(x) and math.isnan(y))
        if not same and not abs(x - y) <= tolerance * max(abs(y), largest / 8):
            raise SystemExit(f"{path}: element {i} is {x}, expected {y}")
    print(f"{os.path.basename(path)}: {count} elements agree")


def main():
    gxc, gxrun, disassembler, target, folder, *programs = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for path in programs:
        check(gxc, gxrun, disassembler, target, folder, path)


main()
