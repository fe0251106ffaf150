"""damage.py GXRUN PROGRAM: flips single bits all over the program and runs it on the emulator. It
must say what is wrong, or give what it gave before; at least one bit of the emulator's code must
be noticed as such."""
import subprocess
import sys

gxrun, program = sys.argv[1:]
original = bytearray(open(program, "rb").read())


def run(path):
    command = [gxrun, path, "--device=emu", "--input=random:1"]
    p = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    return p.returncode, p.stdout, p.stderr


good = run(program)
assert good[0] == 0, good
noticed = 0
for i in range(40):
    damaged = original[:]
    bit = (len(original) * 8 * i // 40 + 977 * i) % (len(original) * 8)
    damaged[bit // 8] ^= 1 << bit % 8
    with open(program + ".damaged", "wb") as f:
        f.write(damaged)
    code, out, error = run(program + ".damaged")
    noticed += "kernels for the emulator are damaged" in error
    if not (code == 0 and out == good[1]) and not (code in (1, 2, 3, 4) and "error:" in error):
        sys.exit(f"bit {bit}: exit {code}: {error}")
if noticed == 0:
    sys.exit("no flipped bit of the emulator's kernels was noticed")
