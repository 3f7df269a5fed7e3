"""Papers that the pages of variants cite, with title and link."""

import re
from collections.abc import Iterable

from zoo.config.kinds import Paper

PAPERS = (
    Paper(
        "Abdin et al. 2024",
        "Phi-3 Technical Report: A Highly Capable Language Model Locally on Your Phone",
        "arXiv:2404.14219",
    ),
    Paper(
        "Ainslie et al. 2023",
        "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
        "arXiv:2305.13245",
    ),
    Paper(
        "Allen-Zhu 2025",
        "Physics of Language Models: Part 4.1, Architecture Design and the Magic of Canon Layers",
        "arXiv:2512.17351",
    ),
    Paper("Ba et al. 2016", "Layer Normalization", "arXiv:1607.06450"),
    Paper("Bachlechner et al. 2020", "ReZero is All You Need: Fast Convergence at Large Depth", "arXiv:2003.04887"),
    Paper(
        "Barbero et al. 2024",
        "Round and Round We Go! What makes Rotary Positional Encodings useful?",
        "arXiv:2410.06205",
    ),
    Paper("Bellagente et al. 2024", "Stable LM 2 1.6B Technical Report", "arXiv:2402.17834"),
    Paper("Beltagy et al. 2020", "Longformer: The Long-Document Transformer", "arXiv:2004.05150"),
    Paper("Black et al. 2022", "GPT-NeoX-20B: An Open-Source Autoregressive Language Model", "arXiv:2204.06745"),
    Paper(
        "Brandon et al. 2024",
        "Reducing Transformer Key-Value Cache Size with Cross-Layer Attention",
        "arXiv:2405.12981",
    ),
    Paper(
        "Chen et al. 2023",
        "Extending Context Window of Large Language Models via Positional Interpolation",
        "arXiv:2306.15595",
    ),
    Paper("Chen et al. 2025", "Stronger Normalization-Free Transformers", "arXiv:2512.10938"),
    Paper("Choromanski et al. 2021", "Rethinking Attention with Performers", "arXiv:2009.14794"),
    Paper("Chowdhery et al. 2022", "PaLM: Scaling Language Modeling with Pathways", "arXiv:2204.02311"),
    Paper(
        "Chung et al. 2023",
        "UniMax: Fairer and more Effective Language Sampling for Large-Scale Multilingual Pretraining",
        "arXiv:2304.09151",
    ),
    Paper(
        "Clark et al. 2020",
        "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
        "arXiv:2003.10555",
    ),
    Paper(
        "Dai et al. 2024",
        "DeepSeekMoE: Towards Ultimate Expert Specialization in Mixture-of-Experts Language Models",
        "arXiv:2401.06066",
    ),
    Paper(
        "Dao & Gu 2024",
        "Transformers are SSMs: Generalized Models and Efficient Algorithms Through Structured State Space Duality",
        "arXiv:2405.21060",
    ),
    Paper(
        "DeepSeek-AI 2024",
        "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model",
        "arXiv:2405.04434",
    ),
    Paper("DeepSeek-AI 2024b", "DeepSeek-V3 Technical Report", "arXiv:2412.19437"),
    Paper("Dehghani et al. 2019", "Universal Transformers", "arXiv:1807.03819"),
    Paper("Dehghani et al. 2023", "Scaling Vision Transformers to 22 Billion Parameters", "arXiv:2302.05442"),
    Paper(
        "Devlin et al. 2019",
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
        "arXiv:1810.04805",
    ),
    Paper("Ding et al. 2021", "CogView: Mastering Text-to-Image Generation via Transformers", "arXiv:2105.13290"),
    Paper("Ding et al. 2024", "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", "arXiv:2402.13753"),
    Paper("Dong et al. 2024", "Hymba: A Hybrid-head Architecture for Small Language Models", "arXiv:2411.13676"),
    Paper(
        "Fedus et al. 2021",
        "Switch Transformers: Scaling to Trillion Parameter Models with Simple and Efficient Sparsity",
        "arXiv:2101.03961",
    ),
    Paper(
        "Geiping et al. 2025",
        "Scaling up Test-Time Compute with Latent Reasoning: A Recurrent Depth Approach",
        "arXiv:2502.05171",
    ),
    Paper("Gehring et al. 2017", "Convolutional Sequence to Sequence Learning", "arXiv:1705.03122"),
    Paper(
        "Gemma Team 2024 (Gemma 2)", "Gemma 2: Improving Open Language Models at a Practical Size", "arXiv:2408.00118"
    ),
    Paper("Gemma Team 2024 (Gemma)", "Gemma: Open Models Based on Gemini Research and Technology", "arXiv:2403.08295"),
    Paper("Gemma Team 2025 (Gemma 3n)", "Gemma 3n", "https://ai.google.dev/gemma/docs/gemma-3n"),
    Paper(
        "GLM Team 2024",
        "ChatGLM: A Family of Large Language Models from GLM-130B to GLM-4 All Tools",
        "arXiv:2406.12793",
    ),
    Paper(
        "Gloeckle et al. 2024", "Better & Faster Large Language Models via Multi-token Prediction", "arXiv:2404.19737"
    ),
    Paper(
        "Granite Team 2024", "Granite 3.0 Language Models", "https://github.com/ibm-granite/granite-3.0-language-models"
    ),
    Paper("Grattafiori et al. 2024", "The Llama 3 Herd of Models", "arXiv:2407.21783"),
    Paper(
        "Grazzi et al. 2024", "Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues", "arXiv:2411.12537"
    ),
    Paper("Groeneveld et al. 2024", "OLMo: Accelerating the Science of Language Models", "arXiv:2402.00838"),
    Paper(
        "Haviv et al. 2022",
        "Transformer Language Models without Positional Encodings Still Learn Positional Information",
        "arXiv:2203.16634",
    ),
    Paper("Hendrycks & Gimpel 2016", "Gaussian Error Linear Units (GELUs)", "arXiv:1606.08415"),
    Paper("Henry et al. 2020", "Query-Key Normalization for Transformers", "arXiv:2010.04245"),
    Paper("Huang & Schlag 2024", "Deriving Activation Functions Using Integration", "arXiv:2411.13010"),
    Paper(
        "Ioffe & Szegedy 2015",
        "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
        "arXiv:1502.03167",
    ),
    Paper("Jiang et al. 2023", "Mistral 7B", "arXiv:2310.06825"),
    Paper("Jordan et al. 2024", "modded-nanogpt", "https://github.com/KellerJordan/modded-nanogpt"),
    Paper("Karpathy 2025", "nanochat", "https://github.com/karpathy/nanochat"),
    Paper("Karpathy 2026", "nanochat", "https://github.com/karpathy/nanochat"),
    Paper(
        "Katharopoulos et al. 2020",
        "Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention",
        "arXiv:2006.16236",
    ),
    Paper(
        "Kazemnejad et al. 2023",
        "The Impact of Positional Encoding on Length Generalization in Transformers",
        "arXiv:2305.19466",
    ),
    Paper("Kim et al. 2016", "Character-Aware Neural Language Models", "arXiv:1508.06615"),
    Paper(
        "Kim et al. 2025", "Peri-LN: Revisiting Normalization Layer in the Transformer Architecture", "arXiv:2502.02732"
    ),
    Paper("Kimi Team 2025", "Kimi Linear: An Expressive, Efficient Attention Architecture", "arXiv:2510.26692"),
    Paper("Kimi Team 2026", "Attention Residuals", "arXiv:2603.15031"),
    Paper(
        "Lan et al. 2020",
        "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations",
        "arXiv:1909.11942",
    ),
    Paper("Le Scao et al. 2022", "BLOOM: A 176B-Parameter Open-Access Multilingual Language Model", "arXiv:2211.05100"),
    Paper("Lin et al. 2025", "Forgetting Transformer: Softmax Attention with a Forget Gate", "arXiv:2503.02130"),
    Paper("Liquid AI 2025", "LFM2 Technical Report", "arXiv:2511.23404"),
    Paper("Liu et al. 2019", "RoBERTa: A Robustly Optimized BERT Pretraining Approach", "arXiv:1907.11692"),
    Paper("Liu et al. 2021", "Swin Transformer V2: Scaling Up Capacity and Resolution", "arXiv:2111.09883"),
    Paper("Liu et al. 2022", "Swin Transformer V2: Scaling Up Capacity and Resolution", "arXiv:2111.09883"),
    Paper(
        "Loshchilov et al. 2024",
        "nGPT: Normalized Transformer with Representation Learning on the Hypersphere",
        "arXiv:2410.01131",
    ),
    Paper(
        "Maas et al. 2013",
        "Rectifier Nonlinearities Improve Neural Network Acoustic Models",
        "https://ai.stanford.edu/~amaas/papers/relu_hybrid_icml2013_final.pdf",
    ),
    Paper("Miller 2023", "Attention Is Off By One", "https://www.evanmiller.org/attention-is-off-by-one.html"),
    Paper("Nakanishi 2025", "Scalable-Softmax Is Superior for Attention", "arXiv:2501.19399"),
    Paper("OLMo Team 2025", "2 OLMo 2 Furious", "arXiv:2501.00656"),
    Paper("OpenAI 2025", "gpt-oss-120b & gpt-oss-20b Model Card", "arXiv:2508.10925"),
    Paper("Ott et al. 2019", "fairseq: A Fast, Extensible Toolkit for Sequence Modeling", "arXiv:1904.01038"),
    Paper("MiniMax 2025", "MiniMax-01: Scaling Foundation Models with Lightning Attention", "arXiv:2501.08313"),
    Paper("Muennighoff et al. 2024", "OLMoE: Open Mixture-of-Experts Language Models", "arXiv:2409.02060"),
    Paper(
        "Ou et al. 2024",
        "Your Absorbing Discrete Diffusion Secretly Models the Conditional Distributions of Clean Data",
        "arXiv:2406.03736",
    ),
    Paper("Parmar et al. 2024", "Nemotron-4 15B Technical Report", "arXiv:2402.16819"),
    Paper("Peng 2021", "RWKV-LM", "https://github.com/BlinkDL/RWKV-LM"),
    Paper("Peng et al. 2023", "YaRN: Efficient Context Window Extension of Large Language Models", "arXiv:2309.00071"),
    Paper("Peng et al. 2025", 'RWKV-7 "Goose" with Expressive Dynamic State Evolution', "arXiv:2503.14456"),
    Paper(
        "Penedo et al. 2023",
        "The RefinedWeb Dataset for Falcon LLM: Outperforming Curated Corpora with Web Data, and Web Data Only",
        "arXiv:2306.01116",
    ),
    Paper(
        "Pagliardini et al. 2024",
        "DenseFormer: Enhancing Information Flow in Transformers via Depth Weighted Averaging",
        "arXiv:2402.02622",
    ),
    Paper("Peters et al. 2018", "Deep contextualized word representations", "arXiv:1802.05365"),
    Paper(
        "Nguyen & Salazar 2019",
        "Transformers without Tears: Improving the Normalization of Self-Attention",
        "arXiv:1910.05895",
    ),
    Paper("Press & Wolf 2017", "Using the Output Embedding to Improve Language Models", "arXiv:1608.05859"),
    Paper(
        "Press et al. 2021",
        "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
        "arXiv:2108.12409",
    ),
    Paper("Qin et al. 2024", "HGRN2: Gated Linear RNNs with State Expansion", "arXiv:2404.07904"),
    Paper(
        "Qiu et al. 2025",
        "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free",
        "arXiv:2505.06708",
    ),
    Paper(
        "Qiu et al. 2026",
        "A Unified View of Attention and Residual Sinks: Outlier-Driven Rescaling is Essential for Transformer "
        "Training",
        "arXiv:2601.22966",
    ),
    Paper(
        "Qwen Team 2024",
        "Qwen1.5-MoE: Matching 7B Model Performance with 1/3 Activated Parameters",
        "https://qwenlm.github.io/blog/qwen-moe/",
    ),
    Paper(
        "Qwen Team 2025",
        "Qwen3-Next: Towards Ultimate Training & Inference Efficiency",
        "https://qwen.ai/blog?id=qwen3-next",
    ),
    Paper(
        "Radford et al. 2018",
        "Improving Language Understanding by Generative Pre-Training",
        "https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf",
    ),
    Paper(
        "Raffel et al. 2020",
        "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
        "arXiv:1910.10683",
    ),
    Paper(
        "Ramapuram et al. 2024", "Theory, Analysis, and Best Practices for Sigmoid Self-Attention", "arXiv:2409.04431"
    ),
    Paper(
        "Reimers & Gurevych 2019", "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks", "arXiv:1908.10084"
    ),
    Paper(
        "Ronneberger et al. 2015", "U-Net: Convolutional Networks for Biomedical Image Segmentation", "arXiv:1505.04597"
    ),
    Paper("Sahoo et al. 2024", "Simple and Effective Masked Diffusion Language Models", "arXiv:2406.07524"),
    Paper(
        "Sak et al. 2014",
        "Long Short-Term Memory Based Recurrent Neural Network Architectures for Large Vocabulary Speech Recognition",
        "arXiv:1402.1128",
    ),
    Paper(
        "Sanh et al. 2019",
        "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
        "arXiv:1910.01108",
    ),
    Paper("Schlag et al. 2021", "Linear Transformers Are Secretly Fast Weight Programmers", "arXiv:2102.11174"),
    Paper("Shaw et al. 2018", "Self-Attention with Relative Position Representations", "arXiv:1803.02155"),
    Paper("Shazeer 2019", "Fast Transformer Decoding: One Write-Head is All You Need", "arXiv:1911.02150"),
    Paper("Shazeer 2020", "GLU Variants Improve Transformer", "arXiv:2002.05202"),
    Paper(
        "Shazeer et al. 2017",
        "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer",
        "arXiv:1701.06538",
    ),
    Paper("Shazeer et al. 2020", "Talking-Heads Attention", "arXiv:2003.02436"),
    Paper("So et al. 2021", "Primer: Searching for Efficient Transformers for Language Modeling", "arXiv:2109.08668"),
    Paper("Su et al. 2021", "RoFormer: Enhanced Transformer with Rotary Position Embedding", "arXiv:2104.09864"),
    Paper(
        "Sun et al. 2023", "Retentive Network: A Successor to Transformer for Large Language Models", "arXiv:2307.08621"
    ),
    Paper(
        "Sun et al. 2024", "You Only Cache Once: Decoder-Decoder Architectures for Language Models", "arXiv:2405.05254"
    ),
    Paper("Sun et al. 2025", "The Curse of Depth in Large Language Models", "arXiv:2502.05795"),
    Paper("Sutskever et al. 2014", "Sequence to Sequence Learning with Neural Networks", "arXiv:1409.3215"),
    Paper("Szegedy et al. 2016", "Rethinking the Inception Architecture for Computer Vision", "arXiv:1512.00567"),
    Paper("Takase & Kiyono 2021", "Lessons on Parameter Sharing across Layers in Transformers", "arXiv:2104.06022"),
    Paper("Touvron et al. 2021", "Going deeper with Image Transformers", "arXiv:2103.17239"),
    Paper("Touvron et al. 2023", "LLaMA: Open and Efficient Foundation Language Models", "arXiv:2302.13971"),
    Paper("Vaswani et al. 2017", "Attention Is All You Need", "arXiv:1706.03762"),
    Paper(
        "Wang & Komatsuzaki 2021",
        "Mesh Transformer JAX (GPT-J-6B)",
        "https://github.com/kingoflolz/mesh-transformer-jax",
    ),
    Paper("Wang et al. 2022", "DeepNet: Scaling Transformers to 1,000 Layers", "arXiv:2203.00555"),
    Paper("Wang et al. 2024", "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", "arXiv:2408.15664"),
    Paper(
        "Warner et al. 2024",
        "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory Efficient, and Long Context "
        "Finetuning and Inference",
        "arXiv:2412.13663",
    ),
    Paper("Xiao et al. 2023", "Efficient Streaming Language Models with Attention Sinks", "arXiv:2309.17453"),
    Paper(
        "Xiao et al. 2025",
        "MUDDFormer: Breaking Residual Bottlenecks in Transformers via Multiway Dynamic Dense Connections",
        "arXiv:2502.12170",
    ),
    Paper("Xie et al. 2023", "ResiDual: Transformer with Dual Residual Connections", "arXiv:2304.14802"),
    Paper("Xie et al. 2025", "mHC: Manifold-Constrained Hyper-Connections", "arXiv:2512.24880"),
    Paper("Xiong et al. 2020", "On Layer Normalization in the Transformer Architecture", "arXiv:2002.04745"),
    Paper("Xu et al. 2019", "Understanding and Improving Layer Normalization", "arXiv:1911.07013"),
    Paper(
        "Yang et al. 2022",
        "Tensor Programs V: Tuning Large Neural Networks via Zero-Shot Hyperparameter Transfer",
        "arXiv:2203.03466",
    ),
    Paper(
        "Yang et al. 2023", "Gated Linear Attention Transformers with Hardware-Efficient Training", "arXiv:2312.06635"
    ),
    Paper("Yang et al. 2024a", "Gated Delta Networks: Improving Mamba2 with Delta Rule", "arXiv:2412.06464"),
    Paper(
        "Yang et al. 2024b",
        "Parallelizing Linear Transformers with the Delta Rule over Sequence Length",
        "arXiv:2406.06484",
    ),
    Paper("Yang et al. 2024c", "Looped Transformers are Better at Learning Learning Algorithms", "arXiv:2311.12424"),
    Paper("Yang et al. 2025", "Rope to Nope and Back Again: A New Hybrid Attention Strategy", "arXiv:2501.18795"),
    Paper("Ye et al. 2024", "Differential Transformer", "arXiv:2410.05258"),
    Paper("Zhai 2026", "Exclusive Self Attention", "arXiv:2603.09078"),
    Paper("Zhang & Sennrich 2019", "Root Mean Square Layer Normalization", "arXiv:1910.07467"),
    Paper("Zhang et al. 2019", "Fixup Initialization: Residual Learning Without Normalization", "arXiv:1901.09321"),
    Paper("Zhang et al. 2022", "OPT: Open Pre-trained Transformer Language Models", "arXiv:2205.01068"),
    Paper("Zhou et al. 2022", "Mixture-of-Experts with Expert Choice Routing", "arXiv:2202.09368"),
    Paper("Zhou et al. 2024", "Value Residual Learning", "arXiv:2410.17897"),
    Paper("Zhu et al. 2024", "Hyper-Connections", "arXiv:2409.19606"),
    Paper("Zhu et al. 2025", "Transformers without Normalization", "arXiv:2503.10622"),
    Paper(
        "Zuo et al. 2025",
        "Falcon-H1: A Family of Hybrid-Head Language Models Redefining Efficiency and Performance",
        "arXiv:2507.22448",
    ),
)


def cited(text: str, more: Iterable[Paper] = ()) -> list[Paper]:
    """Returns the papers that a text names, in its order.

    Args:
        text: "Su et al. 2021, eq. 34; GPT-J's code".
        more: papers beside those of the table.
    """
    by_name = {paper.name: paper for paper in (*PAPERS, *more)}
    # A name may begin with another one.
    names = "|".join(re.escape(name) for name in sorted(by_name, key=len, reverse=True))
    return [by_name[name] for name in dict.fromkeys(re.findall(rf"(?<![\w-])(?:{names})(?!\d)", text))]
