"""Settings of tiny models of classes whose outputs are compared, without gradients: those without a
head, with a head for a task, or with slightly different parameters than a system.
"""

V = 60
BERT = {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 56,
        "max_position_embeddings": 24}  # fmt: skip
ROBERTA = BERT | {"pad_token_id": 1, "type_vocab_size": 1}
ALBERT = BERT | {"embedding_size": 12, "num_hidden_layers": 4, "num_hidden_groups": 2}
# The head for hidden tokens, which these classes lack, allows no other activation than GELU.
ELECTRA = BERT | {"embedding_size": 12, "hidden_act": "relu"}
DISTILBERT = {"vocab_size": V, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 56, "max_position_embeddings": 24}
LLAMA = BERT | {"num_key_value_heads": 2}
GPT = {"vocab_size": V, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 24}
T5 = {"vocab_size": V, "d_model": 32, "d_kv": 8, "d_ff": 56, "num_layers": 2, "num_heads": 4}
LABELS = {"id2label": {0: "a", 1: "b", 2: "c"}, "label2id": {"a": 0, "b": 1, "c": 2}}
GEMMA3 = LLAMA | {"head_dim": 12, "final_logit_softcapping": 2.0, "query_pre_attn_scalar": 20, "sliding_window": 5}
CASES = {
    "BertModel": BERT, "RobertaModel": ROBERTA, "DistilBertModel": DISTILBERT, "LlamaModel": LLAMA, "GPTNeoXModel": BERT,
    "PhiModel": LLAMA,
    "GPTJModel": GPT | {"rotary_dim": 4}, "GPT2Model": GPT,
    "ModernBertModel": {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 40,
                        "local_attention": 4, "pad_token_id": 0},
    "T5EncoderModel": T5, "UMT5EncoderModel": T5, "Qwen2ForCausalLM": LLAMA, "Gemma3ForCausalLM": GEMMA3,
    "CamembertForMaskedLM": ROBERTA,
    "Qwen3ForSequenceClassification": LLAMA | LABELS | {"pad_token_id": 0}, "Qwen3ForTokenClassification": LLAMA | LABELS,
    "Qwen3ForQuestionAnswering": LLAMA, "Glm4Model": LLAMA | {"pad_token_id": 0},
    "BertForSequenceClassification": BERT | LABELS, "RobertaForSequenceClassification": ROBERTA | LABELS,
    "BertForTokenClassification": BERT | LABELS, "DistilBertForTokenClassification": DISTILBERT | LABELS, "BertForQuestionAnswering": BERT,
    "DistilBertForQuestionAnswering": DISTILBERT, "DistilBertForSequenceClassification": DISTILBERT | LABELS,
    "AlbertModel": ALBERT, "AlbertForSequenceClassification": ALBERT | LABELS, "AlbertForTokenClassification": ALBERT | LABELS,
    "AlbertForQuestionAnswering": ALBERT | {"embedding_size": 32},
    "ElectraModel": ELECTRA, "ElectraForSequenceClassification": ELECTRA | LABELS,
    "ElectraForTokenClassification": ELECTRA | LABELS, "ElectraForQuestionAnswering": ELECTRA | {"embedding_size": 32},
}  # fmt: skip
SIZES = {"vocab_size": V, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
# Classes without a head, of families whose class with a head is among the systems.
WITHOUT_HEAD = {
    **dict.fromkeys(("Exaone4Model", "GraniteModel", "OlmoModel", "StableLmModel", "ApertusModel"), LLAMA),
    **dict.fromkeys(("GlmModel", "NemotronModel", "Phi3Model", "CohereModel"), LLAMA | {"pad_token_id": 0}),
    "MinistralModel": LLAMA | {"head_dim": 8, "sliding_window": 5}, "HeliumModel": LLAMA | {"head_dim": 8},
    "OPTModel": SIZES | {"ffn_dim": 56, "word_embed_proj_dim": 32}, "FalconModel": SIZES | {"ffn_hidden_size": 56},
}  # fmt: skip
