"""Tasks, and how their heads read a model."""

from zoo.config.kinds.objective_kinds import FEATURES_RESULT
from zoo.variants.variant import Variant

TASK_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "pool-first",
        "task",
        {"model.head.pooling": "first"},
        needs={"objective.kind": "classification", "model.head.classes": 4},
        baseline="encoder",
        equation="scores = v W + b with v = h_0, the state of [CLS].",
        paper="Devlin et al. 2019, section 4.1",
    ),
    Variant(
        "pool-last",
        "task",
        {"model.head.pooling": "last"},
        needs={"objective.kind": "classification", "model.head.classes": 4},
        baseline="encoder",
        equation="scores = v W + b with v = h_n, the state of a row's last token.",
        paper="Radford et al. 2018, section 3.2",
    ),
    Variant(
        "pool-mean",
        "task",
        {"model.head.pooling": "mean"},
        needs={"objective.kind": "classification", "model.head.classes": 4},
        baseline="encoder",
        equation="scores = v W + b with v = (h_0 + ... + h_n) / (n + 1), the mean of the states of all tokens.",
        paper="Reimers & Gurevych 2019, section 3",
    ),
    Variant(
        "tanh-pooler",
        "task",
        {"model.head.pooler_activation": "tanh"},
        needs={"objective.kind": "classification", "model.head.classes": 4, "model.head.pooler": True},
        baseline="encoder",
        equation="scores = v W + b with v = tanh(h_0 W' + b'), h_0 the state of [CLS].",
        paper="Devlin et al. 2019 (BERT's code)",
    ),
    Variant(
        "gelu-pooler",
        "task",
        {"model.head.pooler_activation": "gelu"},
        needs={"objective.kind": "classification", "model.head.classes": 4, "model.head.pooler": True},
        baseline="encoder",
        equation="scores = v W + b with v = gelu(h_0 W' + b'), h_0 the state of [CLS].",
        paper="Clark et al. 2020 (ELECTRA, as in transformers)",
    ),
    Variant(
        "relu-pooler",
        "task",
        {"model.head.pooler_activation": "relu"},
        needs={"objective.kind": "classification", "model.head.classes": 4, "model.head.pooler": True},
        baseline="encoder",
        equation="scores = v W + b with v = relu(h_0 W' + b'), h_0 the state of [CLS].",
        paper="Sanh et al. 2019 (DistilBERT, as in transformers)",
    ),
    Variant(
        "scalar-mix",
        "task",
        {},
        source="zoo.layers.scalar_mix:scalar_mix",
        needs={"objective.kind": "classification", "model.head.classes": 4},
        baseline="elmo",
        equation=(
            "h = gamma * sum_j softmax(w)_j h_j, h_j a token's state after layer j: the vector that a task reads, "
            "with learned numbers gamma and w_j."
        ),
        paper="Peters et al. 2018, eq. 1",
        published=(FEATURES_RESULT,),
    ),
    Variant(
        "normalised-layers",
        "task",
        {"model.elmo.layer_norm": True},
        source="zoo.layers.scalar_mix:normalise_layers",
        needs={"objective.kind": "classification", "model.head.classes": 4},
        baseline="elmo",
        equation=(
            "h_j = (h_j - mean(h_j)) / sqrt(variance(h_j) + 1e-12) for the state of each token after each layer j, "
            "before they are mixed. Nothing is learned."
        ),
        paper="Peters et al. 2018, section 3.2; Ba et al. 2016",
        details=(
            "AllenNLP's `do_layer_norm` takes both moments over all tokens of the batch instead, so that its scores "
            "depend on the rest of the batch.",
        ),
    ),
)
