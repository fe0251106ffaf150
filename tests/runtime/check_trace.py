"""Checks a trace against the Trace Event Format, as Chrome and Perfetto read it, and what gxrun puts into it."""
import json
import sys

NUMBER = (int, float)
FIELDS = {  # phase -> required fields and their types
    "M": {"name": str, "pid": int, "tid": int, "args": dict},
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": NUMBER, "dur": NUMBER, "args": dict},
}
ARGS = {"command": int, "bytes": int, "measured_us": NUMBER, "modelled_us": NUMBER, "op_name": str,
        "source_file": str, "source_line": int, "does": str}

trace = json.load(open(sys.argv[1]))
assert set(trace) <= {"traceEvents", "displayTimeUnit", "otherData"}, set(trace)
assert trace["displayTimeUnit"] in ("ms", "ns")
assert all(isinstance(v, str) for v in trace["otherData"].values())
tracks = set()
for e in trace["traceEvents"]:
    fields = FIELDS[e["ph"]]
    assert set(e) == set(fields) | {"ph"}, e
    assert all(isinstance(e[k], t) and not isinstance(e[k], bool) for k, t in fields.items()), e
    if e["ph"] == "M":
        assert e["name"] in ("process_name", "thread_name") and isinstance(e["args"]["name"], str), e
        tracks.add((e["pid"], e["tid"], e["name"]))
        continue
    assert e["dur"] >= 0 and e["ts"] >= 0, e
    assert (e["pid"], e["tid"], "process_name") in tracks and (e["pid"], e["tid"], "thread_name") in tracks, e
    assert all(isinstance(v, ARGS[k]) for k, v in e["args"].items()), e
slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
measured = [e for e in slices if e["pid"] < 1000000]
for name in sys.argv[2:]:  # NAME=OP_NAME@FILE:LINE
    name, origin = name.split("=")
    a = [e["args"] for e in measured if e["name"].startswith(name)][0]
    assert f"{a['op_name']}@{a['source_file']}:{a['source_line']}" == origin, a
    assert a["modelled_us"] > 0 and a["measured_us"] > 0 and a["bytes"] > 0, a
# The model's commands stand one behind the other on their own track.
end = {}
for e in slices:
    if e["pid"] >= 1000000:
        assert abs(e["ts"] - end.get((e["pid"], e["tid"]), 0)) < 0.01, e
        end[e["pid"], e["tid"]] = e["ts"] + e["dur"]
assert end
print(len(measured), "measured")
