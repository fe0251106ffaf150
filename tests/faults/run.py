"""run.py BUILD LIBRARY [--leaks LIBLSAN] [--most N] [--only TEXT] [--kinds LIST]: makes single calls of the programs fail, with the
preloaded library of fail.c. Contract: exit code 0, 1 or 4, a message where it is not 0, no signal, no
hang; a file that was asked for is whole - the same as without the fault - or not there, and nothing
else is left; with the compiler's leak sanitizer LIBLSAN preloaded, too, no memory that nothing points to at the end.
N: most faults for each program and kind, evenly spread, and the last few; 0: all. A program runs once for all faults of a kind,
each in a fork (fork.c); what cannot be forked, or was not right there, is done in a run of its own."""
import argparse
import bisect
import collections
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("library")
parser.add_argument("--leaks", default="", help="the leak sanitizer's library")
parser.add_argument("--most", type=int, default=0)
parser.add_argument("--only", default="")
parser.add_argument("--kinds", default="memory,block,read,write,open,process,thread")
parser.add_argument("--shard", type=int, default=0, help="which of the spread faults to begin with")
options = parser.parse_args()
build = os.path.abspath(options.build)
KINDS = options.kinds.split(",")
SECONDS = 20
LAST = 3
FEW = 3  # so many faults need no run that forks
# There are many of these. They are forked, which threads cannot be; of those of --jobs=2 some are taken.
FORKED = ("memory", "block")
OF_THREADS = 60
# `make coverage` links without codegen/llvm.ld: LLVM starts while it is loaded, where nobody takes what it throws.
STARTS_EARLY = "LLVM_PROFILE_FILE" in os.environ
START_ENDED = (b"std::bad_alloc", b"LLVM ERROR: out of memory")
LEAKED = 23  # exit code of the leak sanitizer
# Where LLVM has no memory, what it held is lost (codegen/llvm.c), objects behind its C interface too: what else is left is a leak.
LLVM_ENDED = b"in LLVM"
LLVM_OBJECTS = "leak:operator new\nleak:llvm\nleak:LLVM\n"
SUPPRESSIONS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lsan.supp")

HLO = """HloModule m
ENTRY e {
  p = f32[8,16] parameter(0)
  c = f32[16] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16})
  b = f32[8,16] broadcast(c), dimensions={1}
  a = f32[8,16] add(p, b)
  t = f32[8,16] tanh(a)
  ROOT r = f32[8,8] dot(t, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
}
"""

REPLICAS = """HloModule r, replica_count=2
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
ENTRY e { p = f32[64] parameter(0) ROOT s = f32[64] all-reduce(p), replica_groups={}, to_apply=add }
"""

MLIR = """module @m {
  func.func public @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.sine %arg0 : tensor<4x8xf32>
    %1 = stablehlo.add %0, %arg0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
"""

# What runs, with the files that it makes; {gxc} and {gxrun} are the programs.
PROGRAMS = [
    ("gxc --emit=hlo", "{gxc} a.hlo --emit=hlo -o out.hlo", ["out.hlo"]),
    ("gxc --emit=llvm", "{gxc} a.hlo --emit=llvm -o out.ll", ["out.ll"]),
    ("gxc --emit=plan", "{gxc} a.hlo --emit=plan -o out.plan", ["out.plan"]),
    ("gxc", "{gxc} a.hlo --target=sm_90a --target=emu -o out.cubin", ["out.cubin"]),
    ("gxc --jobs=2", "{gxc} a.hlo --jobs=2 --target=sm_90a --target=emu -o out.cubin", ["out.cubin"]),
    ("gxrun cubin", "{gxrun} a.cubin --device=emu -q --output=@out.npy", ["out.npy"]),
    ("gxrun --no-sandbox", "{gxrun} a.cubin --device=emu --no-sandbox --profile=out.json -q", ["out.json"]),
    ("gxc mlir", "{gxc} a.mlir --emit=hlo -o out.hlo", ["out.hlo"]),
    ("gxrun replicas", "{gxrun} r.cubin --device=emu -q --input=random:1 --output=@out{device}.npy", ["out0.npy", "out1.npy"]),
    ("gxrun ref", "{gxrun} a.hlo --device=ref -q --output=@out.npy", ["out.npy"]),
    ("gxrun hlo", "{gxrun} a.hlo --device=emu -q --output=@out.npy --compare=ref", ["out.npy"]),
]


