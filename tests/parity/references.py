"""The reference's side of a comparison: models of the libraries that defined them, with random
weights, and their outputs and gradients.
"""

import importlib
import inspect
import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.parity.harness import Arrays, cotangents, random_tensor, resolved
from tests.parity.references_performer import PerformerPytorch
from tests.parity.references_torch import ELMo, Torch, Transformer
from tests.parity.systems import FIVE, System
from zoo.config import ResolvedConfig
from zoo.interop import importer_of
from zoo.interop.settings.equivalents import ConfigView
from zoo.interop.weights.tensor_files import write_tensors


class Transformers:
    """A class of Hugging Face's transformers, in evaluation mode with plain attention.

    Args:
        system: names the class and its settings.
        dtype: type of weights and activations.
    """

    def __init__(self, system: System, dtype: torch.dtype = torch.float32):
        library = importlib.import_module("transformers")
        library.logging.set_verbosity_error()
        kind = getattr(library, system.reference)
        config = kind.config_class(**system.settings)
        config._attn_implementation = system.settings.get("attn_implementation", "eager")
        try:
            self.module = kind(config).eval()
        except AttributeError:
            # Initial values of norms without a bias fail in some classes; all are replaced anyway.
            with library.modeling_utils.no_init_weights():
                self.module = kind(config).eval()
            self.module.tie_weights()
        use_norms_of_groups(self.module)
        fill(self.module)
        self.module.to(dtype)
        self.version = f"transformers {library.__version__}"
        self.hf: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
        # The content of the library's config.json, which omits most default values.
        self.written: dict[str, Any] = json.loads(config.to_json_string())

    def tensors(self) -> Arrays:
        """The state dict, buffers and tied copies included."""
        return {name: tensor.detach().numpy() for name, tensor in self.module.state_dict().items()}

    def outputs(self, batch: Arrays, config: ResolvedConfig) -> dict[str, torch.Tensor]:
        """Runs the module on a batch of `harness.make_batch`."""
        accepted = inspect.signature(self.module.forward).parameters
        numbers = {name: torch.tensor(array, dtype=torch.long) for name, array in batch.items()}
        filled = (numbers["positions"] >= 0).long()
        inputs = {"input_ids": numbers["tokens"], "attention_mask": filled}
        if "source" in batch:
            inputs = {"input_ids": numbers["source"], "attention_mask": (numbers["source_positions"] >= 0).long(),
                      "decoder_input_ids": numbers["tokens"], "decoder_attention_mask": filled}  # fmt: skip
        elif config.model.architecture == "decoder" and "position_ids" in accepted:
            # By default the class counts positions from the first slot, even if it is empty.
            inputs["position_ids"] = numbers["positions"].clamp(min=0)
        if "segments" in batch:
            inputs["token_type_ids"] = numbers["segments"]
        if "global_attention_mask" in accepted and config.model.attention.global_tokens:
            inputs["global_attention_mask"] = torch.zeros_like(filled)
            inputs["global_attention_mask"][:, : config.model.attention.global_tokens] = 1
        out = self.module(**inputs, use_cache=False) if "use_cache" in accepted else self.module(**inputs)
        found = {"logits": out["prediction_logits" if "prediction_logits" in out else "logits"]}
        if found["logits"].ndim == 2:  # One for each token.
            found["logits"] = found["logits"][..., None]
        for name in ("seq_relationship_logits", "sop_logits"):
            if name in out:
                found["next_sentence"] = out[name]
        return found


