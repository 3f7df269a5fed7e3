"""gpt-oss (OpenAI 2025): a learned sink for each head, a window in every other layer, and 32 or 128
experts with biases and clamped SwiGLU; each token goes to 4 of them.

    python train.py --config=configs/gpt_oss.py:tiny --workdir=runs/gpt_oss

Sizes: 20b (20,914,757,184 parameters, 4,187,440,704 of them active) and 120b (116,829,156,672;
5,711,982,912); tiny and smoke for a CPU. Shapes are those of the model card and the published files,
before the context was extended from 4096 to 131,072 tokens, which takes
`model.position.scaling.kind=yarn` with a factor of 32 and `model.position.scaling.truncate=false`. The
card states no optimizer, schedule, batch, budget or balancing loss; those of LLaMA 2 (Touvron et al.
2023b, section 2.2) stand here, and a balancing loss of the usual weight 0.01 (Fedus et al. 2021).

As it stands, 20b fits on 16 h200, by `zoo plan`: on GPUs attention with sinks is not fused, and scores of
a row of 4096 tokens are large.
"""

from zoo.config import default, override, sized


def _size(layers: int, experts: int) -> dict:
    return {
        "model.dim": 2880,
        "model.num_layers": layers,
        "model.attention.num_heads": 64,
        "model.attention.num_kv_heads": 8,
        "model.attention.head_dim": 64,
        "model.ffn.hidden_dim": 2880,
        "model.ffn.experts.number": experts,
    }


SIZES = {"20b": _size(24, 32), "120b": _size(36, 128)}


def get_config(argument: str = "20b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 150000.0,
            "model.attention.bias": True,
            "model.attention.sinks": True,
            "model.layers.pattern": ("local", "global"),
            "model.layers.kinds.local.attention.window": 128,
            "model.layers.kinds.global.attention.window": 0,
            "model.ffn.kind": "moe",
            "model.ffn.bias": True,
            "model.ffn.clamp": 7.0,
            "model.ffn.experts.kind": "swiglu_clamped",
            "model.ffn.experts.per_token": 4,
            "model.ffn.experts.router_bias": True,
            "model.ffn.experts.balance_weight": 0.01,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 201088,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.microbatch_size": 1,
            "training.steps": 500_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-5,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