def run(folder, command, fault, log=None):
    """Exit code and errors. A leak is looked at once more with whole stacks, which are slow: some are suppressed by names.
    What fails inside the sanitizer, which stops there, fails once more without it."""
    code, error = run_once(folder, command, fault, log, leaks=options.leaks)
    if b"LeakSanitizer: CHECK failed" in error:
        return run_once(folder, command, fault, log)
    if code != LEAKED or not options.leaks:
        return code, error
    names = os.path.join(folder, "tmp", "suppressions")
    with open(SUPPRESSIONS) as known, open(names, "w") as f:
        f.write(known.read() + (LLVM_OBJECTS if LLVM_ENDED in error else ""))
    code, error = run_once(folder, command, fault, log, options.leaks, names)
    os.remove(names)
    return code, error


def surroundings(folder, fault, leaks, suppressions):
    """Of a run. Where faults are forked, and in what they are compared with, the machine has one processor."""
    preloaded = os.path.abspath(options.library) + (":" + leaks if leaks else "")
    environment = dict(os.environ, LD_PRELOAD=preloaded, GXFAULT=fault)
    environment["LSAN_OPTIONS"] = f"exitcode={LEAKED}:allocator_may_return_null=1" + (
        f":suppressions={suppressions}:print_suppressions=0:fast_unwind_on_malloc=0" if suppressions else "")
    environment["TMPDIR"] = os.path.join(folder, "tmp")
    if fault.split(":")[0] in FORKED:
        environment["GXFAULT_ONE"] = "1"
    return environment


def words_of(command):
    return command.replace("{gxc}", build + "/gxc").replace("{gxrun}", build + "/gxrun").split()


def run_once(folder, command, fault, log, leaks="", suppressions=""):
    environment = surroundings(folder, fault, leaks, suppressions)
    if log:
        environment["GXFAULT_LOG"] = log
    try:
        p = subprocess.run(words_of(command), cwd=folder, env=environment, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, b""
    return p.returncode, p.stderr


def run_forks(folder, command, kind, chosen, judged, suppressed):
    """The program runs once; at each chosen call a fork of it goes on without. judged(number, code, error) is told of each.
    The exit code of the program itself."""
    order = sorted(chosen)

    def next_of(number):
        at = bisect.bisect_left(order, number)
        return struct.pack("@L", order[at] if at < len(order) else 2**64 - 1)

    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as own:
        names = os.path.join(folder, "..", os.path.basename(folder) + ".suppressions")
        with open(SUPPRESSIONS) as known, open(names, "w") as f:
            f.write(known.read() + suppressed)
        environment = surroundings(folder, f"{kind}:each", options.leaks, names)
        ask, ask_end = os.pipe()
        answer_end, answer = os.pipe()
        ends = (ask_end, answer_end, errors.fileno())
        environment["GXFAULT_TALK"] = ",".join(str(fd) for fd in ends)
        p = subprocess.Popen(words_of(command), cwd=folder, env=environment, stdout=own, stderr=own, pass_fds=ends)
        os.close(ask_end)
        os.close(answer_end)
        with os.fdopen(ask) as said:
            for line in said:
                number = int(line)
                before = everything(folder)
                errors.seek(0)
                errors.truncate()
                os.write(answer, next_of(number))
                if number not in chosen:
                    continue
                status = int(said.readline() or -1)
                errors.seek(0)
                judged(number, None if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
                       else os.waitstatus_to_exitcode(status), errors.read())
                put_back(folder, before)
                os.write(answer, next_of(number + 1))
        os.close(answer)
        os.remove(names)
        return p.wait()


def everything(folder):
    """Of what lies there, each file with what is in it, each folder with None; what goes first may be the folder of what follows."""
    found = {}
    for at, folders, files in os.walk(folder):
        found.update((os.path.join(at, f), None) for f in folders)
        for f in files:
            with open(os.path.join(at, f), "rb") as data:
                found[os.path.join(at, f)] = data.read()
    return found


def put_back(folder, before):
    now = everything(folder)
    for path in sorted(set(now) - set(before), reverse=True):
        os.rmdir(path) if now[path] is None else os.remove(path)
    for path, data in before.items():
        if data is None and path not in now:
            os.mkdir(path, 0o700)
        elif data is not None and now.get(path) != data:
            with open(path, "wb") as f:
                f.write(data)


def contents(folder, files):
    return {f: open(os.path.join(folder, f), "rb").read() for f in files if os.path.exists(os.path.join(folder, f))}


def clear(folder, keep):
    for f in set(os.listdir(folder)) - keep:
        path = os.path.join(folder, f)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)


