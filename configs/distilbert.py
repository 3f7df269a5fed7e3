"""DistilBERT (Sanh et al. 2019): BERT with half the layers, no segments and no pooler.

    python train.py --config=configs/distilbert.py:tiny --workdir=runs/distilbert

Sizes, with the head for masked tokens: base (66,985,530 parameters); tiny and smoke for a CPU.
Stated by the paper (section 3): 6 layers of BERT-base, batches of up to 4000 rows, masks drawn
anew, no next sentence. From the authors' training script: masks that prefer rare tokens, rate 5e-4 after 5 % of the
steps, linear decay, Adam's betas 0.9 and 0.98 and epsilon 1e-6, no weight decay, gradients clipped
at 5, three passes over the text, which are about 6500 updates. What is published was distilled from
BERT and began from every other of its layers, as configs/distill.py does with any run; here the
model is trained on masked tokens alone. The model's 30,522 ids hold [MASK].

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {"base": {"model.dim": 768, "model.num_layers": 6, "model.attention.num_heads": 12}}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder",
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-12,
            "model.position.kind": "learned",
            "model.position.max_length": 512,
            "model.ffn.kind": "gelu",
            "model.tie_embeddings": True,
            "model.head.transform": True,
            "model.head.bias": True,
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "objective.kind": "masked",
            "objective.rare_token_exponent": 0.7,
            "model.vocab_size": 30522,
            "data.tokenizer.kind": "wordpiece",
            "data.tokenizer.vocab_size": 30522,
            "data.sequence_length": 512,
            "data.batch_size": 4000,
            "training.microbatch_size": 100,
            "training.steps": 6500,
            "optimizer.learning_rate": 5e-4,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-6,
            "optimizer.clip_norm": 5.0,
            "schedule.kind": "linear",
            "schedule.warmup_steps": 325,
        },
    )
    return sized(argument, base, SIZES)