def use_norms_of_groups(module: torch.nn.Module) -> None:
    """Gives a Mamba-2 of several groups of heads the norm of the authors' code, over the values of
    each group: that of Zamba 2. `Mamba2ForCausalLM` normalises over the values of all heads.
    """
    mixers = [each for each in module.modules() if type(each).__name__ == "Mamba2Mixer" and each.n_groups > 1]
    if mixers:
        library = importlib.import_module("transformers.models.zamba2.modeling_zamba2")
    for mixer in mixers:
        width = mixer.intermediate_size
        weight, epsilon = mixer.norm.weight, mixer.norm.variance_epsilon
        mixer.norm = library.Zamba2RMSNormGated(width, group_size=width // mixer.n_groups, eps=epsilon)
        mixer.norm.weight = weight


class TransformersFive(Transformers):
    """A class that only transformers 5 has, under the names of its files: the loader renames their
    tensors, joins and stacks them, so the random weights are written to a file and read by it.
    """

    def __init__(self, system: System, dtype: torch.dtype = torch.float32):
        super().__init__(system, dtype)
        self.importer, self.view = importer_of(system.imported_as), ConfigView(resolved(system, self.hf), {})
        shapes = {name: array.shape for name, array in self.as_filed(self.module.state_dict()).items()}
        self.filed = {name: random_tensor(name, shape) for name, shape in shapes.items()}
        with tempfile.TemporaryDirectory() as folder:
            self.module.config.save_pretrained(folder)
            write_tensors(Path(folder) / "model.safetensors", self.filed)
            self.module, found = type(self.module).from_pretrained(
                folder, attn_implementation="eager", dtype=dtype, output_loading_info=True
            )
        self.module.eval()
        assert not any(found.values()), found

    def as_filed(self, tensors: Mapping[str, torch.Tensor]) -> Arrays:
        """Returns tensors of the module, or gradients, as its files hold them."""
        loading = importlib.import_module("transformers.core_model_loading")
        written = loading.revert_weight_conversion(self.module, dict(tensors))
        arranged = self.importer.arranged(self.view, {name: tensor.numpy() for name, tensor in written.items()})
        return {name: np.asarray(arranged[name]) for name in arranged}

    def tensors(self) -> Arrays:
        """The tensors of the file."""
        return self.filed


LIBRARIES: dict[str, Any] = {
    "transformers": Transformers, FIVE: TransformersFive, "performer-pytorch": PerformerPytorch, "torch": partial(Torch, Transformer),
    "torch-elmo": partial(Torch, ELMo),
}  # fmt: skip


def is_here(system: System) -> bool:
    """Returns whether this environment has the reference of a system: transformers 4 lacks the classes
    that came with 5.
    """
    return system.library != FIVE or hasattr(importlib.import_module("transformers"), system.reference)


def fill(module: torch.nn.Module) -> None:
    """Sets every learned tensor, and biases without a gradient, to the random value of its name."""
    with torch.no_grad():
        biases = {name: buffer for name, buffer in module.named_buffers() if name.endswith("e_score_correction_bias")}
        for name, parameter in (learned(module) | biases).items():
            parameter.copy_(torch.tensor(random_tensor(name, tuple(parameter.shape))))


def learned(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Returns the parameters by name, without constants (Marian's sinusoids), and with buffers that
    are parameters in zoo.
    """
    found = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    return found | {
        name: buffer.requires_grad_() for name, buffer in module.named_buffers() if name == "final_logits_bias"
    }


def build(system: System, dtype: torch.dtype = torch.float32) -> Any:
    """Builds the reference of a system: an object with `hf`, `written`, `version`, `module`,
    `tensors()` and `outputs(batch, config)`.
    """
    return LIBRARIES[system.library](system, dtype)


def run_theirs(reference: Any, batch: Arrays, config: ResolvedConfig) -> tuple[Arrays, Arrays, Arrays]:
    """Returns the outputs of the reference, the weights of the functional, and the gradients by the
    reference's names.
    """
    for parameter in learned(reference.module).values():
        parameter.grad = None
    outputs: Mapping[str, torch.Tensor] = reference.outputs(batch, config)
    values = {name: output.detach().numpy() for name, output in outputs.items()}
    weights = cotangents(values, batch)
    sum((output * torch.tensor(weights[name])).sum() for name, output in outputs.items()).backward()
    gradients = {
        name: np.zeros(parameter.shape, np.float32) if parameter.grad is None else parameter.grad.numpy()
        for name, parameter in learned(reference.module).items()
    }
    if isinstance(reference, TransformersFive):
        gradients = reference.as_filed({name: torch.tensor(gradient) for name, gradient in gradients.items()})
    return values, weights, gradients
