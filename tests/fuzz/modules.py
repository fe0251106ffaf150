#!/usr/bin/env python3
"""The HLO modules of the tests, and what their RUN lines tell gxc, for the target kernels.

    tests/fuzz/modules.py OUT FILE...              writes them as tests/fuzz/shared/modules.c reads them
    tests/fuzz/modules.py --seeds FOLDER FILE...   an input for each module and each way that it is run

A file may have several modules: parts of split-file ("//--- name"), or some behind each other. In OUT stand, for
each module, a line "@ KEY BYTES NAME", lines of options, an empty line, and BYTES of text. KEY comes from the name
alone, so that what fuzzing keeps means the same module when the tests get more."""
import itertools
import re
import sys
import zlib
from pathlib import Path

MOST_RUNS, MOST_TEXT = 24, 60000
ALL_LIBRARIES, ASSEMBLED = 10, 128  # in CHOICE_USES and CHOICE_TARGET of tests/fuzz/shared/choice.h
# What a compile is told in an input; the rest of a command is of no use there.
TAKEN = re.compile(r"-O[012]|--(?:emit|target|passes|skip|set|tiles|libraries|replicas|partitions|f32-dots|fp-contract|print)=[^\s'\"$%|;&)]+"
                   r"|--(?:lineinfo|embed-ptx|embed-hlo|report|timing|lint)(?=\s|$)|-O [012]")


def commands(line: str):
    """(part of split-file or "", options) of each gxc of a RUN line, loops of the shell unrolled."""
    loops = re.findall(r"\bfor (\w+) in ([^;]*);", line)
    for values in itertools.islice(itertools.product(*(v.split() for _, v in loops)), 8):
        text = line
        for (name, _), value in zip(loops, values):
            text = text.replace(f"${name}", value)
        for command in re.split(r"%gxc\b", text)[1:]:
            command = re.split(r"[|;&]", command)[0]
            part = re.search(r"%t[./]([\w-]+)\.(?:hlo|txt)", command)
            told = [word.replace("-O ", "-O") for word in TAKEN.findall(command)]
            yield part[1] if part else "", " ".join(told)


def modules(path: str):
    """(name, text, runs) of each module of the file."""
    text = Path(path).read_text(errors="replace")
    lines = re.sub(r"\\\n// RUN:", "", text).splitlines()
    runs = list(dict.fromkeys(run for line in lines if "RUN:" in line for run in commands(line)))
    body = "".join(line for line in text.splitlines(True) if not re.match(r"//(?!---)", line))
    parts = re.split(r"^//--- (.*)\n", body, flags=re.M)
    names = {Path(name).stem for name in parts[1::2]}
    count = 0
    for part, text in zip(["", *parts[1::2]], parts[::2]):
        own = [told for name, told in runs if name == Path(part).stem or name not in names][:MOST_RUNS] or [""]
        for module in re.split(r"^(?=HloModule)", text, flags=re.M):
            if "ENTRY" in module and len(module) < MOST_TEXT:
                yield f"{path}:{count}", module, list(dict.fromkeys(own))
                count += 1


def key_of(name: str) -> int:
    return zlib.crc32(name.encode()) & 0xFFFF


def write(out: str, files: list) -> None:
    with open(out, "wb") as f:
        for name, text, runs in sorted((m for path in files for m in modules(path)), key=lambda m: key_of(m[0])):
            data = text.encode()
            f.write(f"@ {key_of(name)} {len(data)} {name}\n".encode())
            f.write("".join(run + "\n" for run in runs if run).encode() + b"\n" + data)


def write_seeds(folder: str, files: list) -> None:
    """The head of tests/fuzz/kernels.c: key, a module of the tests, the run, data; then 0, which changes nothing, but
    for the form, 1: the module is run. Nothing is assembled, so runs that differ in the target only are the same."""
    for name, _, runs in (m for path in files for m in modules(path)):
        key, seen = key_of(name), set()
        uses = ALL_LIBRARIES if name.startswith("tests/cudnn") else 0
        for i, run in enumerate(runs):
            short = run if "--emit" in run else re.sub(r"--target=\S+ ?", "", run)
            if short not in seen:
                put(folder, [key & 255, key >> 8, 2, i, 1, 0, 0, 0, uses, 0, 0, 0, 0])
            seen.add(short)
        if all("--emit" in run for run in runs):
            put(folder, [key & 255, key >> 8, 2, 0, 1, 0, 1, 0, uses, 0, 0, 0, 0])
    for seed in range(256):  # random modules, those with odd numbers of products, at each level
        put(folder, [seed, 1, seed % 2, 0, seed, seed % 3 + 1, 1, 0, 0, 0, 0, 0, 0])
    for i, target in enumerate((1, 5, 6, 9, 12, 18)):  # rows of targets.def, assembled
        for seed in range(4):
            put(folder, [seed, i, 1, 0, seed, 2, 1, ASSEMBLED + target, 0, 0, 0, 0, 0])


def put(folder: str, head: list) -> None:
    Path(folder, "head-" + bytes(head).hex()).write_bytes(bytes(head))


if __name__ == "__main__":
    if sys.argv[1] == "--seeds":
        write_seeds(sys.argv[2], sys.argv[3:])
    else:
        write(sys.argv[1], sys.argv[2:])
