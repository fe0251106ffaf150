#!/usr/bin/env python3
"""Linear algebra of JAX, lowered for CUDA and for the CPU, compiled by gxc and run on the emulator, against JAX on the CPU
in twice the precision: linear_algebra.py [--only NAME] [--types f32,c128]. Every function with each type, one matrix and
a batch, well and ill conditioned. A difference counts beside the condition where the function's own error grows with it."""
import argparse
import itertools
import sys

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax

import gxc

jax.config.update("jax_enable_x64", True)
TYPES = {"f32": (np.float32, np.float64), "f64": (np.float64, np.float64),
         "c64": (np.complex64, np.complex128), "c128": (np.complex128, np.complex128)}
N, BATCH = 6, 3
CONDITIONS = ("well", "ill")
SLACK = 30  # units of the last place, of the largest element


def h(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def hermitian(a):
    return (a + h(a)) / 2


def positive(a):
    return a @ h(a)


def upper(a):
    return jnp.triu(a) + jnp.eye(N, dtype=a.dtype)


def eigh(a):
    w, v = jnp.linalg.eigh(hermitian(a))
    return w, (v * w[..., None, :]) @ h(v), h(v) @ v


def svd(a, full):
    u, s, vh = jnp.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], h(u) @ u


def qr(a, mode):
    q, r = jnp.linalg.qr(a, mode=mode)
    return q @ r, h(q) @ q, jnp.abs(r)


def lu(a):  # jax.scipy.linalg.lu takes one matrix only
    one = jsl.lu
    for _ in range(a.ndim - 2):
        one = jax.vmap(one)
    p, l, u = one(a)
    return p @ l @ u, p, u


def polar(a):
    u, p = jsl.polar(a, method="svd")
    return u @ p, p, u


def tridiagonal(a):
    _, d, e, _ = lax.linalg.tridiagonal(hermitian(a), lower=True)
    return d.real.sum(-1), (d.real ** 2).sum(-1) + 2 * (jnp.abs(e) ** 2).sum(-1)


def diagonals(a):
    return [jnp.concatenate([a[..., i], a[..., i + 1]], -1)[..., :N] for i in range(3)]


def tridiagonal_solve(a, b):
    low, mid, high = diagonals(a)
    return lax.linalg.tridiagonal_solve(low.at[..., 0].set(0), mid + 4, high.at[..., -1].set(0), b)


def triangle(a, b, **options):
    return lax.linalg.triangular_solve(upper(a), b, left_side=True, **options)


def grad(f):
    return lambda a: jax.grad(lambda x: f(x).real.sum())(a)


# name: function of a square matrix a and b of two columns, powers of the condition that its error grows with
FUNCTIONS = {
    "cholesky": (lambda a, b: jnp.linalg.cholesky(positive(a)), 2),
    "cho_solve": (lambda a, b: jsl.cho_solve((jnp.linalg.cholesky(positive(a)), True), b), 2),
    "lu": (lambda a, b: lu(a), 1),
    "lu_solve": (lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b), 1),
    "qr": (lambda a, b: qr(a, "reduced"), 1),
    "qr_tall": (lambda a, b: qr(a[..., :3], "reduced"), 1),
    "qr_complete": (lambda a, b: qr(a[..., :3], "complete")[0], 1),
    "qr_wide": (lambda a, b: qr(a[..., :3, :], "reduced"), 1),
    "solve": (lambda a, b: jnp.linalg.solve(a, b), 1),
    "inv": (lambda a, b: jnp.linalg.inv(a), 1),
    "det": (lambda a, b: jnp.linalg.det(a), 1),
    "slogdet": (lambda a, b: jnp.linalg.slogdet(a), 1),
    "eigh": (lambda a, b: eigh(a), 0),
    "eigvalsh": (lambda a, b: jnp.linalg.eigvalsh(hermitian(a)), 0),
    "svd": (lambda a, b: svd(a, False), 0),
    "svd_tall": (lambda a, b: svd(a[..., :4], True), 0),
    "svd_wide": (lambda a, b: svd(a[..., :4, :], False), 0),
    "svdvals": (lambda a, b: jnp.linalg.svdvals(a), 0),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a[..., :3], b, rcond=1e-9)[0], 2),
    "pinv": (lambda a, b: jnp.linalg.pinv(a[..., :3], rtol=1e-9), 2),
    "matrix_rank": (lambda a, b: jnp.linalg.matrix_rank(a[..., :3] @ a[..., :3, :], rtol=1e-3), 0),
    "expm": (lambda a, b: jsl.expm(a), 0),
    "triangular_solve": (lambda a, b: triangle(a, b), 1),
    "triangular_transposed": (lambda a, b: triangle(a, b, transpose_a=True, unit_diagonal=True), 1),
    "polar": (lambda a, b: polar(a), 1),
    "norm_2": (lambda a, b: jnp.linalg.norm(a, 2, axis=(-2, -1)), 0),
    "norm_nuc": (lambda a, b: jnp.linalg.norm(a, "nuc", axis=(-2, -1)), 0),
    "cond": (lambda a, b: 1 / jnp.linalg.cond(a), 0),
    "matrix_power": (lambda a, b: jnp.linalg.matrix_power(a, -2), 2),
    "tridiagonal": (lambda a, b: tridiagonal(a), 0),
    "tridiagonal_solve": (lambda a, b: tridiagonal_solve(a, b), 1),
    "grad_logdet": (lambda a, b: grad(lambda x: jnp.linalg.slogdet(x)[1])(a), 1),
    "grad_solve": (lambda a, b: grad(lambda x: jnp.linalg.solve(x, b))(a), 2),
    "grad_eigvalsh": (lambda a, b: grad(lambda x: jnp.linalg.eigvalsh(hermitian(x)) ** 2)(a), 0),
    "grad_cholesky": (lambda a, b: grad(lambda x: jnp.linalg.cholesky(positive(x)))(a), 3),
}
SINGLE = {"lstsq", "expm", "polar"}  # JAX has them for one matrix; a batch is made by vmap


