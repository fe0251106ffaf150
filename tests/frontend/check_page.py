"""Checks a page of gxc --emit=html: it needs nothing from outside, and its data hangs together. With a browser's name
behind the page: what the page shows in it."""
import html
import json
import re
import subprocess
import sys

page = open(sys.argv[1], encoding="utf-8").read()
assert page.count("</script>") == 2 and "<!--" not in page
assert not re.search(r"""(src|href)\s*=|@import|fetch\(|https?://(?!www\.w3\.org/2000/svg)""", page.split("<script", 1)[0] + page.rsplit("<script>", 1)[1])
data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)[1])
nodes = {n["id"]: n for c in data["computations"] for n in c["nodes"]}
assert sum(c["entry"] for c in data["computations"]) == 1
assert all(o in nodes for n in nodes.values() for o in n["operands"])
assert all(c["node"] in nodes for c in data["commands"])
names = {n["name"] for n in nodes.values()}
assert data["kernels"] and all(k["hlo"] in names for k in data["kernels"])
assert abs(sum(k["us"] for k in data["kernels"]) - data["us"]) < 0.01 * data["us"]
for c in data["commands"]:
    assert "kernel" not in c or f".entry {c['kernel']}(" in data["ptx"], c
steps, buffers = data["memory"]["steps"], data["memory"]["buffers"]
assert steps and buffers and all(0 <= b["first"] <= b["last"] < len(steps) for b in buffers)
dot = next(n for n in nodes.values() if n.get("kind") == "dot")
assert dot["op_name"].startswith("jit(f)/while/") and dot["file"] == "model.py" and dot["line"] in (7, 8), dot
assert "dot(" in dot["fused"] and dot["us"] > 0 and "jit(f)/add" in data["input"]

if len(sys.argv) > 2:
    def show(state):
        """Text of what the page shows at this state, and its markup."""
        command = [sys.argv[2], "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000",
                   f"--user-data-dir={sys.argv[1]}.browser", "--dump-dom", f"file://{sys.argv[1]}#{state}"]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        body = dom.split("<script", 1)[0].split("<body", 1)[1]
        return html.unescape(re.sub(r"<[^>]*>", " ", body)), body

    text, dom = show(f"node={dot['name']}")
    assert "kernels, gxc" in text
    assert dom.count('class="node') == len(next(c for c in data["computations"] if dot in c["nodes"])["nodes"])
    assert 'class="node chosen"' in dom and 'id="fused"' in dom and 'id="ptx"' in dom and 'id="input"' in dom, text
    assert "model.py:" in text and "us by the model" in text and ".entry" in text and "</script>" in text
    text, dom = show("search=jit(f)/add")
    found = sum("jit(f)/add" in n.get("op_name", "") for n in nodes.values())
    assert found and f"{found} found" in text and dom.count('class="node"') == found, text
    text, dom = show("tab=kernels")
    assert dom.count('class="link"') == len(data["kernels"])
    text, dom = show("tab=memory")
    assert "most lives at step" in text and dom.count("<rect") == len(buffers), text[:300]
    text, dom = show("tab=text")
    assert "HLO after all passes" in text and "HloModule m" in text
    print("shown")
