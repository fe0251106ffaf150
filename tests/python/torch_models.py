#!/usr/bin/env python3
"""Models of PyTorch through torch.export and StableHLO: torch_models.py [unittest arguments]. Run by the venv that
`make check-torch` makes, with torch_xla and with torchax; the package is found by PYTHONPATH."""
import os
import sys
import tempfile
import unittest

os.environ.setdefault("PJRT_DEVICE", "CPU")  # of torch_xla

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import gxc  # noqa: E402


class Perceptron(nn.Module):
    """A dictionary comes out, a buffer goes in."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.register_buffer("shift", torch.arange(3.0))

    def forward(self, x, scale):
        y = self.second(nn.functional.gelu(self.first(x)))
        return {"scaled": y * scale + self.shift, "mean": (x.mean(), x.amax(-1))}


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, groups=2, padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(16, 5), nn.LogSoftmax(-1))

    def forward(self, x):
        return self.layers(x)


class Transformer(nn.Module):
    """Embedding, causal attention, layer norms."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(50, 16), nn.Linear(16, 50)
        self.block = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.block(self.embedding(tokens), src_mask=mask, is_causal=True)).softmax(-1)


class Ordered(nn.Module):
    """Arguments in a dictionary whose keys are not sorted."""

    def forward(self, x):
        return x["b"] - 2 * x["a"]


class Partly(nn.Module):
    """Not all that comes out is an array."""

    def forward(self, x):
        return x + 1, None


class Summed(nn.Module):
    """torch_xla 2.9 leaves this sum out."""

    def forward(self, x):
        return x.sum()


def export(model, *arguments):
    torch.manual_seed(0)
    return torch.export.export(model().eval(), arguments)


def hide(test, names):
    """Modules that cannot be imported during a test; what it imports itself stays."""
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(dict.fromkeys(names))
    test.addCleanup(lambda: [sys.modules.pop(n) if m is None else sys.modules.update({n: m}) for n, m in before.items()])


class WithTorchXla(unittest.TestCase):
    hidden: tuple = ("torchax", "torchax.export")

    def setUp(self):
        torch.manual_seed(0)
        hide(self, self.hidden)

    def check(self, model, *arguments):
        model = model().eval()
        with torch.no_grad():
            want, want_spec = pytree.tree_flatten(model(*arguments))
        got, spec = pytree.tree_flatten(gxc.from_torch(torch.export.export(model, arguments))(*arguments))
        self.assertEqual(spec, want_spec)
        for g, w in zip(got, want):
            if w is None:
                self.assertIsNone(g)
                continue
            torch.testing.assert_close(torch.from_dlpack(g), w, rtol=1e-5, atol=1e-6)

    def test_perceptron(self):
        self.check(Perceptron, torch.randn(4, 6), torch.tensor(2.0))

    def test_convolutions(self):
        self.check(Convolutions, torch.randn(2, 3, 16, 16))

    def test_transformer(self):
        self.check(Transformer, torch.randint(0, 50, (2, 7)))

    def test_order_of_arguments(self):
        self.check(Ordered, {"b": torch.ones(3), "a": torch.full((3,), 5.0)})

    def test_wrong_calls(self):
        model = gxc.from_torch(export(Perceptron, torch.randn(4, 6), torch.tensor(2.0)))
        with self.assertRaisesRegex(gxc.RunError, "exported for arguments of the form"):
            model(torch.randn(4, 6))
        with self.assertRaisesRegex(gxc.RunError, r"f32\[4,5\] was given"):
            model(torch.randn(4, 5), torch.tensor(2.0))

    def test_state_is_refused(self):
        with self.assertRaisesRegex(gxc.CompileError, "running_mean.*eval"):
            gxc.from_torch(torch.export.export(Convolutions().train(), (torch.randn(2, 3, 16, 16),)))

    def test_weights_by_name(self):
        model, x = Convolutions().eval(), torch.randn(2, 3, 16, 16)
        program = gxc.compile(torch.export.export(model, (x,)))
        weights = {name: w for name, w in model.state_dict().items()
                   if f"weights[{name!r}]" in [a.path for a in program.arguments]}
        self.assertIn("layers.4.weight", weights)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.cubin")
            program.save(path)
            got = gxc.load(path, allow_native=True)(weights, [x])
        torch.testing.assert_close(torch.from_dlpack(got), model(x).detach(), rtol=1e-5, atol=1e-6)


    def test_no_arrays(self):
        with self.assertRaisesRegex(gxc.CompileError, "let forward give arrays"):
            gxc.from_torch(export(Partly, torch.ones(3)))


    def test_wrong_translation(self):
        with self.assertRaisesRegex(gxc.CompileError, "translated wrongly"):
            gxc.from_torch(export(Summed, torch.ones(2, 3)))


class WithTorchax(WithTorchXla):
    hidden = ("torch_xla", "torch_xla.stablehlo")

    def test_wrong_translation(self):
        self.check(Summed, torch.ones(2, 3))

    def test_no_arrays(self):
        self.check(Partly, torch.ones(3))


class Neither(unittest.TestCase):
    def test_message(self):
        hide(self, ("torch_xla", "torch_xla.stablehlo", "torchax", "torchax.export"))
        with self.assertRaisesRegex(gxc.CompileError, "pip install torch_xla"):
            gxc.from_torch(export(Ordered, {"b": torch.ones(3), "a": torch.ones(3)}))


class Arrays(unittest.TestCase):
    def test_no_copy(self):
        double = gxc.compile("HloModule m ENTRY e { x = f32[2,3] parameter(0) ROOT y = f32[2,3] add(x, x) }")
        x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        y = double(x)
        self.assertEqual(torch.from_dlpack(y).data_ptr(), np.from_dlpack(y).ctypes.data)
        self.assertTrue(torch.equal(torch.from_dlpack(y), 2 * x))
        self.assertTrue(torch.equal(torch.from_dlpack(double(x.T.contiguous().T)), 2 * x))


if __name__ == "__main__":
    unittest.main()
