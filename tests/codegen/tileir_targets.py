#!/usr/bin/env python3
"""Which of a folder's programs NVIDIA's assembler makes a kernel of for each target, and of which gxc makes one by itself.

Usage: tileir_targets.py GXC FOLDER TARGET...
"""
import json
import pathlib
import subprocess
import sys


def by_tileir(gxc, program, target):
    """Whether all of the program's kernels are CUDA Tile IR's."""
    command = [*gxc.split(), str(program), f"--target={target}", "-O2", "--tiles=tileir", "--libraries=none", "--report=json",
               "-o", str(program.with_suffix(".cubin"))]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return all(kernel["tileir"] for kernel in json.loads(report)["kernels"])


def main():
    gxc, folder, *targets = sys.argv[1:]
    programs = sorted(pathlib.Path(folder).glob("*.hlo"))
    for target in targets:
        made = {program.stem: by_tileir(gxc, program, target) for program in programs}
        print(f"{target}:", *(name for name, is_made in made.items() if is_made), "| own:",
              *(name for name, is_made in made.items() if not is_made))


main()
