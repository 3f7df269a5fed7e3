"""OPUS-MT (Tiedemann & Thottingal 2020), trained by Marian (Junczys-Dowmunt et al. 2018): the original
Transformer with SiLU, sinusoids in halves, and a bias of the logits.

    python train.py --config=configs/marian.py:tiny --workdir=runs/marian

Sizes: opus-mt (73,944,309 parameters, of which 58,101 are the bias of the logits), the shape of the
published English-German model and, with other vocabularies, of hundreds of other pairs; tiny and
smoke for a CPU. The sines of a position are the first half of its vector and the cosines the second,
where the paper's alternate; the embedding, one for both sides and the head, is multiplied by sqrt(D).
Stated by the authors' training scripts: rate 3e-4 after 16,000 updates, then as 1 / sqrt(update),
betas 0.9 and 0.98, epsilon 1e-9, gradient norm 5, dropout 0.1, label smoothing 0.1, batches as large
as memory allows, and as many updates as help. Batch and updates here are those of the original
base model. The objective here is to continue a text; configs/wmt14.py shows how one translates.

As it stands, opus-mt fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "opus-mt": {"model.dim": 512, "model.num_layers": 6, "model.attention.num_heads": 8, "model.ffn.hidden_dim": 2048}
}


def get_config(argument: str = "opus-mt"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder_decoder",
            "model.embedding.scale": "sqrt_dim",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "sinusoidal",
            "model.position.layout": "half",
            "model.ffn.kind": "silu",
            "model.tie_embeddings": True,
            "model.head.bias": True,
            "model.dropout": 0.1,
            "model.init.kernel": "xavier_uniform",
            "model.dtype": "bfloat16",
            "objective.kind": "prefix",
            "objective.label_smoothing": 0.1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 58101,
            "data.sequence_length": 256,
            "data.batch_size": 200,
            "training.steps": 100_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-9,
            "optimizer.clip_norm": 5.0,
            "schedule.kind": "inverse_sqrt",
            "schedule.warmup_steps": 16_000,
        },
    )
    return sized(argument, base, SIZES)
