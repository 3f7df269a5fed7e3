"""Apertus (Apertus Team 2025): LLaMA with an RMSNorm of each head's queries and keys, and a feed-forward
layer of two matrices with xIELU, whose shape each layer learns.

    python train.py --config=configs/apertus.py:tiny --workdir=runs/apertus

Sizes: 8b (8,053,338,176 parameters) and 70b (70,599,864,480); tiny and smoke for a CPU. Shapes are those
of the published checkpoints, whose RoPE is stretched for long rows afterwards. The report (arXiv:2509.14233,
section 2) states AdEMAMix, 15 trillion tokens in rows of 4096 with documents kept apart, a base of 5e5
in this stage, a constant rate that falls to a tenth after 13.5 trillion tokens, and a warm-up over 16.8
billion; rates and batches are those of table 2, the other values of table C.4. Batches double on the way,
which this leaves out, as it does the Goldfish loss.

As it stands, 8b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

TOKENS, WARMUP = 15e12, 16.777e9


def _size(dim: int, layers: int, heads: int, hidden: int, rate: float, rows: int) -> dict:
    batch_tokens = 4096 * rows
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 8,
        "model.ffn.hidden_dim": hidden,
        "optimizer.learning_rate": rate,
        "data.batch_size": rows,
        "training.steps": round(TOKENS / batch_tokens),
        "schedule.warmup_steps": round(WARMUP / batch_tokens),
    }


SIZES = {"8b": _size(4096, 32, 32, 21504, 1.1e-4, 1024), "70b": _size(8192, 80, 64, 43008, 1e-5, 2048)}


def get_config(argument: str = "8b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 5e5,
            "model.attention.bias": False,
            "model.attention.qk_norm": "head",
            "model.ffn.kind": "xielu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.008944,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 131072,
            "data.sequence_length": 4096,
            "data.isolate_documents": True,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.kind": "ademamix",
            "optimizer.ademamix_alpha": 8.0,
            "optimizer.ademamix_beta3": 0.9999,
            "optimizer.ademamix_warmup": 100_000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.999,
            "optimizer.clip_norm": 0.1,
            "schedule.kind": "wsd",
            "schedule.decay_shape": "sqrt",
            "schedule.decay_fraction": 0.1,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
