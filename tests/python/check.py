#!/usr/bin/env python3
"""The package gxc against JAX on the CPU, with the emulator: check.py [unittest arguments]. Run by the venv that
`make check-python` makes; the package is found by PYTHONPATH, or is installed there."""
import copy
import doctest
import functools
import gc
import importlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import gxc

EXAMPLES = ("compiler", "program", "from_jax", "array")


def tree_equal(have, want, rtol=1e-5, atol=1e-6):
    have_leaves, have_tree = jax.tree_util.tree_flatten(have)
    want_leaves, want_tree = jax.tree_util.tree_flatten(want)
    assert have_tree == want_tree, f"{have_tree} is not {want_tree}"
    for h, w in zip(have_leaves, want_leaves):
        h, w = np.asarray(h), np.asarray(w)
        assert h.dtype == w.dtype and h.shape == w.shape, f"{h.dtype}{h.shape} is not {w.dtype}{w.shape}"
        if w.dtype.kind in "iub":
            np.testing.assert_array_equal(h, w)
        else:
            np.testing.assert_allclose(h.astype(np.complex128), w.astype(np.complex128), rtol, atol)


def network(key, sizes=(6, 8, 3)):
    layers = []
    for n, m in zip(sizes, sizes[1:]):
        key, k = jax.random.split(key)
        layers.append({"w": jax.random.normal(k, (n, m)) / n, "b": jnp.zeros(m)})
    return {"layers": layers, "scale": jnp.float32(2)}


def apply(params, x):
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x * params["scale"]


def loss(params, x, y):
    return ((apply(params, x) - y) ** 2).mean()


def momentum_step(state, x, y):
    """One step of gradient descent with momentum."""
    value, grads = jax.value_and_grad(loss)(state["params"], x, y)
    velocity = jax.tree_util.tree_map(lambda v, g: 0.9 * v - 0.1 * g, state["velocity"], grads)
    params = jax.tree_util.tree_map(lambda p, v: p + v, state["params"], velocity)
    return {"params": params, "velocity": velocity}, value


class Documentation(unittest.TestCase):
    """The examples of the docstrings are true."""

    def test_examples(self):
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            here = os.getcwd()
            os.chdir(folder)
            try:
                for name in EXAMPLES:
                    found = doctest.testmod(importlib.import_module(f"gxc.{name}"), optionflags=doctest.ELLIPSIS,
                                            extraglobs={"gxc": gxc, "np": np, "jax": jax, "jnp": jnp})
                    self.assertEqual(found.failed, 0, name)
                    count += found.attempted
            finally:
                os.chdir(here)
        self.assertGreaterEqual(count, 24)


