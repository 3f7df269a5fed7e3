"""Encoder-decoders: the original Transformer, BART, T5 and models derived from them."""

from tests.parity.systems.record import Published, System

# There is no dropout, and sizes are small and distinct, so that mixed-up dimensions are noticed. The
# heads of T5 do not add up to its width.
V, D, F = 99, 32, 56
PLAIN = {"vocab_size": V, "d_model": D, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": F, "decoder_ffn_dim": F,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 20, "dropout": 0.0,
         "attention_dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0}  # fmt: skip
# Two sides that differ in depth, heads and hidden width.
UNEVEN = {
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 40,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 8,
}
T5 = {"vocab_size": V, "d_model": D, "d_kv": 12, "d_ff": F, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10}  # fmt: skip
T5_1_1 = T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
# Sources and targets are longer than the largest distance with its own bucket.
LONG = 24

ENCODER_DECODERS = (
    System("transformer", "post-norm, sinusoids, ReLU, one embedding for both sides and the head, times sqrt(D)", "MarianMTModel",
           PLAIN | {"activation_function": "relu", "scale_embedding": True}, published=(
               Published("configs/transformer.py:base", 63_082_496, note="the paper prints 65 million"),
               Published("configs/transformer.py:big", 214_245_376, note="the paper prints 213 million"))),
    System("marian", "post-norm, sines and cosines in halves, SiLU, one embedding times sqrt(D), bias of the logits", "MarianMTModel",
           PLAIN | {"activation_function": "swish", "scale_embedding": True}, published=(
               Published("configs/marian.py:opus-mt", 73_886_208, without=("head",), note="without the sinusoids, which are not learned"),)),
    System("marian-uneven", "sides of different sizes, SiLU, embedding not scaled, untied head", "MarianMTModel",
           PLAIN | UNEVEN | {"activation_function": "swish", "tie_word_embeddings": False}),
    System("bart", "post-norm, learned positions, norm over the embeddings, GELU", "BartForConditionalGeneration", PLAIN | UNEVEN,
           published=(Published("configs/bart.py:base", 139_420_416, without=("head",)),
                      Published("configs/bart.py:large", 406_291_456, without=("head",)))),
    System("mbart", "pre-norm, learned positions, norm over the embeddings times sqrt(D), GELU", "MBartForConditionalGeneration",
           PLAIN | {"scale_embedding": True}),
    System("t5", "RMSNorm, one table of relative biases per side, unscaled scores, ReLU, tied and scaled head",
           "T5ForConditionalGeneration", T5, length=LONG, published=(
               Published("configs/t5.py:small", 60_506_624), Published("configs/t5.py:base", 222_903_552),
               Published("configs/t5.py:large", 737_668_096), Published("configs/t5.py:3b", 2_851_598_336),
               Published("configs/t5.py:11b", 11_307_321_344))),
    System("t5-1.1", "GeGLU, untied head, decoder deeper than the encoder", "T5ForConditionalGeneration",
           T5_1_1 | {"num_layers": 1, "num_decoder_layers": 2}, length=LONG, published=(
               Published("configs/t5.py:v1_1-small", 76_961_152), Published("configs/t5.py:v1_1-base", 247_577_856),
               Published("configs/t5.py:v1_1-large", 783_150_080), Published("configs/t5.py:v1_1-xl", 2_849_757_184),
               Published("configs/t5.py:v1_1-xxl", 11_135_332_352))),
    System("mt5", "T5 1.1 over many languages", "MT5ForConditionalGeneration", T5_1_1, length=LONG, published=(
               Published("configs/mt5.py:small", 300_176_768), Published("configs/mt5.py:base", 582_401_280),
               Published("configs/mt5.py:large", 1_229_581_312), Published("configs/mt5.py:xl", 3_742_619_648),
               Published("configs/mt5.py:xxl", 12_921_057_280))),
    System("byt5", "T5 1.1 over bytes, encoder three times as deep as the decoder", "T5ForConditionalGeneration",
           T5_1_1 | {"num_layers": 3, "num_decoder_layers": 1}, length=LONG, published=(
               Published("configs/byt5.py:small", 299_637_760), Published("configs/byt5.py:base", 581_653_248),
               Published("configs/byt5.py:large", 1_228_183_552), Published("configs/byt5.py:xl", 3_737_801_728),
               Published("configs/byt5.py:xxl", 12_906_899_328))),
    System("umt5", "T5 1.1 with a table of relative biases in every layer", "UMT5ForConditionalGeneration", T5_1_1, length=LONG),
)  # fmt: skip
