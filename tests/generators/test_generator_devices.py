"""Training steps, scores and sampling of question generators on the CPU and on a CUDA device."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from toy_generators import random_batch, random_images

from devices import on_devices, with_gradients
from ivqa.generators import Beam, Sampling

Factory = Callable[..., Any]
Build = Callable[..., Any]
ANSWERS = ["yes", "no"]


def _modules(network: Factory, build: Build, device: str) -> tuple[Any, Any]:
    """The same module on the CPU and on the device, without dropout."""
    made = []
    for place in ("cpu", device):
        torch.manual_seed(0)
        still = partial(network, dropout=0.0)
        module = build(still, optimizer=partial(torch.optim.SGD, lr=0.01)).to(place)
        module.log_dict = lambda *_, **__: None
        made.append(with_gradients(module))
    return made[0], made[1]


@on_devices
def test_questions_and_their_scores_are_those_of_the_cpu(
    device: str, network_factory: Factory, build_module: Build
) -> None:
    here, there = _modules(network_factory, build_module, device)
    torch.manual_seed(1)
    images, answers = random_images(8), ANSWERS * 4
    for strategy in (Sampling(), Beam(size=2)):
        # A generator of the CPU draws the same numbers for both devices.
        expected, found = (
            module.sample(images, answers, 4, strategy, torch.Generator().manual_seed(2))
            for module in (here, there)
        )
        same = [a == b for a, b in zip(expected.text, found.text, strict=True)]
        assert sum(same) >= 0.9 * len(same)  # a draw may fall on the other side of a bound
        rows = torch.tensor(same)
        torch.testing.assert_close(
            found.log_likelihood.cpu()[rows], expected.log_likelihood[rows], atol=5e-3, rtol=5e-3
        )
        first = expected.text[::4]
        scores = [module.log_likelihood(images, answers, first) for module in (here, there)]
        torch.testing.assert_close(scores[1].cpu(), scores[0], atol=5e-3, rtol=5e-3)


@on_devices
def test_gradients_are_those_of_the_cpu(
    device: str, network_factory: Factory, build_module: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = _modules(network_factory, build_module, device)
    torch.manual_seed(1)
    batch = random_batch(8)
    # The posterior's noise is drawn on the device; without it both see the same z.
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    found = []
    # TF32, in which cuDNN computes LSTMs otherwise, has 10 bits: too few for these gradients.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for module, place in ((here, "cpu"), (there, device)):
            (-module.network(batch.to(place)).log_likelihood.mean()).backward()
            found.append({n: p.grad for n, p in module.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(
            found[1][name].cpu(), value, atol=2e-3, rtol=2e-3, msg=partial("{}: {}".format, name)
        )
