"""Decoders with ALiBi, each with two numbers of heads: a power of two, and one that is not, whose
slopes follow another rule.
"""

from tests.parity.systems.record import Published, System

V, L = 99, 2
BLOOM = {"vocab_size": V, "n_layer": L}
MPT = {"vocab_size": V, "n_layers": L, "max_seq_len": 24}

ALIBI = (
    System("bloom", "ALiBi, norm over the embedding, GELU by tanh, biases; 4 heads", "BloomForCausalLM",
           BLOOM | {"hidden_size": 32, "n_head": 4}, published=(Published("configs/bloom.py:560m", 559_214_592),)),
    System("bloom-6-heads", "ALiBi with 6 heads, untied head", "BloomForCausalLM",
           BLOOM | {"hidden_size": 24, "n_head": 6, "tie_word_embeddings": False}),
    System("mpt", "ALiBi, no bias anywhere, exact GELU; 4 heads", "MptForCausalLM", MPT | {"d_model": 32, "n_heads": 4}, published=(
        Published("configs/mpt.py:7b", 6_649_286_656),)),
    System("mpt-6-heads", "ALiBi with 6 heads, scores with a scale of their own", "MptForCausalLM",
           MPT | {"d_model": 24, "n_heads": 6, "attn_config": {"softmax_scale": 0.3}}),
)  # fmt: skip