class AgainstJax(unittest.TestCase):
    """What gxc.jit gives is what JAX gives."""

    def check(self, f, *arguments, rtol=1e-5, **options):
        tree_equal(gxc.jit(f, **options)(*arguments), jax.jit(f)(*arguments), rtol)

    def test_network(self):
        self.check(apply, network(jax.random.key(0)), np.ones((4, 6), np.float32))

    def test_gradient(self):
        self.check(jax.grad(loss), network(jax.random.key(1)), np.ones((4, 6), np.float32), np.zeros((4, 3), np.float32))

    def test_types(self):
        for dtype in ("bfloat16", "float16", "int8", "uint32", "float8_e4m3fn", "bool", "complex64"):
            x = np.array([[1, 0, 1], [0, 1, 1]]).astype(dtype)
            self.check(lambda x: (jnp.transpose(x), x == x), x)

    def test_narrow_types(self):
        x = np.array([-8, 7, 3, -1, 2], ml_dtypes.int4)
        got = gxc.jit(lambda x: (x, x.astype(jnp.int8) + 1))(x)
        np.testing.assert_array_equal(got[0].numpy().astype(int), [-8, 7, 3, -1, 2])
        np.testing.assert_array_equal(got[1].numpy(), [-7, 8, 4, 0, 3])
        self.check(lambda x: x.astype(jnp.int8) + 1, jnp.asarray(x))

    def test_wide_types(self):
        for x in (np.zeros(3), np.arange(3), np.float64(2), np.int64(2), np.array([1, 2], ">f4"), np.array([1 + 2j]),
                  np.array([1, 2], ">i8")):
            native = x.astype(x.dtype.newbyteorder("="))
            tree_equal(gxc.jit(lambda x: x * 2)(x), jax.jit(lambda x: x * 2)(native))
        double = gxc.jit(lambda x: x * 2)
        double(np.zeros(3)), double(np.zeros(3, np.float32)), double(double(np.zeros(3)))
        self.assertEqual(len(double._programs), 1)
        with jax.enable_x64(True):
            tree_equal(double(np.zeros(3)), np.zeros(3))

    def test_keys(self):
        key = jax.random.key(3)
        draw = lambda key: jax.random.normal(key, (2,))  # noqa: E731
        tree_equal(gxc.jit(draw)(key), draw(key))
        tree_equal(gxc.compile(draw, key)(key), draw(key))
        tree_equal(gxc.jit(jax.vmap(draw))(jax.random.split(key, 4)), jax.vmap(draw)(jax.random.split(key, 4)))

    def test_static_arguments(self):
        power = lambda x, n, *, k=1: k * x ** n  # noqa: E731
        x = np.float32(3)
        for options in ({"static_argnums": 1}, {"static_argnums": -1}, {"static_argnames": "n"},
                        {"static_argnums": (1,), "static_argnames": ("n",)}):
            tree_equal(gxc.jit(power, **options)(x, 2), np.float32(9))
            tree_equal(gxc.jit(power, **options)(x, n=2), np.float32(9))
            tree_equal(gxc.jit(power, **options)(x, 2, k=2), np.float32(18))
            tree_equal(gxc.compile(power, x, 2, **options)(x), np.float32(9))
            tree_equal(gxc.compile(jax.jit(power, **options, keep_unused=True), x, 2, **options)(x), np.float32(9))
        times = gxc.jit(lambda x, n: x * n, static_argnums=1)
        tree_equal([times(np.int32(3), n) for n in (2, 2.0, True)], [np.int32(6), np.float32(6), np.int32(3)])
        tree_equal([times(np.int32(3), n=n) for n in (1, 1.0, True)], [np.int32(3), np.float32(3), np.int32(3)])
        with self.assertRaisesRegex(gxc.CompileError, "other static arguments than were named"):
            gxc.compile(jax.jit(power, static_argnums=1), x, 2)

    def test_recursion(self):
        @gxc.jit(static_argnums=0)
        def factorial(n):
            return jnp.float32(1) if n == 0 else n * jnp.asarray(factorial(n - 1).numpy())
        tree_equal(factorial(3), np.float32(6))

    def test_control_flow(self):
        self.check(lambda n, x: jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (0, x)),
                   np.int32(5), np.float32([1, 2]))

    def test_scan(self):
        self.check(lambda xs: jax.lax.scan(lambda c, x: (c + x, c * x), jnp.zeros(3), xs), np.ones((5, 3), np.float32))

    def test_sort_and_top(self):
        self.check(lambda x: (jnp.sort(x), jax.lax.top_k(x, 3)), np.float32([3, 1, 4, 1, 5, 9, 2, 6]))

    def test_convolution(self):
        self.check(lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"), np.ones((1, 3, 8, 8), np.float32),
                   np.ones((4, 3, 3, 3), np.float32))

    def test_random(self):
        self.check(lambda seed: jax.random.normal(jax.random.PRNGKey(seed), (7,)), np.int32(3))

    def test_scatter(self):
        self.check(lambda x, i: x.at[i].add(1.0), np.zeros(6, np.float32), np.int32([1, 1, 4]))

    def test_numbers_and_empty(self):
        self.check(lambda x, n: (x * n, x[:0]), np.float32([1, 2]), 3)
        self.check(lambda x: (), np.float32(1))

    def test_linear_algebra(self):
        self.check(lambda a: jnp.linalg.cholesky(a @ a.T + 4 * jnp.eye(4)), np.arange(16, dtype=np.float32).reshape(4, 4) / 16,
                   rtol=1e-4)

    def test_keywords_and_names(self):
        f = gxc.jit(lambda x, *, scale, bias: x * scale["s"] + bias)
        tree_equal(f(np.float32([1, 2]), bias=np.float32(1), scale={"s": np.float32(3)}), np.float32([4, 7]))

    def test_keywords_of_calls(self):
        """Names that calls of programs have a use for are the function's own."""
        f = gxc.jit(lambda x, *, device, stream, donate, ordinal, self: x + device + stream + donate + ordinal + self)
        names = {"device": 1, "stream": 2, "donate": 3, "ordinal": 4, "self": 5}
        given = {name: np.float32(n) for name, n in names.items()}
        tree_equal(f(np.float32(10), **given), np.float32(25))
        self.assertEqual(len(f.compiled(np.float32(10), **given).arguments), 6)

    def test_settings(self):
        """Settings of JAX that change what is traced."""
        x = np.ones((4, 4), np.float32)
        product = gxc.jit(lambda a, b: a @ b)
        first = product.compiled(x, x)
        with jax.default_matmul_precision("highest"):
            self.assertIsNot(product.compiled(x, x), first)
        self.assertIs(product.compiled(x, x), first)
        self.assertEqual(len(product._programs), 2)
        add = gxc.jit(lambda a, b: a + b)
        tree_equal(add(np.float32(1), np.int32(1)), np.float32(2))
        with jax.numpy_dtype_promotion("strict"), self.assertRaisesRegex(Exception, "no available implicit dtype promotion"):
            add(np.float32(1), np.int32(1))

    def test_training_loop(self):
        x = jax.random.normal(jax.random.key(5), (16, 6))
        y = jnp.sin(x[:, :3])
        first = network(jax.random.key(2))
        start = {"params": first, "velocity": jax.tree_util.tree_map(jnp.zeros_like, first)}
        ours, theirs = gxc.jit(momentum_step, donate_argnums=0), jax.jit(momentum_step)
        have = want = start
        for _ in range(20):
            have, have_loss = ours(have, x, y)
            want, want_loss = theirs(want, x, y)
            tree_equal(have_loss, want_loss, 1e-4)
        tree_equal(have, want, 1e-4, 1e-5)
        self.assertLess(float(have_loss), 0.5 * float(loss(first, x, y)))
        self.assertEqual(len(ours._programs), 1)


