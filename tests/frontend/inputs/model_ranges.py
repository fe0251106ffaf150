"""model_ranges.py GXC FOLDER OUT: the modelled time of each module of the folder on an H100, in microseconds, against
what was estimated of its kernels by hand, and what bounds the longest of them.

The estimates are from the kernels' SASS: instructions by threads over the device's issue slots at 1.755 GHz, chains
of dependent loads, bytes over 3.35 TB/s. The lower one counts instructions, the upper one waits for loads that few
threads cannot hide. The model may be outside by a factor of 2 at both ends, as may what was estimated."""
import json
import subprocess
import sys
from pathlib import Path

# module: lowest and highest estimate, what bounds the longest kernel, a word of the reason ("": it is at its limit)
RANGES = {
    "attention_causal": (18500, 18500, "memory", ""),
    "attention_causal_grad": (95000, 95000, "fma", "without tensor cores"),
    "conv_3x3_NCHW": (2300, 3200, "issue", "without tensor cores"),
    "conv_3x3_NHWC": (1700, 2100, "issue", "without tensor cores"),
    "conv_grad_3x3": (28000, 125000, "chain", "in 9 blocks"),
    "conv_grad_stem": (114000, 610000, "chain", "in 3 blocks"),
    "cumsum": (60e6, 600e6, "launch", "100000000 starts"),
    "cumsum_rows": (40000, 40000, "launch", "8192 starts"),
    "embedding_grad": (2000, 2600, "chain", "16384 steps"),
    "f32_dot": (2700, 2700, "fma", "without tensor cores"),
    "fft_rows": (1100, 1100, "l2", ""),
    "fp8_dot_converted": (240, 240, "tensor", ""),
    "fp8_dot_scaled": (4000, 4000, "issue", "without tensor cores"),
    "histogram_f32": (140000, 1050000, "chain", "10000000 steps"),
    "int4_decode": (100, 100, "memory", ""),
    "int4_prefill": (770, 770, "tensor", ""),
    "int8_dot": (4900, 5300, "int", "without tensor cores"),
    "layernorm_grad": (200, 200, "memory", ""),
    "ragged_dot": (3600, 3600, "tensor", ""),
    "resnet_block_grad": (85000, 260000, "chain", "in 4 blocks"),
    "rmsnorm_grad": (130, 130, "memory", ""),
    "segment_sum": (46000, 61000, "chain", "1000000 steps"),
    "solve_triangular": (45000, 45000, "memory", ""),
    "sort_f32": (2100, 4500, "alu", "instructions for each byte"),
    "stencil_7": (3400, 4700, "memory", ""),
}


def main():
    gxc, folder, out = sys.argv[1].split(), Path(sys.argv[2]), sys.argv[3]
    if sorted(p.stem for p in folder.glob("*.hlo")) != sorted(RANGES):
        sys.exit(f"{folder} has other modules than RANGES")
    outside = 0
    for name, (low, high, limit, word) in RANGES.items():
        command = gxc + [str(folder / f"{name}.hlo"), "--passes=none", "--emit=plan", "-o", out, "--report=json", "--target=h100"]
        report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        us = report["modelled_seconds"] * 1e6
        longest = max(report["kernels"], key=lambda k: k["us"])
        reason = longest.get("reason") or ""
        is_in = low / 2 <= us <= high * 2 and longest["limit"] == limit and word in reason
        outside += not is_in
        print(f"{'in' if is_in else 'OUTSIDE':8}{name:24}{us:12.0f}, {low:.0f} to {high:.0f}   {longest['limit']} {reason}")
    print(f"{len(RANGES) - outside} in, {outside} outside")
    return outside != 0


sys.exit(main())
