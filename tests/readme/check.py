#!/usr/bin/env python3
"""What a document shows is true: check.py BUILD ROOT DOCUMENT, run in an empty folder.

Indented lines that begin with build/ are commands: they are run, in order, and must succeed. The
other indented lines behind some commands, up to the next heading, are what these print, in that order;
"..." stands for anything, and white space at the ends does not count. A path in backquotes is a file
or folder of the project, an option (--x) one of its programs'.
"""
import glob
import os
import re
import subprocess
import sys

build, root, document = sys.argv[1:]
text = open(document).read()
wrong = []


def run(command):
    done = subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, executable="/bin/bash")
    if done.returncode != 0:
        wrong.append(f"{command}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout.splitlines()


def shown(line, wanted):
    pattern = ".*".join(re.escape(part.strip()) for part in wanted.split("..."))
    return re.search(pattern, line) is not None


def check_commands():
    commands, output, was_command = [], [], False
    for line in text.splitlines():
        if line.startswith("#"):
            commands, output = [], []
        if not line.startswith("    "):
            continue
        line = line.strip()
        is_command = line.startswith("build/")
        if is_command:
            if not was_command:
                commands, output = [], []
            commands.append(re.sub(r"\s+#.*", "", line))
            output += run(commands[-1])
        elif commands:
            at = next((i for i, have in enumerate(output) if shown(have, line)), None)
            if at is None:
                wrong.append(f"not printed by {' or '.join(commands)}: {line}")
            else:
                output = output[at + 1:]
        was_command = is_command


def check_names():
    options = "".join("\n".join(run(f"build/{p} --help")) for p in ("gxc", "gxrun"))
    for name in set(re.findall(r"`([^`\n]+)`", text)):
        if re.fullmatch(r"[a-z]+(/[a-z0-9_.*-]+)+/?", name) and not glob.glob(name):
            wrong.append(f"there is no {name}")
        for option in re.findall(r"(?<!\S)--[a-z-]+", name):
            if option not in options:
                wrong.append(f"no program has the option {option}")


os.symlink(build, "build")
for name in os.listdir(root):
    if name != "build" and not name.startswith("."):
        os.symlink(os.path.join(root, name), name)
check_commands()
check_names()
if wrong:
    sys.exit("\n".join(wrong))
