"""Comparisons of something other than whole models with random weights: parts of models, a loss term,
published states.
"""

from tests.parity.systems.record import Comparison

COMPARISONS = (
    Comparison("shaw-attention", "one layer's attention with vectors for keys and values, no distance clipped", "VitsAttention",
               "tests.parity.parts.test_shaw"),
    Comparison("sinks", "one layer's attention with a sink per head, with and without a window", "GptOssAttention",
               "tests.parity.parts.test_sinks"),
    Comparison("earlier-keys", "two layers of attention, the second with the keys and values of the first, with and without a window",
               "Gemma3nTextAttention", "tests.parity.parts.test_earlier_keys"),
    Comparison("feed-forwards", "one layer: squared ReLU, xIELU, and an expert's clamped SwiGLU beyond its bounds",
               "ArceeMLP, ApertusMLP and GptOssExperts", "tests.parity.parts.test_feed_forwards"),
    Comparison("output-gate", "one layer's attention with a gate for each element, QK-norm, partial RoPE", "Qwen3NextAttention",
               "tests.parity.parts.test_output_gate"),
    Comparison("latent", "one layer's latent attention, with and without latent queries", "DeepseekV3Attention",
               "tests.parity.parts.test_latent"),
    Comparison("recurrences", "one layer each: Gated DeltaNet, Mamba-2, lightning attention, a gated convolution, rows of several chunks",
               "Qwen3NextGatedDeltaNet, Mamba2Mixer, MiniMaxLightningAttention and Lfm2ShortConv", "tests.parity.parts.test_recurrences"),
    Comparison("flash-linear-attention", "six recurrences, with and without decays and a delta rule, token by token and in chunks, from a "
               "state; attention over depth", "the naive functions of fla.ops", "tests.parity.parts.test_flash_linear_attention"),
    Comparison("parallel-heads", "one layer: attention and Mamba-2 of other sizes side by side, SwiGLU, rows of several chunks",
               "FalconH1DecoderLayer", "tests.parity.parts.test_parallel_heads"),
    Comparison("hyper-connections", "the streams around one sublayer, static, dynamic and doubly stochastic, 4 streams",
               "HyperConnections and ManifoldConstrainedHyperConnections", "tests.parity.parts.test_hyper_connections"),
    Comparison("cosine", "one layer's attention by cosines, with a learned factor for each head", "Swinv2SelfAttention",
               "tests.parity.parts.test_cosine"),
    Comparison("softmax-plus-one", "one layer's attention with 1 more in the denominator", "MultiheadAttention(add_zero_attn=True) of torch.nn",
               "tests.parity.parts.test_softmax_plus_one"),
    Comparison("completep", "a LLaMA with CompleteP's factors on scores, sublayers and logits, tied and untied", "GraniteForCausalLM",
               "tests.parity.parts.test_parametrization"),
    Comparison("z-loss", "a loss: cross-entropy and the squared logarithm of its normaliser",
               "router_z_loss_func beside torch's cross_entropy", "tests.parity.parts.test_z_loss"),
    Comparison("elmo-published", "the authors' small models, clipped, with and without a skip connection: states of 30 sentences each",
               "files of states in the tests of AllenNLP and bilm-tf", "tests.parity.models.test_elmo_published"),
    Comparison("bert-published", "all-MiniLM-L6-v2, imported: every hidden state, the pooler, and the vectors of three sentences",
               "a file of states, of BertModel", "tests.interop.families.test_minilm"),
    Comparison("fairseq-published", "a trained translation model, pre-norm, two embeddings, imported: the encoder's states and the "
               "log-probabilities of three targets", "a file of states, of fairseq's transformer", "tests.interop.families.test_fairseq_published"),
)  # fmt: skip
