"""Communication that kernels wait for, at -O2 and at -O0, by the model of gxc --report.

    exposed.py GXC MODULE

Fails unless computation and communication take about equally long at -O2, and at most 0.3 of what is
waited for at -O0 is still waited for.
"""
import json
import subprocess
import sys

MOST = 0.3


def modelled(gxc, module, level):
    report = subprocess.run([*gxc, f"-O{level}", "--report=json", "--emit=hlo", "-o", "/dev/null", module],
                            check=True, capture_output=True, text=True).stdout
    return json.loads(report)["modelled"]


*gxc, module = sys.argv[1:]
plain, best = modelled(gxc, module, 0), modelled(gxc, module, 2)
balance = best["compute_us"] / best["communication_us"]
ratio = best["exposed_communication_us"] / plain["exposed_communication_us"]
print(f"computation {best['compute_us']:.1f} us, communication {best['communication_us']:.1f} us: "
      f"waited for {plain['exposed_communication_us']:.1f} us at -O0, "
      f"{best['exposed_communication_us']:.1f} us at -O2, ratio {ratio:.3f}")
sys.exit(0 if 2 / 3 <= balance <= 3 / 2 and ratio <= MOST else 1)
