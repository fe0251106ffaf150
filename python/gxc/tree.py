"""Trees of arrays and JAX's key paths.

With JAX in the process its own functions are used, so whatever is registered there is a tree. Without it
dictionaries, lists, tuples and named tuples are. A key path is what jax.tree_util.keystr prints:
['layers'][0].weight."""

from __future__ import annotations

import ast
import numbers
import re
import sys
from typing import Any, Callable, Optional

from .errors import RunError

IsLeaf = Optional[Callable[[Any], bool]]


def flatten(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[str, Any]]:
    """Key path and leaf of each leaf, in JAX's order."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "tree_util"):
        leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
        return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]
    out: list[tuple[str, Any]] = []
    _flatten(tree, "", out, is_leaf)
    return out


def is_numbers(tree: Any) -> bool:
    """Whether it is a list, or lists in a list, of numbers only: an array where a program wants one."""
    return type(tree) in (list, tuple) and bool(tree) and \
        all(isinstance(part, numbers.Number) or is_numbers(part) for part in tree)


def _flatten(tree: Any, path: str, out: list[tuple[str, Any]], is_leaf: IsLeaf) -> None:
    if tree is None:
        return
    if is_leaf is not None and is_leaf(tree):
        out.append((path, tree))
        return
    if isinstance(tree, dict):
        for key in sorted(tree) if type(tree) is dict else tree:
            _flatten(tree[key], f"{path}[{key!r}]", out, is_leaf)
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for field in tree._fields:
            _flatten(getattr(tree, field), f"{path}.{field}", out, is_leaf)
    elif isinstance(tree, (list, tuple)):
        for i, part in enumerate(tree):
            _flatten(part, f"{path}[{i}]", out, is_leaf)
    else:
        out.append((path, tree))


_KEY = re.compile(r"""\[(-?\d+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.(\w+)""")


def keys(path: str) -> list[Any]:
    """The keys of a path: ['a'][0].b gives 'a', 0, 'b'."""
    out: list[Any] = []
    at = 0
    while at < len(path):
        match = _KEY.match(path, at)
        if not match:
            raise RunError(f"{path!r} is not a key path of dictionaries, lists and attributes")
        written, attribute = match.groups()
        try:
            out.append(attribute if attribute is not None else ast.literal_eval(written))
        except (SyntaxError, ValueError):
            raise RunError(f"{written} in {path!r} is no text or number as Python writes it") from None
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
