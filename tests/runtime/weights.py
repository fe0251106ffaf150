#!/usr/bin/env python3
"""Makes a program of 300 arguments in the names that JAX gives them, and files that have their values: weights.py FOLDER."""
import json
import os
import struct
import sys
import zipfile


def npy(values, shape, fortran=False, descr="<f4"):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values)


def safetensors(arrays):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, values) in arrays.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(name, data):
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(data)


COUNT = 299
lines, arrays, path_rows = [], {}, []
sums = "x.1"
for i in range(COUNT):
    part = "wb"[i % 2]
    name = f"params__layers___{i // 2}____{part}__.1"
    arrays[f"layers.{i // 2}.{part}"] = ((2,), [float(i), float(-i)])
    path_rows.append({"path": f"params['layers'][{i // 2}]['{part}']", "name": name, "dtype": "f32", "shape": [2]})
    lines += [f"  {name} = f32[2] parameter({i})", f"  sum{i} = f32[2] add({sums}, {name})"]
    sums = f"sum{i}"
text = f"HloModule many\nENTRY e {{\n  x.1 = f32[2] parameter({COUNT})\n" + "\n".join(lines)
write("many.hlo", (text + f"\n  n = f32[2] negate({sums})\n  ROOT t = (f32[2], f32[2]) tuple({sums}, n)\n}}\n").encode())
write("model.safetensors", safetensors(arrays))
write("more.safetensors", safetensors({**arrays, "layers.999.w": ((1,), [0.0])}))
write("short.safetensors", safetensors(dict(list(arrays.items())[1:])))
write("bad.safetensors", safetensors({**arrays, "layers.3.w": ((3,), [0.0] * 3)}))
write("x.npy", npy([0.5, 1.5], (2,)))
with zipfile.ZipFile(os.path.join(sys.argv[1], "model.npz"), "w") as z:
    for key, (shape, values) in arrays.items():
        z.writestr(f"params.{key}.npy", npy(values, shape))
    z.writestr("x.npy", npy([0.5, 1.5], (2,)))
with zipfile.ZipFile(os.path.join(sys.argv[1], "packed.npz"), "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("x.npy", npy([0.0] * 2, (2,)))
with open(os.path.join(sys.argv[1], "model.npz"), "rb") as f:
    damaged = f.read()
at = damaged.index(struct.pack("<ff", 0.5, 1.5))
write("damaged.npz", damaged[:at] + b"\1" + damaged[at + 1:])
rows = path_rows + [{"path": "x", "name": "x.1", "dtype": "f32", "shape": [2]}]
results = [{"path": f"['{key}']", "name": str(i), "dtype": "f32", "shape": [2]} for i, key in enumerate(("sum", "less"))]
write("many.json", json.dumps({"gxc_manifest": 1, "arguments": rows, "results": results}).encode())
write("other.json", json.dumps({"gxc_manifest": 1, "arguments": rows[1:], "results": results}).encode())
write("transpose.hlo", b"HloModule m ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[3,2] transpose(x), dimensions={1,0} }")
write("fortran.npy", npy([1, 4, 2, 5, 3, 6], (2, 3), True))
