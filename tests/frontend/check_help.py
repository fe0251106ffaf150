"""The options of --help and their groups are those of the man page: check_help.py PROGRAM MAN-PAGE."""
import re
import subprocess
import sys

program, page = sys.argv[1:3]
groups, name = {}, ""
for line in subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout.splitlines():
    if re.match(r" [A-Z]", line):
        name = line.strip()
    elif line.startswith("  ") and (found := re.match(r"  (?:-(\w)|   )(?:, | ? )?(?:--([\w-]+))?", line)) and any(found.groups()):
        groups.setdefault(name, set()).add("--" + found[2] if found[2] else "-" + found[1])
for own in ("--help", "--usage", "--version"):
    for options in groups.values():
        options.discard(own)
written, name, tagged = {}, "", False
for line in open(page).read().split(".SH OPTIONS")[1].split("\n.SH")[0].splitlines():
    line = line.replace("\\-", "-").replace("\\fR", " ").replace("\\fB", " ").replace("\\fI", " ")
    if line.startswith(".SS"):
        name, tagged = line[4:], False
    elif line == ".TP":
        tagged = True
    elif tagged and line.startswith("."):
        written.setdefault(name, set()).update(re.findall(r"(?<![\w-])--[\w-]*\w|(?<![\w-])-\w(?=\d|\b)", line))
        tagged = False
    else:
        tagged = False
for options in written.values():
    for short, long in (("-o", "--output"), ("-q", "--quiet"), ("-V", "--version")):
        if long in options:
            options.discard(short)
    options -= {"--help", "--usage", "--version", "-V"}
groups = {g: o for g, o in groups.items() if o}
written = {g: o for g, o in written.items() if o}
for g in sorted(set(groups) | set(written)):
    difference = groups.get(g, set()) ^ written.get(g, set())
    assert not difference, f"{g}: {sorted(difference)} in one only"
assert len(groups) >= 3
print("the same", len(groups), "groups")