def orthogonal(random, shape, is_complex):
    x = random.standard_normal(shape) + (1j * random.standard_normal(shape) if is_complex else 0)
    return np.linalg.qr(x)[0]


def condition_of(kind, condition):
    """Ill: its square is still a matrix of the type's."""
    return 10.0 if condition == "well" else float(np.finfo(TYPES[kind][0]).eps) ** -0.4


def inputs(kind, batched, condition):
    narrow, wide = TYPES[kind]
    random = np.random.default_rng(7)
    shape = ((BATCH,) if batched else ()) + (N, N)
    is_complex = np.issubdtype(wide, np.complexfloating)
    u, v = (orthogonal(random, shape, is_complex) for _ in range(2))
    a = (u * np.geomspace(1, 1 / condition, N)) @ v
    b = random.standard_normal(shape[:-1] + (2,)) + (1j if is_complex else 0)
    return a.astype(narrow), b.astype(narrow), wide


def compare(have, want, kind, factor):
    """The largest difference, in parts of what is allowed."""
    narrow = TYPES[kind][0]
    worst = 0.0
    for x, y in zip(jax.tree_util.tree_leaves(have), jax.tree_util.tree_leaves(want), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape:
            raise AssertionError(f"{x.shape} is not {y.shape}")
        if y.dtype.kind in "iub":
            worst = max(worst, 0.0 if np.array_equal(x, y) else np.inf)
            continue
        allowed = SLACK * np.finfo(narrow).eps * factor * max(np.abs(y).max(), 1)
        difference = np.abs(x.astype(y.dtype) - y).max()
        worst = max(worst, difference / allowed if np.isfinite(difference) else np.inf)
    return worst


def traced(function, a, b, platform):
    """The program for a platform; what it computes does not depend on the numbers."""
    lowered = jax.jit(function, keep_unused=True).trace(a, b).lower(lowering_platforms=(platform,))
    return gxc.compile(lowered, target="emu")


def run_all(name, kind, batched, platforms):
    """Yields what was run and the largest difference, or the error."""
    function, powers = FUNCTIONS[name]
    if batched and name in SINGLE:
        function = jax.vmap(function)
    reference, programs = jax.jit(function), {}
    for condition in CONDITIONS:
        a, b, wide = inputs(kind, batched, condition_of(kind, condition))
        want = None
        for platform in platforms:
            what = f"{name} {kind} {'batch' if batched else 'one'} {condition} {platform}"
            try:
                if want is None:
                    want = reference(a.astype(wide), b.astype(wide))
                if platform not in programs:
                    programs[platform] = traced(function, a, b, platform)
                have = [np.asarray(x.numpy()) for x in jax.tree_util.tree_leaves(programs[platform](a, b))]
                yield what, compare(have, want, kind, condition_of(kind, condition) ** powers)
            except Exception as error:  # counted: a refusal is a difference, too
                yield what, error


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FUNCTIONS), help="names, with commas between")
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--platforms", default="cuda,cpu")
    options = parser.parse_args()
    good, bad = 0, []
    for name in options.only.split(","):
        worst = 0.0
        for kind, batched in itertools.product(options.types.split(","), (False, True)):
            for what, part in run_all(name, kind, batched, options.platforms.split(",")):
                if isinstance(part, Exception):
                    bad.append(f"{what}: {str(part).splitlines()[0][:200]}")
                    continue
                worst = max(worst, part)
                if part <= 1:
                    good += 1
                else:
                    bad.append(f"{what}: {part:.3g} of what is allowed")
        print(f"{name}: worst {worst:.3g} of what is allowed", flush=True)
    print(*bad, sep="\n")
    print(f"{good + len(bad)} runs, {good} agree, {len(bad)} do not")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
