#!/usr/bin/env python3
"""The lines of Python in README.md and docs/*.md are true: documents.py ROOT BUILD, in an empty folder.

Examples with prompts are doctests. Of the sections named below all indented lines are run, one after the other, and the files
that they write are compiled; those of a library that is not installed are passed over, with a word."""
import doctest
import glob
import importlib.util
import os
import subprocess
import sys

import jax
import jax.export  # noqa: F401
import jax.numpy as jnp
import numpy as np

root, build = sys.argv[1:]
SECTIONS = [("docs/stablehlo.md", "## JAX", ["jax"]), ("docs/stablehlo.md", "## PyTorch", ["torch", "torch_xla"]),
            ("docs/stablehlo.md", "## TensorFlow", ["tensorflow"]), ("README.md", "## From JAX to a cubin", ["jax"])]


def step(w, x):
    return w - 0.1 * (x.T @ jnp.tanh(x @ w)), jnp.arange(5.0) * w.sum()


def section(path, heading):
    with open(os.path.join(root, path)) as file:
        lines = file.read().split("\n")
    at = lines.index(heading) + 1
    end = next((i for i in range(at, len(lines)) if lines[i].startswith("## ")), len(lines))
    return [line[4:] for line in lines[at:end] if line.startswith("    ") and ">>>" not in line and "..." not in line[:8]]


failed = 0
count = 0
for path in [os.path.join(root, "README.md"), *sorted(glob.glob(os.path.join(root, "docs", "*.md")))]:
    found = doctest.testfile(path, module_relative=False, optionflags=doctest.ELLIPSIS)
    failed += found.failed
    count += found.attempted
for path, heading, libraries in SECTIONS:
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{path}, {heading}: not run, {', '.join(missing)} is not installed")
        continue
    names = {"jax": jax, "jnp": jnp, "np": np, "step": step, "f": step,
             "arguments": (np.ones((4, 4), np.float32), np.ones((2, 4), np.float32))}
    for line in section(path, heading):
        if line.lstrip().startswith("XLA_FLAGS"):
            continue
        exec(line, names)
        count += 1
    if "text" in names:
        with open("text.hlo", "w") as file:
            file.write(names["text"])
written = [name for name in sorted(os.listdir(".")) if not name.endswith((".cubin", ".json"))]
for name in written:
    done = subprocess.run([os.path.join(build, "gxrun"), name, "--device=emu", "--input=random:1", "--compare=ref"],
                          capture_output=True, text=True)
    if done.returncode:
        failed += 1
        print(f"{name}: {done.stdout}{done.stderr}")
print(f"{count} examples, {len(written)} programs, {failed} failed")
sys.exit(failed != 0 or count < 20 or len(written) < 3)
