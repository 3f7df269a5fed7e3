"""Qwen3-Next (Qwen Team 2025): in groups of four layers, three of Gated DeltaNet before one of attention
with a gate on its output; 512 small experts per layer, of which ten and a shared one see a token.

    python train.py --config=configs/qwen3_next.py:tiny --workdir=runs/qwen3_next

Sizes: 80b-a3b (79,674,391,296 parameters, 3,874,929,408 of them active), without the module that
predicts further tokens; tiny and smoke for a CPU. The shape is that of the published file. The
announcement states 15 trillion tokens, and neither rows, batch, optimizer nor the weight of the
balancing loss, for which 0.001 of the file stands here; what stands here is that of qwen3.py.

As it stands, 80b-a3b fits on 64 h100, by `zoo plan`: groups of 16 divide the experts (`mesh.expert`), and
the 4 groups divide all weights (`mesh.fsdp`).
"""

from zoo.config import default, override, sized

STATE, FULL = "model.layers.kinds.state.", "model.layers.kinds.full."
SIZES = {"80b-a3b": {"model.dim": 2048, "model.num_layers": 48}}


def get_config(argument: str = "80b-a3b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("state", "state", "state", "full"),
            f"{STATE}attention.kind": "gated_delta",
            f"{STATE}attention.num_heads": 32,
            f"{STATE}attention.key_heads": 16,
            f"{STATE}attention.head_dim": 128,
            f"{STATE}attention.value_dim": 128,
            f"{FULL}attention.kind": "softmax",
            f"{FULL}attention.num_kv_heads": 2,
            f"{FULL}attention.qk_norm": "head",
            f"{FULL}attention.gate": "elementwise",
            f"{FULL}position.kind": "rope",
            f"{FULL}position.theta": 1e7,
            f"{FULL}position.fraction": 0.25,
            "model.attention.num_heads": 16,
            "model.attention.head_dim": 256,
            "model.attention.bias": False,
            "model.position.kind": "none",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.unit_offset": True,
            "model.norm.epsilon": 1e-6,
            "model.ffn.kind": "moe",
            "model.ffn.hidden_dim": 512,
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": 512,
            "model.ffn.experts.per_token": 10,
            "model.ffn.experts.shared_dim": 512,
            "model.ffn.experts.shared_gate": True,
            "model.ffn.experts.balance_weight": 0.001,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.expert": 16,
            "mesh.fsdp": -1,
            "training.microbatch_size": 1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 151936,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.steps": 3_600_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 0.0003,
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