def judge(folder, keep, files, good, code, error):
    """What breaks the contract, or None."""
    libc_ended = b"cannot allocate memory for thread-local data" in error  # of a library that was opened late
    if code == 127 and libc_ended:
        return None
    if code is None:
        return f"not done after {SECONDS} s"
    if code == -6 and STARTS_EARLY and any(text in error for text in START_ENDED):
        return None
    if code == LEAKED and options.leaks:
        return "leaks"
    if code not in (0, 1, 4):
        return f"exit {code}"
    if code != 0 and not libc_ended and b"rror" not in error and b"gxrun: " not in error and b"gxc: " not in error:
        return "no message"
    if code != 0 and b"this is a bug of gxc" in error:
        return "says that it is a bug"
    made = contents(folder, files)
    if code == 0 and set(made) != set(files):
        return "exit 0 without " + ", ".join(sorted(set(files) - set(made)))
    for f, data in made.items():
        if f != "out.json" and data != good[f]:
            return f"{f} is another one"
    left = set(os.listdir(folder)) - keep - set(files) - {"tmp"}
    left |= {"tmp/" + f for f in os.listdir(os.path.join(folder, "tmp"))}
    return "left behind: " + ", ".join(sorted(left)) if left else None


def numbers(count, of_threads):
    """The last few are always among them: what a program does at its end it does nowhere else."""
    most = min(options.most or count, OF_THREADS if of_threads else count)
    if count <= most + LAST:
        return range(1, count + 1)
    spread = {1 + (i * count + options.shard) // most % count for i in range(most)}
    return sorted(spread | set(range(count + 1 - LAST, count + 1)))


def forks(folder, keep, command, files, good, kind, chosen):
    """Of those that were right in a fork: their exit codes."""
    right, in_llvm = {}, set()

    def judged(number, code, error):
        wrong = judge(folder, keep, files, good, code, error)
        if not wrong and code >= 0:
            right[number] = code
        elif wrong == "leaks" and LLVM_ENDED in error:
            in_llvm.add(number)

    for suppressed in ("", LLVM_OBJECTS):
        clear(folder, keep)
        code = run_forks(folder, command, kind, in_llvm if suppressed else chosen, judged, suppressed)
        if code != 0 or contents(folder, files).keys() != good.keys() or judge(folder, keep, files, good, code, b""):
            sys.exit(f"{command}: exit {code} after its forks")
        if not in_llvm:
            break
    return right


def count(folder, keep, name, command, files, kind):
    """How many calls of the kind there are, and what the files are without a fault."""
    log = os.path.join(folder, "counts")
    clear(folder, keep)
    code, error = run(folder, command, f"{kind}:0", log)
    if code != 0:
        sys.exit(f"{name}: exit {code} without a fault: {error.decode(errors='replace')}")
    with open(log) as f:
        counts = dict(line.split() for line in f)
    return int(counts[kind]), contents(folder, files)


def check(folder, keep, name, command, files, results):
    for kind in KINDS:
        calls, good = count(folder, keep, name, command, files, kind)
        chosen = numbers(calls, "jobs" in command and kind in FORKED)
        in_forks = kind in FORKED and len(chosen) > FEW
        right = forks(folder, keep, command, files, good, kind, set(chosen)) if in_forks else {}
        for n, code in right.items():
            results[kind, f"exit {code}"] += 1
        forked[kind] += len(right)
        for n in sorted(set(chosen) - set(right)):
            clear(folder, keep)
            code, error = run(folder, command, f"{kind}:{n}")
            wrong = judge(folder, keep, files, good, code, error)
            results[kind, "wrong" if wrong else f"exit {code}" if code >= 0 else "starts of LLVM ended"] += 1
            if wrong:
                shown = 40 if wrong == "leaks" else 3
                last = error.decode(errors="replace").strip().splitlines()[-shown:]
                print(f"{name}: {kind}:{n} of {calls}: {wrong}\n  " + "\n  ".join(last), flush=True)


results, forked = collections.Counter(), collections.Counter()
with tempfile.TemporaryDirectory() as folder:
    for name, text in (("a.hlo", HLO), ("r.hlo", REPLICAS), ("a.mlir", MLIR)):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    for name in ("a", "r"):
        command = [build + "/gxc", name + ".hlo", "--target=sm_90a", "--target=emu", "-o", name + ".cubin"]
        subprocess.run(command, cwd=folder, check=True)
    keep = set(os.listdir(folder))
    for name, command, files in PROGRAMS:
        if options.only in name:
            check(folder, keep, name, command, files, results)
for kind in KINDS:
    print(f"{kind}: " + ", ".join(f"{n} {how}" for (k, how), n in sorted(results.items()) if k == kind)
          + (f"; {forked[kind]} in forks" if forked[kind] else ""))
sys.exit(any(how == "wrong" for _, how in results))
