"""Claim F1 (Shazeer 2020) on English: SwiGLU beats ReLU and GELU at matched parameters, on WikiText-2
from the Hugging Face hub.

    zoo run experiments/feedforward_wikitext.py
    zoo run experiments/feedforward_wikitext.py:rung2

The arms and rules of `feedforward.py`, on other text: 2 million words of Wikipedia (Merity et al.
2016) instead of Python source. The data set is Salesforce/wikitext, subset wikitext-2-raw-v1, at a
fixed commit. Reading it needs the package `datasets` and, the first time, the network; after that the
library's own cache serves it.

`rung1` is refused. With ReLU, at the rate 0.01 and one seed, a decoder ended there at 1.574 nats,
above a 6-gram model of the same bytes (1.464), so the verdict would be "not testable". The other
sizes below `rung2` serve to try the sweep out.

Stated beforehand, on `eval/loss` at the last step, with the learning rate of each arm tuned: SwiGLU
ends below ReLU, and below GELU (superiority, margin 0).
"""

from dataclasses import replace

from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment, load_experiment
from zoo.lab.planning.other_corpus import on_corpus
from zoo.lab.sizes import sized_name

# The commit of Salesforce/wikitext that is read; the hub's files may change.
COMMIT = "b08601e04326c79dfdd32d625aee71d232d685c3"


def get_experiment(size: str = "tiny") -> Experiment:
    """The arms of `feedforward.py`, on WikiText-2.

    Raises:
        ConfigError: the size is `rung1`.
    """
    if size == "rung1":
        raise ConfigError(
            "a decoder of rung1 ends above a 6-gram model of WikiText-2, so the claim could not be judged; the "
            "smallest rung for it is rung2"
        )
    same = load_experiment(f"feedforward:{size}")
    there = on_corpus(
        same,
        "hf:Salesforce/wikitext",
        {"data.hub.subset": "wikitext-2-raw-v1", "data.hub.revision": COMMIT},
        sized_name("feedforward_wikitext", size),
    )
    return replace(
        there, question="Does a gated feed-forward learn more than a plain one of as many parameters, on English?"
    )
