"""DeepSeek-V3 (DeepSeek-AI 2024): latent attention, three dense layers, then layers of 256 small experts
and a shared one. Each token goes to 8 experts, from at most 4 of 8 groups, and biases balance the loads.

    python train.py --config=configs/deepseek_v3.py:tiny --workdir=runs/deepseek_v3

Sizes: 671b (671,026,404,352 parameters, 37,552,282,624 of them active); tiny and smoke for a CPU. Shape
and training are those of section 4.2 of the report. What differs: the report also predicts a second token
with a module of its own, its batch grows from 3072 rows, its rate falls along a cosine and then in two
steps, and its biases stay fixed for the last 500 billion tokens.

As it stands, 671b fits on 512 h200, by `zoo plan`: groups of 16 divide the experts (`mesh.expert`), and
the 32 groups divide all weights (`mesh.fsdp`).
"""

from zoo.config import default, override, sized

SIZES = {
    "671b": {
        "model.dim": 7168,
        "model.num_layers": 61,
        "model.layers.pattern": ("dense",) * 3 + ("sparse",) * 58,
        "model.layers.kinds.dense.ffn.hidden_dim": 18432,
        "model.attention.num_heads": 128,
        "model.ffn.hidden_dim": 2048,
        "model.ffn.experts.shared_dim": 2048,
    }
}


def get_config(argument: str = "671b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.layout": "interleaved",
            "model.position.theta": 10000.0,
            "model.attention.kind": "latent",
            "model.attention.head_dim": 128,
            "model.attention.latent_dim": 512,
            "model.attention.rotary_dim": 64,
            "model.attention.query_latent_dim": 1536,
            "model.attention.bias": False,
            "model.layers.kinds.dense.ffn.kind": "swiglu",
            "model.layers.kinds.sparse.ffn.kind": "moe",
            "model.ffn.kind": "moe",
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": 256,
            "model.ffn.experts.per_token": 8,
            "model.ffn.experts.scores": "sigmoid",
            "model.ffn.experts.scale": 2.5,
            "model.ffn.experts.groups": 8,
            "model.ffn.experts.chosen_groups": 4,
            "model.ffn.experts.bias_rate": 0.001,
            "model.ffn.experts.sequence_balance_weight": 0.0001,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.006,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.expert": 16,
            "mesh.fsdp": -1,
            "training.microbatch_size": 1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 129280,
            "data.sequence_length": 4096,
            "data.batch_size": 15360,
            "training.steps": 235_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 2.2e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-8,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "wsd",
            "schedule.warmup_steps": 2000,
            "schedule.decay_fraction": 0.324,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
