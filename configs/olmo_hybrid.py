"""OLMo-hybrid (Merrill et al. 2026, arXiv:2604.03444): in groups of four layers, three of Gated DeltaNet, pre-norm and
with rates up to 2, before one of attention without positions, whose outputs are normalised as in OLMo 2.

    python train.py --config=configs/olmo_hybrid.py:tiny --workdir=runs/olmo_hybrid

Sizes: 7b (7,430,870,688 parameters); tiny and smoke for a CPU. The shape is that of the class's defaults,
which are those of Olmo-Hybrid-7B, without positions, as in its checkpoint. Optimizer, rate, batch and
schedule are those of OLMo 3 of 7B (olmo3.py), to which the paper compares it; the steps are those of 6
trillion tokens.
"""

from zoo.config import by_role, default, override, sized

STATE, FULL = "model.layers.kinds.state.", "model.layers.kinds.full."
SIZES = {"7b": {"model.dim": 3840, "model.num_layers": 32}}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("state", "state", "state", "full"),
            f"{STATE}attention.kind": "gated_delta",
            f"{STATE}attention.key_heads": 30,
            f"{STATE}attention.head_dim": 96,
            f"{STATE}attention.value_dim": 192,
            f"{STATE}attention.negative_eigenvalues": True,
            f"{STATE}attention.norm_epsilon": 1e-5,
            f"{FULL}attention.kind": "softmax",
            f"{FULL}attention.qk_norm": "full",
            f"{FULL}norm.placement": "reordered",
            "model.attention.num_heads": 30,
            "model.attention.head_dim": 128,
            "model.attention.bias": False,
            "model.position.kind": "none",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.ffn.kind": "swiglu",
            "model.ffn.hidden_dim": 11008,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 100352,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
            "training.steps": 1_430_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            **by_role(embedding={"weight_decay": 0.0}, vector={"weight_decay": 0.1}),
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "objective.z_loss": 1e-5,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
