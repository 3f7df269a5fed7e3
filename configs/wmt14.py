"""The translation models of Vaswani et al. 2017, English to German, on WMT14 from the Hugging Face hub.

    python train.py --config=configs/wmt14.py:base --workdir=runs/wmt14
    zoo average runs/wmt14 --last 5 --out runs/wmt14-averaged
    python eval.py runs/wmt14-averaged --translate --pairs split:test

    python train.py --config=configs/wmt14.py:tiny --workdir=runs/translation

Sizes: base (63,082,496 parameters) and big (214,245,376); tiny and smoke for a CPU, on dates without a
download. The data set is wmt/wmt14, subset de-en, at a fixed commit: 4.5 million pairs, and newstest2013
as its validation split. Reading it needs the package `datasets` and, the first time, the network.

Stated by the paper (sections 5 and 6.1, Table 3): one vocabulary of 37,000 byte pairs for both sides,
about 25,000 source and 25,000 target tokens per batch, 100,000 and 300,000 steps, Adam with betas 0.9
and 0.98 and epsilon 1e-9, 4,000 steps of warm-up, dropout 0.1 and 0.3, label smoothing 0.1, the last 5
(base) or 20 (big) checkpoints averaged, 4 beams, length penalty 0.6. BLEU on newstest2014: 27.3 and
28.4. The model is that of `configs/transformer.py`. The paper's penalty divides log p by
((5 + length) / 6)^0.6, the one here by length^0.6; its scores are of tokenised text, those of
`eval.py` sacrebleu's of plain text.

As it stands, base fits on 4 h100, by `zoo plan`.
"""

from zoo.config import load, override, sized

SIZES = {"base": {}, "big": {}}
# The commit of wmt/wmt14 that is read; the hub's files may change.
COMMIT = "b199e406369ec1b7634206d3ded5ba45de2fe696"


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    size = argument.partition(",")[0]
    model = load(f"transformer:{size if size in SIZES else 'base'}")
    base = override(
        model,
        {
            "objective.kind": "translation",
            "objective.beams": 4,
            "objective.length_penalty": 0.6,
            "data.source": "hf:wmt/wmt14",
            "data.hub.subset": "de-en",
            "data.hub.revision": COMMIT,
            "data.held_out": "split:validation",
            "data.source_column": "translation.en",
            "data.target_column": "translation.de",
            "data.sequence_length": 128,
            # 196 x 128 = 25,088 places on either side of a batch.
            "data.batch_size": 196,
            "data.buckets": 8,
            "training.eval_batches": 0,
            "training.keep_checkpoints": 20 if size == "big" else 5,
        },
    )
    return sized(argument, base, SIZES)
