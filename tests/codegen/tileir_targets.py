#!/usr/bin/env python3
"""Which of a folder's programs NVIDIA's assembler makes a kernel of for each target, and of which gxc makes one by itself.

Usage: tileir_targets.py GXC FOLDER [--twice] TARGET...
--twice: compiled again with one thread, each file must be the same.
"""
import json
import pathlib
import subprocess
import sys


def by_tileir(gxc, program, target, twice):
    """Whether all of the program's kernels are CUDA Tile IR's."""
    out = program.with_suffix(".cubin")
    command = [*gxc.split(), str(program), f"--target={target}", "-O2", "--tiles=tileir", "--libraries=none", "--report=json",
               "-o", str(out)]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if twice:
        data = out.read_bytes()
        subprocess.run([*command, "--jobs=1"], check=True, capture_output=True)
        if out.read_bytes() != data:
            sys.exit(f"{program} for {target}: other bytes the second time")
    return all(kernel["tileir"] for kernel in json.loads(report)["kernels"])


def main():
    twice = "--twice" in sys.argv
    gxc, folder, *targets = (a for a in sys.argv[1:] if a != "--twice")
    programs = sorted(pathlib.Path(folder).glob("*.hlo"))
    for target in targets:
        made = {program.stem: by_tileir(gxc, program, target, twice) for program in programs}
        print(f"{target}:", *(name for name, is_made in made.items() if is_made), "| own:",
              *(name for name, is_made in made.items() if not is_made))


main()
