"""functions.py FOLDER GXRUN...: functions of CHLO, which become polynomials and series, by the evaluator, compared with
Python's and with sums and integrals that converge everywhere, in f32 and f64."""
import cmath
import math
import pathlib
import statistics
import struct
import subprocess
import sys

folder, gxrun = pathlib.Path(sys.argv[1]), sys.argv[2:]
CODES = {"f32": "f", "f64": "d"}


def digamma(x: float) -> float:
    if x < 0.5:  # reflection
        return digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 30:
        shift -= 1 / x
        x += 1
    y = 1 / (x * x)
    return shift + math.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))


def zeta(x: float, q: float) -> float:
    """Hurwitz's, x > 1, q > 0: Euler and Maclaurin behind 60 terms."""
    n = 60
    a = q + n
    tail = a ** (1 - x) / (x - 1) + 0.5 * a ** -x + x / 12 * a ** (-x - 1) - x * (x + 1) * (x + 2) / 720 * a ** (-x - 3)
    return math.fsum((q + k) ** -x for k in range(n)) + tail


def polygamma(n: float, x: float) -> float:
    return digamma(x) if n == 0 else (-1) ** (int(n) + 1) * math.factorial(int(n)) * zeta(n + 1, x)


def bessel_i1e(x: float) -> float:
    points = 4000  # of a periodic function: the trapezoid's sum is exact
    total = math.fsum(math.exp(abs(x) * (math.cos(t) - 1)) * math.cos(t)
                      for t in (2 * math.pi * i / points for i in range(points)))
    return math.copysign(total / points, x)


def erf_inv(x: float) -> float:
    if abs(x) == 1:
        return math.copysign(math.inf, x)
    y = statistics.NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)
    for _ in range(4):
        y -= (math.erf(y) - x) / (2 / math.sqrt(math.pi) * math.exp(-y * y))
    return y


def next_after(x: float, to: float, code: str) -> float:
    if code == "d" or math.isnan(x) or math.isnan(to) or x == to:
        return math.nextafter(x, to)
    bits = struct.unpack("<i", struct.pack("<f", x))[0]
    if x == 0:
        return struct.unpack("<f", struct.pack("<i", 1 if to > 0 else -0x7FFFFFFF))[0]
    bits += 1 if (to > x) == (x > 0) else -1
    return struct.unpack("<f", struct.pack("<i", bits))[0]


WIDE = [-30.0, -8.5, -3.2, -1.0, -0.6, -1e-3, -1e-20, 0.0, 1e-20, 1e-3, 0.3, 0.9, 1.0, 1.5, 2.7, 5.0, 9.0, 26.0, 100.0]
POSITIVE = [1e-3, 0.1, 0.49, 0.5, 0.9, 1.0, 1.4, 2.0, 3.3, 7.5, 12.0, 31.0, 250.0, 1e5]
BELOW = [-0.3, -0.7, -1.5, -2.2, -7.75]
INSIDE = [-0.9999, -0.97, -0.5, -1e-6, 0.0, 1e-6, 0.2, 0.7, 0.96, 0.99999]
ORDERS = [(1.0, 0.5), (1.0, 3.0), (2.0, 1.5), (3.0, 0.2), (0.0, 2.5), (0.0, 0.3), (5.0, 4.0)]
SERIES = [(1.1, 1.0), (2.0, 1.0), (2.0, 0.3), (3.5, 7.0), (12.0, 0.9), (30.0, 2.0)]
PAIRS = [(1.0, 2.0), (1.0, 0.0), (-1.0, 5.0), (-1.0, -5.0), (0.0, 1.0), (0.0, -1.0), (2.0, 2.0), (1e30, math.inf), (1.0, math.nan)]

# The operation, its operands by element, what it should give; the code is the type's.
ONE = [
    ("chlo.erf", WIDE, math.erf), ("chlo.erfc", WIDE, math.erfc), ("chlo.erf_inv", INSIDE + [1.0, -1.0], erf_inv),
    ("chlo.lgamma", POSITIVE + BELOW, math.lgamma), ("chlo.digamma", POSITIVE + BELOW, digamma),
    ("chlo.bessel_i1e", WIDE, bessel_i1e), ("chlo.sinh", [-3.0, -1e-4, 0.0, 2.0], math.sinh), ("chlo.cosh", [-3.0, 0.0, 2.0], math.cosh),
    ("chlo.tan", [-1.0, 0.0, 0.5], math.tan), ("chlo.asin", INSIDE, math.asin), ("chlo.acos", INSIDE, math.acos),
    ("chlo.atan", WIDE, math.atan), ("chlo.asinh", WIDE, math.asinh), ("chlo.acosh", [1.0, 1.5, 40.0], math.acosh),
    ("chlo.atanh", INSIDE, math.atanh), ("chlo.square", [-3.0, 0.5], lambda x: x * x),
]
TWO = [("zeta", SERIES, zeta), ("polygamma", ORDERS, polygamma), ("next_after", PAIRS, None)]


