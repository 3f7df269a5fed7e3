"""Encoders: BERT and its successors, also with relative positions (Shaw) and windows (Longformer)."""

from tests.parity.systems.record import Published, System

# There is no dropout, and sizes are small and distinct, so that mixed-up dimensions are noticed.
BERT = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 24, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # fmt: skip
DISTILBERT = {"vocab_size": 99, "dim": 32, "hidden_dim": 56, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 24, "dropout": 0.0,
              "attention_dropout": 0.0}  # fmt: skip
# Small sizes keep the stored outputs of long rows small.
LONG = BERT | {
    "vocab_size": 23,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "max_position_embeddings": 280,
}
# Two layers, each applied twice.
ALBERT = BERT | {"embedding_size": 12, "num_hidden_layers": 4, "num_hidden_groups": 2, "classifier_dropout_prob": 0.0}
ELECTRA = BERT | {"embedding_size": 12, "summary_last_dropout": 0.0}
# There is a layer of each kind: the first, two with a window of 2 on either side, and a global one.
MODERNBERT = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 4, "num_attention_heads": 2,
              "local_attention": 4, "local_rope_theta": 50.0, "max_position_embeddings": 24, "norm_eps": 0.03, "pad_token_id": 0,
              "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}  # fmt: skip
HEADS = ("head", "next_sentence")

ENCODERS = (
    System("bert", "post-norm, learned positions, two segments; heads for hidden tokens and the next sentence", "BertForPreTraining", BERT,
           published=(Published("configs/bert.py:base", 110_106_428), Published("configs/bert.py:base", 109_482_240, without=HEADS),
                      Published("configs/bert.py:large", 336_226_108), Published("configs/bert.py:large", 335_141_888, without=HEADS),
                      Published("configs/bert.py:base-cased", 108_310_272, without=HEADS))),
    System("bert-masked", "the head for hidden tokens alone", "BertForMaskedLM", BERT, published=(
        Published({}, 109_514_298, "BERT base, the head for hidden tokens alone"),)),
    System("bert-untied", "untied head, SiLU, three segments, another epsilon", "BertForMaskedLM",
           BERT | {"tie_word_embeddings": False, "hidden_act": "silu", "type_vocab_size": 3, "layer_norm_eps": 0.05}),
    System("shaw-keys", "a vector for every distance, added to the keys", "BertForMaskedLM",
           BERT | {"position_embedding_type": "relative_key", "max_position_embeddings": 13}),
    System("roberta", "positions count from 2", "RobertaForMaskedLM", BERT, published=(
        Published("configs/roberta.py:base", 124_697_433), Published("configs/roberta.py:large", 355_412_057))),
    System("albert", "two layers, each applied twice, embeddings of another width; heads for hidden tokens and the order of segments",
           "AlbertForPreTraining", ALBERT, published=(
               Published("configs/albert.py:base", 11_813_810), Published("configs/albert.py:base", 11_683_584, without=HEADS),
               Published("configs/albert.py:large", 17_847_474), Published("configs/albert.py:xlarge", 59_021_490),
               Published("configs/albert.py:xxlarge", 223_158_450))),
    System("albert-masked", "one layer, another GELU, untied; the head for hidden tokens alone", "AlbertForMaskedLM",
           ALBERT | {"num_hidden_groups": 1, "hidden_act": "gelu", "tie_word_embeddings": False, "layer_norm_eps": 0.05}),
    System("distilbert", "BERT without segments", "DistilBertForMaskedLM", DISTILBERT, published=(
        Published("configs/distilbert.py:base", 66_985_530), Published("configs/distilbert.py:base", 66_362_880, without=("head",)))),
    System("distilbert-sinusoidal", "sines and cosines in turn, ReLU", "DistilBertForMaskedLM",
           DISTILBERT | {"sinusoidal_pos_embds": True, "activation": "relu"}),
    System("roformer", "queries and keys rotated, neighbouring pairs", "RoFormerForMaskedLM", BERT, published=(
        Published("configs/roformer.py:base", 124_197_968 - 1536 * 64,
                  note="124,197,968 with the class's table of 1536 x 64 sines and cosines, which is not learned"),)),
    System("electra", "the discriminator, embeddings of another width", "ElectraForPreTraining", ELECTRA, published=(
        Published("configs/electra.py:small", 13_549_057, without=("generator",)), Published("configs/electra.py:base", 109_483_009, without=("generator",)),
        Published("configs/electra.py:large", 335_142_913, without=("generator",)))),
    System("electra-wide", "the discriminator, embeddings as wide as the layers, ReLU, three segments", "ElectraForPreTraining",
           ELECTRA | {"embedding_size": 32, "hidden_act": "relu", "type_vocab_size": 3}),
    System("electra-generator", "a generator: its head is as wide as the embeddings", "ElectraForMaskedLM", ELECTRA, published=(
        Published({"hidden_size": 64, "num_attention_heads": 1, "intermediate_size": 256}, 4_620_026, "ELECTRA small, generator"),)),
    System("modernbert", "pre-norm but for the first attention, local and global layers with their own RoPE, GeGLU, no biases",
           "ModernBertForMaskedLM", MODERNBERT, published=(
               Published("configs/modernbert.py:base", 149_655_232), Published("configs/modernbert.py:large", 395_881_664))),
    System("modernbert-biases", "every layer global, biases everywhere", "ModernBertForMaskedLM",
           MODERNBERT | {"num_hidden_layers": 2, "global_attn_every_n_layers": 1, "attention_bias": True, "mlp_bias": True,
                         "norm_bias": True, "classifier_bias": True, "decoder_bias": True}),
    System("longformer", "a window, and a global token with matrices of its own", "LongformerForMaskedLM", BERT | {"attention_window": 4},
           length=15, published=(Published("configs/longformer.py:base", 148_711_257),)),
    System("longformer-windows", "another window in every other layer, two global tokens", "LongformerForMaskedLM",
           BERT | {"num_hidden_layers": 3, "attention_window": [4, 8, 4]}, {"model.attention.global_tokens": 2}, length=17),
    System("longformer-local", "a window and no global token", "LongformerForMaskedLM", BERT | {"attention_window": 4},
           {"model.attention.global_tokens": 0, "model.attention.global_projections": False}, length=15),
    System("longformer-blocks", "rows that are cut into blocks where they are full", "LongformerForMaskedLM",
           LONG | {"attention_window": 12}, {"model.attention.global_tokens": 3}, length=265),
)  # fmt: skip
