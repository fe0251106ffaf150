"""Trees of arrays and JAX's key paths.

With JAX in the process its own functions are used, so whatever is registered there is a tree. Without it
dictionaries, lists, tuples and named tuples are. A key path is what jax.tree_util.keystr prints:
['layers'][0].weight."""

from __future__ import annotations

import re
import sys
from typing import Any

from .errors import RunError


def flatten(tree: Any) -> list[tuple[str, Any]]:
    """Key path and leaf of each leaf, in JAX's order."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "tree_util"):
        leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
        return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
    out: list[tuple[str, Any]] = []
    _flatten(tree, "", out)
    return out


def _flatten(tree: Any, path: str, out: list[tuple[str, Any]]) -> None:
    if tree is None:
        return
    if isinstance(tree, dict):
        for key in sorted(tree) if type(tree) is dict else tree:
            _flatten(tree[key], f"{path}[{key!r}]", out)
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for field in tree._fields:
            _flatten(getattr(tree, field), f"{path}.{field}", out)
    elif isinstance(tree, (list, tuple)):
        for i, part in enumerate(tree):
            _flatten(part, f"{path}[{i}]", out)
    else:
        out.append((path, tree))


_KEY = re.compile(r"""\[(?:(-?\d+)|'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]|\.(\w+)""")


def keys(path: str) -> list[Any]:
    """The keys of a path: ['a'][0].b gives 'a', 0, 'b'."""
    out: list[Any] = []
    at = 0
    while at < len(path):
        match = _KEY.match(path, at)
        if not match:
            raise RunError(f"{path!r} is not a key path of dictionaries, lists and attributes")
        number, single, double, attribute = match.groups()
        out.append(int(number) if number is not None else next(t for t in (single, double, attribute) if t is not None))
        at = match.end()
    return out


def unflatten(paths: list[str], leaves: list[Any]) -> Any:
    """A tree of tuples and dictionaries in which each leaf is where its path says."""
    if paths == [""]:
        return leaves[0]
    root: dict[Any, Any] = {}
    for path, leaf in zip(paths, leaves):
        node, parts = root, keys(path)
        for key in parts[:-1]:
            node = node.setdefault(key, {})
        if not parts or not isinstance(node, dict) or parts[-1] in node:
            raise RunError(f"the path {path!r} of a result is there twice, or within another one")
        node[parts[-1]] = _Leaf(leaf)
    return _finish(root)


class _Leaf:
    def __init__(self, value: Any):
        self.value = value


def _finish(node: Any) -> Any:
    if isinstance(node, _Leaf):
        return node.value
    if node and list(node) == list(range(len(node))):
        return tuple(_finish(part) for part in node.values())
    return {key: _finish(part) for key, part in node.items()}