class Ways(unittest.TestCase):
    """Every form of a program that JAX gives."""
    arguments = {"b": np.float32([1, 2, 3]), "a": np.ones((3, 3), np.float32)}, np.float32([4, 5, 6])

    @staticmethod
    def f(params, x):
        return {"y": params["a"] @ x + params["b"], "n": x.sum()}

    def check(self, program):
        tree_equal(program(*self.arguments), self.f(*self.arguments))

    def test_forms(self):
        lowered = jax.jit(self.f, keep_unused=True).lower(*self.arguments)
        self.check(gxc.compile(self.f, *self.arguments))
        self.check(gxc.compile(lowered))
        self.check(gxc.compile(jax.export.export(jax.jit(self.f, keep_unused=True))(*self.arguments)))
        leaves = jax.tree_util.tree_leaves(self.arguments)
        want = jax.tree_util.tree_leaves(self.f(*self.arguments))
        exported = jax.export.export(jax.jit(self.f))(*self.arguments)
        for text in (lowered.as_text("hlo"), lowered.as_text(), lowered.as_text(debug_info=True),
                     lowered.compiler_ir("hlo").as_hlo_text(True), bytes(exported.serialize()),
                     exported.mlir_module_serialized):
            program = gxc.compile(text)
            tree_equal(list(program(*leaves)), want)

    def test_unused_arguments(self):
        f = lambda x, unused: x + 1  # noqa: E731
        tree_equal(gxc.jit(f)(np.float32(1), np.float32(2)), np.float32(2))
        with self.assertRaisesRegex(gxc.CompileError, "keep_unused"):
            gxc.compile(jax.jit(f).lower(np.float32(1), np.float32(2)))

    def test_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.cubin")
            gxc.compile(self.f, *self.arguments).save(path)
            with self.assertRaisesRegex(gxc.RunError, "allow_native=True"):
                gxc.load(path)(*self.arguments)
            again = gxc.load(path, allow_native=True)
            got = again(*self.arguments)
            tree_equal(got, self.f(*self.arguments))
            tree_equal(again(params=self.arguments[0], x=self.arguments[1]), got)
            with self.assertRaisesRegex(gxc.RunError, r"params\['b'\] f32\[3\]"):
                again({"a": self.arguments[0]["a"]}, self.arguments[1])
            with self.assertRaisesRegex(gxc.RunError, r"takes no params\['c'\]"):
                again(dict(self.arguments[0], c=np.float32(0)), self.arguments[1])
            with open(path + ".json") as file:
                manifest = json.load(file)
            self.assertEqual([a["path"] for a in manifest["arguments"]], ["params['a']", "params['b']", "x"])
            manifest["arguments"][0]["shape"] = [3, 4]
            with open(path + ".json", "w") as file:
                json.dump(manifest, file)
            with self.assertRaisesRegex(gxc.FileError, "describes another program"):
                gxc.load(path)

    def test_saved_without_positions(self):
        x = np.float32([1, 2])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.cubin")
            gxc.compile(lambda: {"a": jnp.float32(1), "b": (jnp.float32(2),)}).save(path)
            tree_equal(gxc.load(path, allow_native=True)(), {"a": np.float32(1), "b": (np.float32(2),)})
            gxc.compile(lambda *, x: {"twice": 2 * x}, keywords={"x": x}).save(path)
            tree_equal(gxc.load(path, allow_native=True)(x=x), {"twice": 2 * x})
            gxc.compile("HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").save(path)
            tree_equal(gxc.load(path, allow_native=True)(x), -x)
            here = os.getcwd()
            os.chdir(folder)
            try:
                program = gxc.load("f.cubin")
            finally:
                os.chdir(here)
            self.assertEqual(program.to_bytes()[:4], b"\x7fELF")
            for manifest in ("[" * 100000, "[]", "1", '{"gxc_manifest": 1}', "{" * 10):
                with open(path + ".json", "w") as file:
                    file.write(manifest)
                with self.assertRaisesRegex(gxc.FileError, "is no manifest of gxc"):
                    gxc.load(path)

    def test_keys(self):
        keys = ("it's", "a\\b", 'q"', "both'\"", "line\n", "\u00fc", "a.b", "[0]", "")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.cubin")
            given = {key: np.float32(i) for i, key in enumerate(keys)}
            gxc.compile(lambda d: {key: 2 * value for key, value in d.items()}, given).save(path)
            got = gxc.load(path, allow_native=True)(given)
            tree_equal(got, {key: 2 * value for key, value in given.items()})

    def test_without_jax(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "f.cubin")
            gxc.compile(self.f, *self.arguments).save(path)
            code = (f"import gxc, numpy as np, sys\n"
                    f"out = gxc.load({path!r}, allow_native=True)(dict(b=np.float32([1, 2, 3]), a=np.ones((3, 3), np.float32)),"
                    f" np.float32([4, 5, 6]))\n"
                    f"assert 'jax' not in sys.modules\nprint(sorted(out), out['y'].numpy(), float(out['n']))")
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                                  env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
            self.assertEqual(done.stdout, "['n', 'y'] [16. 17. 18.] 15.0\n", done.stderr)


