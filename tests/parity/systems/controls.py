"""Models that no library has (controls, DeepNorm, Shaw's relative values), built from PyTorch's
modules and the papers' equations.
"""

from collections.abc import Mapping
from typing import Any

from tests.parity.systems.record import Published, System
from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import TRANSPOSED, IgnoredTensors, Rule, Rules, fused, layers, linear, norm

# Settings of `tests.parity.references_torch.Transformer`.
PLAIN = {"vocab": 99, "dim": 32, "layers": 2, "heads": 4, "hidden": 56, "length": 24, "causal": True, "norm": "LayerNorm", "epsilon": 0.03,
         "placement": "pre", "residual": True, "positions": "learned", "clip": 0}  # fmt: skip
NORMS = {"LayerNorm": "layernorm", "BatchNorm1d": "batchnorm", "Identity": "none"}
POSITIONS = {"learned": {"model.position.kind": "learned"}, "none": {"model.position.kind": "none"},
             "relative": {"model.position.kind": "shaw", "model.position.relative_values": True}}  # fmt: skip


def read_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides of `zoo.config.default()`."""
    kind = ("decoder", "causal") if settings["causal"] else ("encoder", "masked")
    position = POSITIONS[settings["positions"]]
    limit = {
        "learned": {"model.position.max_length": settings["length"]},
        "relative": {"model.position.clip": settings["clip"]},
    }
    epsilon = {} if settings["norm"] == "Identity" else {"model.norm.epsilon": settings["epsilon"]}
    return (
        position
        | limit.get(settings["positions"], {})
        | epsilon
        | {
            "model.architecture": kind[0],
            "objective.kind": kind[1],
            "model.vocab_size": settings["vocab"],
            "model.dim": settings["dim"],
            "model.num_layers": settings["layers"],
            "model.attention.num_heads": settings["heads"],
            "model.ffn.kind": "gelu",
            "model.ffn.hidden_dim": settings["hidden"],
            "model.norm.kind": NORMS[settings["norm"]],
            "model.norm.placement": settings["placement"],
            "model.residual": settings["residual"],
        }
    )


def rules(config: ResolvedConfig) -> Rules:
    """Maps zoo's parameters to the module's tensors."""
    D, projections = config.dim, [f"attention/{name}" for name in ("query", "key", "value")]

    def layer(config: ResolvedConfig) -> Rules:
        at = "layers.{layer}"
        attention = [
            Rule(
                f"{at}.attention.in_proj_weight",
                tuple(f"{path}/kernel" for path in projections),
                fused([D] * 3).then(TRANSPOSED),
            ),
            Rule(f"{at}.attention.in_proj_bias", tuple(f"{path}/bias" for path in projections), fused([D] * 3)),
        ]
        if config.position.kind == "shaw":
            attention += [
                Rule(f"{at}.attention.to_{name}", (f"attention/position/{name}",)) for name in ("keys", "values")
            ]
        return [
            *norm("attention_norm", f"{at}.norms.0", config),
            *attention,
            *linear("attention/output", f"{at}.attention.out_proj"),
            *norm("ffn_norm", f"{at}.norms.1", config),
            *linear("ffn/up", f"{at}.up"),
            *linear("ffn/down", f"{at}.down"),
        ]

    return [
        Rule("embedding.weight", ("embedding",)),
        *([Rule("position_embedding.weight", ("position/table",))] if config.position.kind == "learned" else ()),
        *layers(config, layer),
        *(norm("final_norm", "final_norm", config) if config.norm.placement == "pre" else ()),
        IgnoredTensors(r".*\.num_batches_tracked"),
    ]


def statistics(config: ResolvedConfig) -> Rules:
    """Maps the running averages of batch normalisation."""
    if config.norm.kind != "batchnorm":
        return ()

    def averages(ours: str, theirs: str) -> list[Rule]:
        return [Rule(f"{theirs}.running_mean", (f"{ours}/mean",)), Rule(f"{theirs}.running_var", (f"{ours}/variance",))]

    norm_names = (("attention_norm", "layers.{layer}.norms.0"), ("ffn_norm", "layers.{layer}.norms.1"))
    return [
        *layers(config, lambda _: [rule for pair in norm_names for rule in averages(*pair)]),
        *averages("final_norm", "final_norm"),
    ]


IMPORTER = Importer(read_config, rules, PLAIN, statistics)


def control(name: str, what: str, reference: str, changes: Mapping[str, Any], **more: Any) -> System:
    """Makes a system with some of the plain settings changed."""
    return System(name, what, reference, PLAIN | changes, library="torch", importer=IMPORTER, **more)


def published_count(size: str, count: int) -> tuple[Published, ...]:
    """Returns the count of a size in the controls' config file."""
    return (Published(f"configs/controls.py:{size}", count),)


# The longest distances exceed the clip in both directions.
SHAW = {"positions": "relative", "clip": 4, "placement": "post"}

CONTROLS = (
    control("control-baseline", "a pre-norm decoder, learned positions, GELU", "LayerNorm, MultiheadAttention, Linear of torch.nn", {},
            published=published_count("baseline", 3_290_880)),
    control("control-batchnorm", "BatchNorm over the filled slots of the batch, as in training", "BatchNorm1d of torch.nn",
            {"norm": "BatchNorm1d"}, training=True, published=published_count("batchnorm", 3_290_880)),
    control("control-batchnorm-averages", "BatchNorm by running averages, as in evaluation", "BatchNorm1d of torch.nn",
            {"norm": "BatchNorm1d"}),
    control("control-no-norm", "no norm anywhere", "MultiheadAttention, Linear of torch.nn", {"norm": "Identity"},
            published=published_count("no_norm", 3_286_272)),
    control("control-no-residual", "each sublayer's output alone", "LayerNorm, MultiheadAttention, Linear of torch.nn", {"residual": False},
            published=published_count("no_residual", 3_290_880)),
    control("control-nope", "no positions but the causal mask's", "LayerNorm, MultiheadAttention, Linear of torch.nn",
            {"positions": "none"}, published=published_count("nope", 3_225_344)),
    control("control-single-head", "one head as wide as the model", "LayerNorm, MultiheadAttention, Linear of torch.nn", {"heads": 1},
            published=published_count("single_head", 3_290_880)),
    control("deepnorm", "post-norm, the residual stream times (2 L)^(1/4)", "Wang et al. 2022, figure 2, in torch.nn",
            {"placement": "deepnorm", "layers": 3}),
    # The counts are those of MarianMTModel with these sizes, without its sinusoids, plus two tables of
    # 2 k + 1 vectors in each of 12 layers.
    control("shaw", "a vector for every clipped distance, added to keys and to values, in both directions",
            "Shaw et al. 2018, eq. 3 and 4, in torch.nn", SHAW | {"causal": False}, kernels=("einsum",), published=(
                Published("configs/shaw.py:base", 48_320_512 + 12 * 2 * 33 * 64),
                Published("configs/shaw.py:big", 209_911_808 + 12 * 2 * 17 * 64))),
    control("shaw-causal", "the same up to each token", "Shaw et al. 2018, eq. 3 and 4, in torch.nn", SHAW, kernels=("einsum",)),
)  # fmt: skip
