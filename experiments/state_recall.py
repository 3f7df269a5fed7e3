"""Claim V42 (Arora et al. 2023, Zoology): a state of one size recalls fewer pairs than attention; the
delta rule recalls more than linear attention, and one layer of attention in four repairs the loss.

    zoo run experiments/state_recall.py
    zoo run experiments/state_recall.py:small

The task, the sizes and the measure are those of `multi_query_recall.py`. Arms have softmax
attention with RoPE in every layer, linear attention, Gated DeltaNet, or three layers of linear
attention before one of softmax attention. Each arm uses its best learning rate, fitted with
separate seeds by `eval/loss`. The first archived runs were scored on the last digit, which a
model can infer by elimination from the digits before it; after that had been noticed they were
repeated at the rates fitted then.

Stated beforehand, on `measured/probe_multi_query_recall` at the last step, the share of 1,024 new
documents whose first digit asked for is right (0.38 for the most frequent digit of four pairs):

* The share of softmax attention is more than 0.05 above that of linear attention (superiority).
* The share of Gated DeltaNet is more than 0.05 above that of linear attention (superiority).
* The share of the hybrid is at most 0.05 below that of softmax attention (non-inferiority).
"""

from pathlib import Path

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name, whole_patterns

TASK = config.import_file(Path(__file__).with_name("multi_query_recall.py"), "experiment file")
MARGIN, METRIC = TASK.MARGIN, TASK.METRIC
LINEAR = {"model.attention.kind": "linear", "model.position.kind": "none"}
HYBRID = {
    "model.layers.pattern": ("state", "state", "state", "full"),
    "model.layers.kinds.full.attention.kind": "softmax",
    **{path.replace("model.", "model.layers.kinds.state.", 1): value for path, value in LINEAR.items()},
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention, linear attention, Gated DeltaNet and a hybrid."""

    def share(mixing: str) -> Side:
        return Side({"mixing": mixing}, METRIC)

    linear, softmax = share("linear"), share("softmax")
    changes = TASK.TINY if size == "tiny" else TASK.OTHER_SIZES
    return Experiment(
        name=sized_name("state_recall", size),
        question="How much of what attention recalls does a state of one size recall?",
        base=decoder(size, changes | whole_patterns(size, len(HYBRID["model.layers.pattern"]))),
        factors={
            "mixing": {
                "softmax": {},
                "linear": LINEAR,
                "gated delta": {"model.attention.kind": "gated_delta", "model.position.kind": "none"},
                "hybrid": HYBRID,
            }
        },
        allow=("parameters", "flops"),
        tune=rates(size, 0.06, 0.16, 0.4, 1),
        claim=Claim(
            "V42",
            "A state of one size recalls less than attention, the delta rule more than linear attention, and one layer "
            "of attention in four as much as attention in every layer",
            "Arora et al. 2023, Zoology; Yang et al. 2024, Gated DeltaNet",
        ),
        contrasts=(
            Contrast(
                "attention recalls more than linear attention",
                a=softmax,
                b=linear,
                rule="superiority",
                margin=MARGIN,
                expected=f"softmax attention recalls more than {MARGIN} more than linear attention",
            ),
            Contrast(
                "the delta rule recalls more than linear attention",
                a=share("gated delta"),
                b=linear,
                rule="superiority",
                margin=MARGIN,
                expected=f"Gated DeltaNet recalls more than {MARGIN} more than linear attention",
            ),
            Contrast(
                "one layer of attention repairs it",
                a=share("hybrid"),
                b=softmax,
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"the hybrid recalls at most {MARGIN} less than softmax attention",
            ),
        ),
        size=size,
    )
