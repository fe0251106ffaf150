"""Writes block.hlo: a pre-norm transformer block with causal attention.

    pip install jax==0.10.2 && python export.py [--inputs FOLDER]

Only this script needs JAX. With --inputs it also writes one .npy for each parameter, from a
fixed seed, for `gxrun block.cubin --input=@FOLDER/0.npy ...`.
"""
import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

BATCH, LENGTH, WIDTH, HEADS = 2, 48, 64, 4


def norm(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def linear(x, w):
    return x @ w / np.sqrt(w.shape[0])  # weights are kept with unit variance


def attention(x, w_qkv, w_out):
    q, k, v = jnp.split(linear(x, w_qkv), 3, axis=-1)
    heads = lambda t: t.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)
    q, k, v = heads(q), heads(k), heads(v)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k)
    causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
    scores = jnp.where(causal, scores / np.sqrt(WIDTH // HEADS), -jnp.inf)
    weights = jax.nn.softmax(scores)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, v)
    return linear(mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH), w_out)


def block(x, scale1, w_qkv, w_out, scale2, w_up, w_down):
    x = x + attention(norm(x, scale1), w_qkv, w_out)
    return x + linear(jax.nn.gelu(linear(norm(x, scale2), w_up)), w_down)


def inputs(seed=1):
    random = np.random.default_rng(seed)
    weight = lambda *shape: random.standard_normal(shape).astype(np.float32)
    ones = np.ones(WIDTH, np.float32)
    return (weight(BATCH, LENGTH, WIDTH), ones, weight(WIDTH, 3 * WIDTH), weight(WIDTH, WIDTH),
            ones, weight(WIDTH, 4 * WIDTH), weight(4 * WIDTH, WIDTH))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=pathlib.Path)
    options = parser.parse_args()
    arguments = inputs()
    with jax.default_matmul_precision("highest"):  # f32 products in f32, not TF32
        lowered = jax.jit(block, keep_unused=True).lower(*arguments)
    text = lowered.compiler_ir("hlo").as_hlo_text(True)  # True: with large constants
    pathlib.Path(__file__).with_name("block.hlo").write_text(text)
    if options.inputs:
        options.inputs.mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(arguments):
            np.save(options.inputs / f"{i}.npy", array)
