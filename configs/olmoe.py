"""OLMoE (Muennighoff et al. 2024): 64 small experts per layer, with top-8 routing.

    python train.py --config=configs/olmoe.py:tiny --workdir=runs/olmoe

Sizes: 1b-7b (6,919,161,856 parameters, 1,282,017,280 of them active); tiny and smoke for a CPU. The shape
is that of the published file, training that of the authors' configurations (allenai/OLMoE): a balancing
loss of weight 0.01, a z-loss of the router of 0.001, 5 trillion tokens.

As it stands, 1b-7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "1b-7b": {"model.dim": 2048, "model.num_layers": 16, "model.attention.num_heads": 16, "model.ffn.hidden_dim": 1024}
}


def get_config(argument: str = "1b-7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.bias": False,
            "model.attention.qk_norm": "full",
            "model.ffn.kind": "moe",
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": 64,
            "model.ffn.experts.per_token": 8,
            "model.ffn.experts.renormalise": False,
            "model.ffn.experts.balance_weight": 0.01,
            "model.ffn.experts.z_weight": 0.001,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50304,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.steps": 1_200_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 4e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-8,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