def dense(values: list, dtype: str) -> str:
    code, digits = CODES[dtype], {"f32": 8, "f64": 16}[dtype]
    words = (f"0x{int.from_bytes(struct.pack('>' + code, v), 'big'):0{digits}X}" for v in values)
    return f"dense<[{', '.join(words)}]> : tensor<{len(values)}x{dtype}>"


def rounded(values: list, code: str) -> list:
    return [struct.unpack(code, struct.pack(code, v))[0] for v in values]


def rows(dtype: str) -> list:
    """(lines, name and type of the result, the values wanted, whether exactly)"""
    code, out = CODES[dtype], []
    for name, values, function in ONE:
        n, values = len(out), rounded(values, code)
        t = f"tensor<{len(values)}x{dtype}>"
        out.append(([f"%x{n} = stablehlo.constant {dense(values, dtype)}", f"%r{n} = {name} %x{n} : {t} -> {t}"],
                    t, [function(v) for v in values], False))
    for name, pairs, function in TWO:
        for form in (name, "broadcast_" + name):
            n = len(out)
            a, b = (rounded([p[i] for p in pairs], code) for i in (0, 1))
            t = f"tensor<{len(pairs)}x{dtype}>"
            wanted = [function(x, y) if function else next_after(x, y, code) for x, y in zip(a, b)]
            out.append(([f"%x{n} = stablehlo.constant {dense(a, dtype)}", f"%y{n} = stablehlo.constant {dense(b, dtype)}",
                         f"%r{n} = chlo.{form} %x{n}, %y{n} : ({t}, {t}) -> {t}"], t, wanted, function is None))
    return out


def is_close(got: float, wanted: float, code: str, exact: bool) -> bool:
    if math.isnan(wanted) or math.isinf(wanted) or exact:
        return (math.isnan(got) and math.isnan(wanted)) or got == wanted
    bound = {"f": 3e-5, "d": 3e-12}[code]
    return abs(got - wanted) <= bound * max(abs(wanted), 1e-30) or abs(got - wanted) <= bound / 50


def read(path: pathlib.Path, code: str) -> list:
    data = path.read_bytes()
    at = 10 + struct.unpack("<H", data[8:10])[0]
    return list(struct.unpack(f"<{(len(data) - at) // struct.calcsize(code)}{code}", data[at:]))


def evaluate(name: str, lines: list, results: list, types: list) -> list:
    text = f"module @{name} {{\nfunc.func @main() -> ({', '.join(types)}) {{\n" + "\n".join(lines)
    (folder / f"{name}.mlir").write_text(f"{text}\nreturn {', '.join(results)} : {', '.join(types)}\n}}\n}}\n")
    outputs = [f"--output=@{folder}/{name}{i}.npy" for i in range(len(results))]
    subprocess.run([*gxrun, f"{folder}/{name}.mlir", "--device=ref", "-q", *outputs], check=True)
    return [folder / f"{name}{i}.npy" for i in range(len(results))]


def check(dtype: str) -> int:
    code, table, wrong = CODES[dtype], rows(dtype), 0
    files = evaluate(dtype, [line for r in table for line in r[0]], [f"%r{i}" for i in range(len(table))], [r[1] for r in table])
    for (lines, _, wanted, exact), file in zip(table, files):
        for i, (g, w) in enumerate(zip(read(file, code), wanted)):
            if not is_close(g, w, code, exact):
                wrong += 1
                print(f"{lines[-1]}: element {i} is {g}, wanted {w}")
    return wrong


def check_complex() -> int:
    values = [0.3 + 0.4j, -2.0 + 0.1j, 1.5 - 3.0j]
    words = ", ".join(f"({v.real:e}, {v.imag:e})" for v in values)
    t = "tensor<3xcomplex<f64>>"
    lines = [f"%x = stablehlo.constant dense<[{words}]> : {t}", f"%a = chlo.atan %x : {t} -> {t}", f"%c = chlo.conj %x : {t} -> {t}"]
    files = evaluate("complex", lines, ["%a", "%c"], [t, t])
    wrong = 0
    for file, function in zip(files, (cmath.atan, lambda v: v.conjugate())):
        parts = read(file, "d")
        for v, got in zip(values, (complex(*parts[i:i + 2]) for i in range(0, 6, 2))):
            if abs(got - function(v)) > 1e-12:
                wrong += 1
                print(f"{file.name}: of {v} is {got}, wanted {function(v)}")
    return wrong


folder.mkdir(exist_ok=True)
failures = check("f32") + check("f64") + check_complex()
print(f"{failures} wrong")
sys.exit(failures != 0)