class Arrays(unittest.TestCase):
    """Arrays come and go without a copy where that can be."""
    double = staticmethod(gxc.compile("HloModule m ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] add(x, x) }"))

    def test_dlpack(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        y = self.double(x)
        a, b = np.from_dlpack(y), jax.dlpack.from_dlpack(y)
        tree_equal(a, 2 * x)
        tree_equal(b, 2 * x)
        self.assertEqual(a.ctypes.data, y.numpy().ctypes.data)
        self.assertEqual(b.unsafe_buffer_pointer(), a.ctypes.data)
        del y
        gc.collect()
        self.double(np.ones((2, 3), np.float32))
        tree_equal(a, 2 * x)  # the views keep the memory
        tree_equal(self.double(jnp.asarray(x)), 2 * x)
        tree_equal(self.double(x.T.copy().T), 2 * x)

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        y = torch.from_dlpack(self.double(x))
        self.assertTrue(torch.equal(y, 2 * x))
        self.assertTrue(torch.equal(torch.from_dlpack(self.double(x.T.contiguous().T)), 2 * x))

    def test_capsules_are_given_back(self):
        from gxc import dlpack
        y = self.double(np.ones((2, 3), np.float32))
        before = len(dlpack._exported)
        a, unused = np.from_dlpack(y), y.__dlpack__()
        self.assertEqual(len(dlpack._exported), before + 2)
        del a, unused
        gc.collect()
        self.assertEqual(len(dlpack._exported), before)

    def test_refused_capsules_are_given_back(self):
        from gxc import dlpack
        y = gxc.compile("HloModule m ENTRY e { x = bf16[4] parameter(0) ROOT y = bf16[4] add(x, x) }")(
            np.ones(4, jnp.bfloat16))
        before = len(dlpack._exported)
        with self.assertRaisesRegex((RuntimeError, BufferError), "(?i)dtype|type"):
            np.from_dlpack(y)
        gc.collect()
        self.assertEqual(len(dlpack._exported), before)

    def test_copies_are_of_their_own(self):
        program = gxc.compile("HloModule m, input_output_alias={ {}: (0, {}, may-alias) } ENTRY e { x = f32[2] parameter(0) "
                              "y = f32[2] parameter(1) ROOT z = f32[2] add(x, y) }")
        one = np.ones(2, np.float32)
        a = program(one, one)
        b, c = copy.copy(a), copy.deepcopy(a)
        program(a, one, donate=True)
        tree_equal(b, 2 * one)
        tree_equal(c, 2 * one)
        with self.assertRaisesRegex(TypeError, "pickle its numpy"):
            pickle.dumps(b)

    def test_methods(self):
        class Model:
            @functools.partial(gxc.jit, static_argnums=0)
            def twice(self, x):
                return x + x
        tree_equal(Model().twice(np.ones(3, np.float32)), np.full(3, 2, np.float32))

    def test_memory_that_runs_read_is_held(self):
        class OnGpu:
            """An array as another library has it on a GPU."""
            def __init__(self, of):
                self.of = of

            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, stream=None, max_version=None):
                return self.of.__dlpack__()

        from gxc import dlpack
        program = gxc.compile("HloModule m ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] add(x, x) }")
        session = program.session()
        session.emulated = False  # views are taken as they are
        given = [self.double(np.full((2, 3), i, np.float32)) for i in range(3)]
        before = len(dlpack._exported)
        results = [program(OnGpu(y)) for y in given + given]
        gc.collect()
        self.assertEqual(len(dlpack._exported), before + 3)  # each once
        for i, y in enumerate(results):
            tree_equal(y.numpy(), np.full((2, 3), 4 * (i % 3), np.float32))
        gc.collect()
        self.assertEqual(len(dlpack._exported), before)
        session._keep_bytes = 2 * 24
        results = [program(OnGpu(y)) for y in given]
        gc.collect()
        self.assertEqual(len(dlpack._exported), before)  # more than may be held were waited for

    def test_results_are_arguments(self):
        y = self.double(np.ones((2, 3), np.float32))
        for _ in range(3):
            y = self.double(y)
        tree_equal(y, np.full((2, 3), 16, np.float32))
        other = gxc.compile("HloModule n ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] negate(x) }")
        tree_equal(other(y), np.full((2, 3), -16, np.float32))

    def test_memory_is_used_again(self):
        session = self.double.session()
        x = np.ones((2, 3), np.float32)
        pointers = set()
        for _ in range(20):
            y = self.double(x)
            pointers.add(y._memory.pointer)
            del y
        self.assertLessEqual(len(pointers), 2)
        self.assertEqual(sum(map(len, session._free.values())), 2)

    def test_streams(self):
        """What work on one stream still reads, work on another one does not overwrite."""
        code = (
            "import ctypes, os, gxc, numpy as np\n"
            "from gxc import library\n"
            "twice = gxc.compile('HloModule m ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }')\n"
            "def run(x, stream=None, ordinal=0): return twice(x, stream=stream, ordinal=ordinal, device='emu')\n"
            "def full(x): return np.full(4, x, np.float32)\n"
            "there, here = run(full(5), ordinal=1), run(full(100))\n"
            "there.block_until_ready(), here.block_until_ready()\n"
            "path = next(p for f in library.folders() if os.path.exists(p := os.path.join(f, 'libgxemu.so')))\n"
            "emu, context, streams = ctypes.CDLL(path), ctypes.c_void_p(), [ctypes.c_void_p(), ctypes.c_void_p()]\n"
            "emu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), emu.cuCtxPushCurrent_v2(context)\n"
            "for s in streams: assert emu.cuStreamCreateWithPriority(ctypes.byref(s), 1, 0) == 0\n"
            "one, two = (s.value for s in streams)\n"
            "a = run(full(1), one).block_until_ready()\n"
            "b = run(a, two)\n"
            "del a\n"
            "c = run(here, one)\n"
            "assert emu.cuStreamSynchronize(streams[0]) == 0\n"
            "print(b.numpy()[0], c.numpy()[0])\n"
            "d, e = run(full(100), one), run(there, one)\n"
            "print(d.numpy()[0], e.numpy()[0])\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), GXEMU_SCHEDULE="lazy",
                                       GXEMU_DEVICES="2"))
        self.assertEqual(done.stdout, "4.0 400.0\n200.0 20.0\n", done.stderr)

    def test_wrong_arrays(self):
        for given, message in ((np.ones((2, 3)), r"f64\[2,3\] was given for x f32\[2,3\]"),
                               (np.ones((3, 2), np.float32), r"f32\[3,2\] was given for x f32\[2,3\]"),
                               ("no", "no array that gxc can read|was given for x")):
            with self.assertRaisesRegex(gxc.RunError, message):
                self.double(given)
        with self.assertRaisesRegex(gxc.RunError, "takes 1 arrays"):
            self.double()
        with self.assertRaisesRegex(gxc.RunError, "has no such values"):
            gxc.compile("HloModule m ENTRY e { x = s8[] parameter(0) ROOT y = s8[] negate(x) }")(300)

    def test_numbers(self):
        for dtype, good, bad in (("s4", (-8, 7, 2.0), (8, -9, 1.5)), ("u4", (15, True), (16, -1)), ("pred", (True, 0), (2, 0.5)),
                                 ("s64", (-1 << 63, (1 << 63) - 1, True), (1 << 63, 2.0 ** 63, float("inf"), float("nan"))),
                                 ("u64", ((1 << 64) - 1, True), (-1, 1 << 64, 1j)),
                                 ("f32", (0.1, 3, 1 << 70), (1 + 2j, "x", None, 10 ** 400)), ("c64", (1 + 2j, 3), ("x",))):
            program = gxc.compile(f"HloModule m ENTRY e {{ x = {dtype}[] parameter(0) ROOT y = {dtype}[] copy(x) }}")
            for number in good:
                np.testing.assert_allclose(complex(program(number).numpy()), complex(number))
            for number in bad:
                with self.assertRaisesRegex(gxc.RunError, "was given for x|takes 1 arrays"):
                    program(number)

    def test_lists_of_wide_integers(self):
        for dtype, good, bad in (("u64", [(1 << 63) + 1, 1], [1 << 64, 1]), ("u64", [(1 << 64) - 1, 0], [-1, 1.5]),
                                 ("s64", [(1 << 53) + 1, 1.0], [1 << 63, 0.5]), ("s64", [True, False], [float("nan"), 1])):
            program = gxc.compile(f"HloModule m ENTRY e {{ x = {dtype}[2] parameter(0) ROOT y = {dtype}[2] copy(x) }}")
            self.assertEqual([int(n) for n in program(good).numpy()], [int(n) for n in good])
            with self.assertRaisesRegex(gxc.RunError, "was given for x"):
                program(bad)

    def test_large_integers_of_floats(self):
        for dtype in ("f32", "f64", "bf16", "c64"):
            program = gxc.compile(f"HloModule m ENTRY e {{ x = {dtype}[3] parameter(0) ROOT y = {dtype}[3] copy(x) }}")
            got = program([1 << 70, -1 << 64, 1]).numpy().astype(np.complex128)
            np.testing.assert_array_equal(got, [2.0 ** 70, -2.0 ** 64, 1])
            with self.assertRaisesRegex(gxc.RunError, "was given for x"):
                program([10 ** 400, 1, 2])

    def test_raw_bits(self):
        for dtype, raw, good, bad in (("s4", np.int8, [-8, 7], [-8, 12]), ("u4", np.uint8, [0, 15], [0, 16]),
                                      ("f4e2m1fn", np.uint8, [0, 15], [0, 16])):
            program = gxc.compile(f"HloModule m ENTRY e {{ x = {dtype}[2] parameter(0) ROOT y = {dtype}[2] copy(x) }}")
            tree_equal(program(raw(good)).numpy().view(raw) & 15, raw(good) & 15)
            with self.assertRaisesRegex(gxc.RunError, f"element 1 is {bad[1]}: no value of {dtype}"):
                program(raw(bad))

    def test_without_ml_dtypes(self):
        code = ("import sys\nsys.modules['ml_dtypes'] = None\nimport gxc, numpy as np\n"
                "program = gxc.compile('HloModule m ENTRY e { x = bf16[] parameter(0) ROOT y = bf16[] negate(x) }')\n"
                "print(hex(program(np.uint16(0x3f80)).numpy()))\n"
                "for f in (lambda: program(1.0), lambda: float(program(np.uint16(0x3f80))), lambda: program([1])):\n"
                "    try: print(f())\n"
                "    except gxc.RunError as e: print(str(e)[:43])\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(done.stdout, "0xbf80\n" + 3 * "numbers of bf16 need the package ml_dtypes,\n", done.stderr)

    def test_as_numpy_has_it(self):
        y = self.double(np.arange(6).reshape(2, 3).astype(">f4"))
        tree_equal(y, np.float32([[0, 2, 4], [6, 8, 10]]))
        self.assertEqual([row.tolist() for row in y], [[0, 2, 4], [6, 8, 10]])
        with self.assertRaises(TypeError):
            iter(gxc.compile("HloModule m ENTRY e { ROOT c = f32[] constant(1) }")())
        with self.assertRaises(ValueError):
            np.array(y, np.float64, copy=False)

    def test_lists(self):
        tree_equal(self.double([[0, 1, 2], (3, 4.5, 5)]), np.float32([[0, 2, 4], [6, 9, 10]]))
        tree_equal(self.double(x=[[np.float32(1)] * 3] * 2), np.full((2, 3), 2, np.float32))
        two = gxc.compile("HloModule m ENTRY e { x = f32[] parameter(0) y = f32[1] parameter(1) z = f32[1] reshape(x) "
                          "ROOT s = f32[1] subtract(y, z) }")
        for given in ((1, [3]), (1, np.float32([3]))):
            tree_equal(two(*given), np.float32([2]))
        tree_equal(two(1, y=[3]), np.float32([2]))
        with self.assertRaisesRegex(gxc.RunError, "takes 2 arrays .*, 3 were given"):
            two(1, 2, y=[3])
        with self.assertRaisesRegex(gxc.RunError, r"f32\[3\] was given for x|it has no such values"):
            self.double([0, 1, 2])
        with self.assertRaisesRegex(gxc.RunError, r"takes 1 arrays .*, 6 were given"):
            self.double([[0, 1, 2], ["a", 4, 5]])
        tree = gxc.compile(lambda p, x: p["w"][0] * x + p["w"][1], {"w": [np.zeros(2, np.float32), np.float32(1)]},
                           np.zeros(2, np.float32))
        tree_equal(tree({"w": [[1, 2], 3]}, [10, 20]), np.float32([13, 43]))
        with self.assertRaisesRegex(gxc.RunError, "x was given twice"):
            tree({"w": [[1, 2], 3]}, [10, 20], x=[1, 2])
        with self.assertRaisesRegex(gxc.RunError, "1 streams were given for 2 devices"):
            self.double.run([([[1] * 3] * 2,)] * 2, streams=[0], device="emu")

    def test_layouts(self):
        program = gxc.compile("HloModule m, entry_computation_layout={(f32[2,3]{0,1}, f32[4,2,3]{1,2,0})->f32[4,2,3]{0,1,2}}\n"
                              "ENTRY e { x = f32[2,3]{0,1} parameter(0) z = f32[4,2,3]{1,2,0} parameter(1) "
                              "b = f32[4,2,3]{0,1,2} broadcast(x), dimensions={1,2} ROOT y = f32[4,2,3]{0,1,2} add(b, z) }")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        z = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
        y = program(x, z)
        tree_equal(y, z + x)
        tree_equal(np.from_dlpack(y), z + x)
        tree_equal(program(x, y), y.numpy() + x)  # of another layout than the argument

    def test_donation(self):
        text = ("HloModule m, input_output_alias={{}: (0, {}, %s)}\n"
                "ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] add(x, x) }")
        for kind in ("may-alias", "must-alias"):
            program = gxc.compile(text % kind)
            x = program(np.float32([1, 2, 3]))
            y = program(x)
            tree_equal((x, y), (np.float32([2, 4, 6]), np.float32([4, 8, 12])))
            pointer = x._memory.pointer
            z = program(x, donate=True)
            self.assertEqual(z._memory.pointer, pointer)
            self.assertTrue(x.is_donated)
            with self.assertRaisesRegex(gxc.RunError, "was donated"):
                x.numpy()
            tree_equal(z, np.float32([4, 8, 12]))

    def test_donation_of_what_others_see(self):
        step = gxc.jit(lambda x, y: x + y, donate_argnums=0)
        for see in (lambda x: x.numpy(), np.from_dlpack, jax.dlpack.from_dlpack):
            x = step(np.float32([1, 2, 3]), np.float32([1, 1, 1]))
            seen = see(x)
            pointer = x._memory.pointer
            y = step(x, np.float32([10, 10, 10]))
            self.assertTrue(x.is_donated)
            tree_equal((seen, y), (np.float32([2, 3, 4]), np.float32([12, 13, 14])))
            self.assertNotEqual(y._memory.pointer, pointer)
            del seen
            gc.collect()
            pointer = y._memory.pointer
            self.assertEqual(step(y, np.float32([1, 1, 1]))._memory.pointer, pointer)

    def test_donation_to_no_run(self):
        program = gxc.compile("HloModule m, input_output_alias={{}: (0, {}, must-alias)}\nENTRY e { x = f32[3] parameter(0) "
                              "y = f32[3] parameter(1) ROOT z = f32[3] add(x, y) }")
        x = program(np.float32([1, 2, 3]), np.float32([1, 1, 1]))
        with self.assertRaisesRegex(gxc.RunError, "was given for y"):
            program(x, np.float32([1, 1]), donate=True)
        with self.assertRaisesRegex(gxc.RunError, "argument 0 and argument 1 overlap"):
            program(x, x, donate=True)
        tree_equal(x, np.float32([2, 3, 4]))
        tree_equal(program(x, np.float32([1, 1, 1]), donate=True), np.float32([3, 4, 5]))
        self.assertTrue(x.is_donated)

    def test_arrays_outlive_finalizers(self):
        code = ("import atexit, numpy as np\natexit.register(lambda: print(view.sum(), array.sum()))\nimport gxc\n"
                "program = gxc.compile('HloModule m ENTRY e { x = f32[30000] parameter(0) ROOT y = f32[30000] negate(x) }')\n"
                "result = program(np.ones(30000, np.float32))\nview, array = result.numpy(), np.from_dlpack(result)\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual((done.stdout, done.returncode), ("-30000.0 -30000.0\n", 0), done.stderr)

    def test_many_devices(self):
        program = gxc.compile("HloModule m, replica_count=2\nadd { a = f32[] parameter(0) b = f32[] parameter(1) "
                              "ROOT c = f32[] add(a, b) }\nENTRY e { x = f32[2] parameter(0) "
                              "ROOT y = f32[2] all-reduce(x), replica_groups={{0,1}}, to_apply=add }")
        for y in program.run([(np.float32([1, 2]),), (np.float32([10, 20]),)], device="emu"):
            tree_equal(y, np.float32([11, 22]))
        add = gxc.compile("HloModule m ENTRY e { i = u32[] replica-id() x = u32[] parameter(0) ROOT y = u32[] add(i, x) }")
        one, two = add.run([(10,), (20,)], device="emu")
        self.assertEqual([int(y) for y in add.run([(two,), (one,)], device="emu")], [21, 11])
        with self.assertRaisesRegex(gxc.RunError, "for 2 x 1 devices: use run"):
            program(np.float32([1, 2]))
        with self.assertRaisesRegex(gxc.RunError, "needs 2 devices, not 1"):
            program.run([(np.float32([1, 2]),), (np.float32([10, 20]),)], device="emu", ordinals=[0])


class Errors(unittest.TestCase):
    """Errors are exceptions that say what is wrong."""

    def test_diagnostics(self):
        with self.assertRaisesRegex(gxc.CompileError, r"program:2:40: error: y \(add\): .*f32\[3\]"):
            gxc.compile("HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT y = f32[4] add(x, x) }")
        with self.assertRaisesRegex(gxc.CompileError, "unknown target"):
            gxc.compile("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }", target="sm_1")
        with self.assertRaisesRegex(gxc.UnsupportedError, "not supported"):
            gxc.compile("HloModule m ENTRY e { t = token[] after-all() ROOT x = (f32[], token[]) infeed(t) }")
        with self.assertRaisesRegex(TypeError, "no such option: speed; there are assembler"):
            gxc.compile("HloModule m ENTRY e { ROOT x = f32[] parameter(0) }", speed=1)
        with self.assertRaisesRegex(gxc.CompileError, "neither a file nor"):
            gxc.compile("nothing.hlo")

    def test_options(self):
        text = "HloModule m ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }"
        for name, value, error in (("emit", 3, TypeError), ("cache_dir", True, TypeError), ("print", "a\0b", TypeError),
                                   ("target", ["emu", 3], TypeError), ("target", "emu\0", TypeError),
                                   ("jobs", 1.5, TypeError), ("lint", "yes", TypeError), ("jobs", 1 << 32 | 1, ValueError),
                                   ("replicas", 1 << 64 | 1, ValueError), ("max_assembler_seconds", -1, ValueError)):
            with self.assertRaisesRegex(error, f"{name}=.* (is expected|does not fit)"):
                gxc.compile(text, **{name: value})
        with self.assertRaisesRegex(TypeError, "gxc.compile takes emit"):
            gxc.jit(lambda x: x, emit="hlo")
        self.assertEqual(gxc.compile(text, opt_level=None, jobs=np.int64(2)).to_bytes(), gxc.compile(text).to_bytes())
        self.assertNotEqual(gxc.compile(text, opt_level=0, emit="candidates"), b"")
        self.assertTrue(gxc.compile(text, emit="tileir").startswith(b"\x7fTileIR"))

    def test_traced(self):
        square = gxc.jit(lambda x: x * x)
        for transformed in (jax.grad(lambda x: square(x).sum()), jax.jit(square), jax.vmap(square), jax.jit(square.compiled(np.float32(2)))):
            with self.assertRaisesRegex(TypeError, "cannot trace what gxc runs"):
                transformed(np.float32([1, 2]))

    def test_names(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, os.fsdecode(b"\xff.hlo"))
            with open(path, "w") as file:
                file.write("HloModule m ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }")
            gxc.compile(path)
            with self.assertRaisesRegex(gxc.FileError, "no ELF file"):
                gxc.load(path)

    def test_failed_device(self):
        program = gxc.compile("HloModule m ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }")
        x = np.float32([1, 2, 3])
        y = program(x)
        with self.assertRaises(gxc.DeviceError):
            program(x, stream=5)
        tree_equal(program(x), -x)
        tree_equal(program(y), x)
        for ordinal in (-1, 1 << 40):
            with self.assertRaisesRegex(gxc.RunError, "CUDA's devices are 0, 1, 2"):
                program(x, ordinal=ordinal)
        with self.assertRaisesRegex(TypeError, "a stream is one of torch"):
            program(x, stream="a")

    def test_files(self):
        with self.assertRaises(gxc.FileError):
            gxc.load("/nowhere/x.cubin")
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(b"\177ELF no program")
            file.flush()
            with self.assertRaises(gxc.FileError):
                gxc.load(file.name)

    def test_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gxc.compile("HloModule m ENTRY e { ROOT c = f32[8] constant({...}) }")
        self.assertTrue(any("elided" in str(w.message) for w in caught), caught)


if __name__ == "__main__":
    unittest.main()
