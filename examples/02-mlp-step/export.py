"""Writes mlp_step.hlo: one SGD step of a two-layer perceptron on 32 pictures of 8 x 8.

    pip install jax==0.10.2 && python export.py [--inputs FOLDER]

Only this script needs JAX. With --inputs it also writes one .npy for each parameter, from a
fixed seed, for `gxrun mlp_step.cubin --input=@FOLDER/0.npy --input=@FOLDER/1.npy ...`.
"""
import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

BATCH, PIXELS, HIDDEN, CLASSES = 32, 64, 128, 10


def loss(parameters, images, labels):
    w1, b1, w2, b2 = parameters
    hidden = jax.nn.relu(images @ w1 + b1)
    logits = hidden @ w2 + b2
    one_hot = jax.nn.one_hot(labels, CLASSES)
    return -jnp.mean(jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=1))


def step(w1, b1, w2, b2, images, labels):
    """Returns the loss and the new parameters."""
    parameters = (w1, b1, w2, b2)
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    return value, *[p - 0.1 * g for p, g in zip(parameters, gradients)]


def inputs(seed=1):
    random = np.random.default_rng(seed)
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)
    return (0.1 * normal(PIXELS, HIDDEN), 0 * normal(HIDDEN), 0.1 * normal(HIDDEN, CLASSES),
            0 * normal(CLASSES), normal(BATCH, PIXELS),
            random.integers(0, CLASSES, BATCH).astype(np.int32))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=pathlib.Path)
    options = parser.parse_args()
    arguments = inputs()
    with jax.default_matmul_precision("highest"):  # f32 products in f32, not TF32
        lowered = jax.jit(step, keep_unused=True).lower(*arguments)
    text = lowered.compiler_ir("hlo").as_hlo_text(True)  # True: with large constants
    pathlib.Path(__file__).with_name("mlp_step.hlo").write_text(text)
    if options.inputs:
        options.inputs.mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(arguments):
            np.save(options.inputs / f"{i}.npy", array)
