"""GPT-2 in the style of the NanoGPT speedruns (Jordan et al. 2024, modded-nanogpt): what was left standing
when many people trained the 124M model to one loss as fast as they could.

    python train.py --config=configs/modded.py:tiny --workdir=runs/modded

RMSNorm without learned factors, also on the embedding; RoPE on half of the frequencies; heads of 128
with QK-norm and scores scaled by 0.12; squared ReLU; output matrices that begin at 0; the x0 shortcut;
gated value embeddings in every other layer; an untied head with a soft cap of 30. Muon trains the
matrices, Adam everything else at rates of its own; the rate stays constant and then falls to 0 over the
last 40 % of the steps.

Sizes: small (393,714,120 parameters, of which 232 million are value embeddings, which cost no products)
and medium (1,022,475,440); tiny and smoke for a CPU. The speedruns change from week to week
and this is none of them: windows that grow, skip connections between layers, a head that begins at 0
and tricks of arithmetic are missing. Rates are those of late 2024; the steps are a round number.

As it stands, small fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, parameter_groups, sized

SIZES = {
    "small": {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 6, "training.steps": 1400},
    "medium": {"model.dim": 1024, "model.num_layers": 24, "model.attention.num_heads": 8, "training.steps": 6000},
}
# Adam's parameters and their rates, as factors on Muon's 0.02.
GROUPS = {
    "streams": {"select": "path:*/stream_scale", "rate_factor": 0.01},
    "tables": {"select": "role:embedding,path:*/value_embedding*", "rate_factor": 15.0},
    "head": {"select": "role:head", "rate_factor": 0.1},
    "others": {"select": "role:vector,role:scalar", "rate_factor": 1.0},
}


def get_config(argument: str = "small"):
    """Returns the config of "size" or "size,field=value,..."."""
    adam = {"kind": "adamw", "momentum_warmup": 0, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-10, "weight_decay": 0.0}
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.scale": False,
            "model.norm.placement": "x0_shortcut",
            "model.embedding.norm": True,
            "model.position.kind": "rope",
            "model.position.theta": 1024.0**2,
            "model.position.kept_frequencies": 0.5,
            "model.layers.pattern": ("valued", "plain"),
            "model.layers.kinds.valued.attention.kind": "value_embedding",
            "model.layers.kinds.plain.attention.kind": "softmax",
            "model.attention.bias": False,
            "model.attention.qk_norm": "head",
            "model.attention.qk_norm_scale": False,
            "model.attention.scale": 0.12,
            "model.ffn.kind": "relu_squared",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.head.softcap": 30.0,
            "model.init.embedding_std": 1.0,
            "model.init.zero_outputs": True,
            "model.vocab_multiple": 64,
            "model.dtype": "bfloat16",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50257,
            "data.sequence_length": 1024,
            "data.batch_size": 512,
            "training.microbatch_size": 16,
            "training.eval_every": 125,
            "training.checkpoint_every": 500,
            "optimizer.kind": "muon",
            "optimizer.muon_scale": "spectral",
            "optimizer.momentum_warmup": 300,
            "optimizer.learning_rate": 0.02,
            **parameter_groups(**{name: group | adam for name, group in GROUPS.items()}),
            "schedule.kind": "wsd",
            "schedule.decay_fraction": 0.4,
        },
    )
    return sized(argument, base, SIZES)
