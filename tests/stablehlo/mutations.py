#!/usr/bin/env python3
"""Damages programs in MLIR until COUNT of them are wrong: mutations.py LIBGXC COUNT FILE... Each wrong one must get a message
with line and column; one that is still right may be compiled. Prints how many of each there were."""
import ctypes
import random
import re
import sys

WORDS = re.compile(r"\s+|%[\w$.-]+(?:#\d+)?|@[\w$.-]+|\"[^\"\n]*\"|[\w.]+|->|.", re.S)
LOCATION = re.compile(r":[1-9]\d*:[1-9]\d*: error: \S")
WRONG = ("tensor<3x5xf32>", "%nothing", "@nothing", "17", "-1", "\"text\"", "dense<[1, 2]>", "stablehlo.frobnicate", "}", "(", ":",
         "i7", "array<i64: 9>", "true", "#loc999", "loc(", "0xZZ", "?")

gxc = ctypes.CDLL(sys.argv[1])
gxc.gxc_signature.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
                              ctypes.POINTER(ctypes.c_void_p)]
gxc.gxc_result_diagnostics.restype = ctypes.c_char_p
gxc.gxc_result_diagnostics.argtypes = gxc.gxc_result_destroy.argtypes = [ctypes.c_void_p]


def check(text):
    """Status and diagnostics."""
    result = ctypes.c_void_p()
    data = text.encode()
    status = gxc.gxc_signature(b"m.mlir", data, len(data), None, ctypes.byref(result))
    said = gxc.gxc_result_diagnostics(result).decode(errors="replace")
    gxc.gxc_result_destroy(result)
    return status, said


def mutate(words, rng):
    out, at = list(words), rng.choice([i for i, w in enumerate(words) if not w.isspace()])
    kind = rng.randrange(6)
    if kind == 0:
        del out[at]
    elif kind == 1:
        out[at] = rng.choice(WRONG)
    elif kind == 2:
        other = rng.choice([i for i, w in enumerate(words) if not w.isspace()])
        out[at], out[other] = out[other], out[at]
    elif kind == 3:
        del out[at:]
    elif kind == 4:
        word, i = out[at], rng.randrange(len(out[at]))
        out[at] = word[:i] + chr(ord(word[i]) ^ 1 << rng.randrange(7)) + word[i + 1:]
    else:
        out.insert(at, rng.choice(WRONG))
    return "".join(out)


programs = []
for path in sys.argv[3:]:
    with open(path) as file:
        text = "\n".join(line for line in file.read().split("\n") if not line.lstrip().startswith("//"))
    if check(text)[0] == 0:
        programs.append(WORDS.findall(text))
wrong = right = 0
bad = []
seed = 0
while wrong < int(sys.argv[2]) and programs and not bad:
    rng = random.Random(seed)
    text = mutate(programs[seed % len(programs)], rng)
    status, said = check(text)
    right += status == 0
    wrong += status != 0
    if status not in (0, 1, 4) or status != 0 and not LOCATION.search(said):
        bad.append(f"--- mutation {seed}: status {status}, {said!r}\n{text}")
    seed += 1
print(f"{len(programs)} programs, {wrong} wrong mutations, {right} that are right")
sys.exit("\n".join(bad) or 0)
