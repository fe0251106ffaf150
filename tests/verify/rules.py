#!/usr/bin/env python3
"""rules.py CASES GXC...: each case of the file is refused with its error. See rules.txt."""
import concurrent.futures as cf, subprocess, sys

COMPUTATIONS = """add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
lt {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = pred[] compare(x, y), direction=LT
}
adds32 {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT s = s32[] add(x, y)
}
one {
  x = f32[4] parameter(0)
  ROOT s = f32[4] negate(x)
}
two {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  ROOT s = f32[4] add(x, y)
}
cnd {
  x = f32[4] parameter(0)
  ROOT s = pred[] constant(true)
}
fus {
  x = f32[4] parameter(0)
  ROOT s = f32[4] negate(x)
}
"""
ARGUMENTS = """  a = f32[4] parameter(0)
  b = f32[4,8] parameter(1)
  c = s32[4] parameter(2)
  p = pred[4] parameter(3)
  z = f32[] parameter(4)
  i = s32[] parameter(5)
  q = pred[] parameter(6)
  t = token[] parameter(7)
  u = u32[4] parameter(8)
  m = f32[4,4] parameter(9)
  cc = c64[4] parameter(10)
  tup = (f32[4], s32[4]) parameter(11)
  h = f16[4] parameter(12)
  im = f32[1,8,8,3] parameter(13)
  k = f32[3,3,3,16] parameter(14)"""


def cases(path):
    name = None
    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("case "):
            name, _, header = line[5:].partition(" |")
            before, body = [], []
        elif line.startswith("error: "):
            yield name, header, before, body, line
            name = None
        elif name and line:
            (before if line.startswith("  ") else body).append(line)


def check(gxc, case):
    name, header, before, body, want = case
    text = "\n".join(["HloModule x" + header, COMPUTATIONS, *before, "ENTRY main {", ARGUMENTS, *body, "}", ""])
    p = subprocess.run(gxc + ["--verify", "-"], input=text, capture_output=True, text=True)
    first = p.stderr.split("\n")[0]
    if p.returncode == 1 and first.endswith(want):
        return None
    return "%s: exit %d, %s; expected %s" % (name, p.returncode, first, want)


def main():
    found = list(cases(sys.argv[1]))
    with cf.ThreadPoolExecutor(2) as pool:
        wrong = [w for w in pool.map(lambda c: check(sys.argv[2:], c), found) if w]
    print("\n".join(wrong + ["%d cases, %d wrong" % (len(found), len(wrong))]))
    return len(wrong) != 0


sys.exit(main())
