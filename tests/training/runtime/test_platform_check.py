"""Configs that the machine cannot run are refused before any work."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.building import tiny
from zoo.errors import ConfigError
from zoo.layers.platform import Platform
from zoo.training.runtime import platform_check


def test_kernel_is_refused_on_a_platform_that_cannot_run_it(monkeypatch):
    half = {"model.dtype": "bfloat16", "model.attention.implementation": "cudnn"}
    narrow, wide = (tiny(half | {"model.attention.head_dim": width}) for width in (128, 256))
    monkeypatch.setattr(platform_check.jax, "default_backend", lambda: "cpu")
    with pytest.raises(ConfigError, match="implementation=cudnn runs on gpu only, and this is a cpu"):
        platform_check.check_platform(narrow)
    monkeypatch.setattr(platform_check.jax, "default_backend", lambda: "gpu")
    for capability in ((8, 0), (9, 0)):
        monkeypatch.setattr(Platform, "here", classmethod(lambda cls, own=capability: Platform("gpu", 1, own)))
        platform_check.check_platform(narrow)
        if capability == (9, 0):
            platform_check.check_platform(wide)
        else:
            with pytest.raises(ConfigError, match=r"cudnn cannot have .*head_dim=256, above 128 on this GPU"):
                platform_check.check_platform(wide)


@pytest.mark.parametrize(("backend", "named", "capability"), [
    ("gpu", "9.0", (9, 0)), ("gpu", "12.1", (12, 1)), ("gpu", "gfx90a", None), ("cpu", "9.0", None)
])  # fmt: skip
def test_platform_describes_devices(monkeypatch, backend, named, capability):
    devices = [SimpleNamespace(platform=backend, compute_capability=named)] * 3
    monkeypatch.setattr(platform_check.jax, "devices", lambda: devices)
    assert Platform.here() == Platform(backend, 3, capability)
    mesh = SimpleNamespace(devices=np.array(devices[:2]).reshape(2, 1))
    assert Platform.of(mesh) == Platform(backend, 2, capability)
