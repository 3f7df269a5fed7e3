"""Performers with copied random features. The causal rows are longer than a chunk of the causal
loop.
"""

from tests.parity.systems.record import Published, System

V, LONG = 29, 70
# Performers ignore the attention kernel, but the two default kernels also cover unrolled layers on
# padded rows and scanned layers on full rows.
PERFORMER = {
    "num_tokens": V,
    "max_seq_len": 80,
    "dim": 16,
    "depth": 2,
    "heads": 2,
    "dim_head": 12,
    "nb_features": 17,
    "ff_mult": 3,
}
ROPE = {"model.position.kind": "rope", "model.position.layout": "interleaved", "model.position.max_length": "auto"}

PERFORMERS = (
    System("performer", "FAVOR+ in both directions, learned positions, GELU", "PerformerLM",
           PERFORMER | {"rotary_position_emb": False}, library="performer-pytorch"),
    System("performer-causal", "FAVOR+ up to each token, GeGLU, biases, tied head", "PerformerLM",
           PERFORMER | {"rotary_position_emb": False, "causal": True, "ff_glu": True, "tie_embed": True, "qkv_bias": True,
                        "attn_out_bias": True}, length=LONG, library="performer-pytorch",
           published=(Published("configs/performer.py:enwik8", 86_237_441),)),
    System("performer-rope", "FAVOR+ in both directions of rotated queries and keys", "PerformerLM",
           PERFORMER | {"rotary_position_emb": True}, ROPE, library="performer-pytorch"),
    System("performer-rope-causal", "FAVOR+ up to each token of rotated queries and keys", "PerformerLM",
           PERFORMER | {"rotary_position_emb": True, "causal": True}, ROPE, length=LONG, library="performer-pytorch",
           published=(Published("configs/performer.py:enwik8-rope", 85_451_009),)),
)  # fmt: skip
