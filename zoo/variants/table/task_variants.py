"""Tasks, and how their heads read a model."""

from zoo.variants.table.entry import choice, numpy_reference
from zoo.variants.variant import ReferenceTest, Variant

CLASSES = {"objective.kind": "classification", "model.head.classes": 4}
ROWS_ALONE = numpy_reference("objectives/test_classification.py::test_loss_equals_that_of_each_row_alone")
HUGGING_FACE = ReferenceTest(
    "...ForSequenceClassification of transformers",
    "tests/parity/models/test_published_classes.py::test_outputs_match_the_class_and_weights_round_trip",
    1e-4,
)


TASK_VARIANTS: tuple[Variant, ...] = (
    choice(
        "objective.kind",
        "classification",
        "task",
        more={"model.head.classes": 4},
        source="zoo.objectives.tasks.classification:ClassificationObjective",
        baseline="encoder",
        tests=(ROWS_ALONE,),
    ),
    choice(
        "objective.kind",
        "regression",
        "task",
        source="zoo.objectives.tasks.classification:RegressionObjective",
        baseline="encoder",
        tests=(ROWS_ALONE,),
    ),
    choice(
        "objective.kind",
        "tagging",
        "task",
        more={"model.head.classes": 4},
        source="zoo.objectives.tasks.tagging:TaggingObjective",
        baseline="encoder",
        tests=(numpy_reference("objectives/test_spans_of_text.py::test_loss_equals_that_of_each_row_alone"),),
    ),
    choice(
        "objective.kind",
        "extraction",
        "task",
        source="zoo.objectives.tasks.extraction:ExtractionObjective",
        baseline="encoder",
        tests=(numpy_reference("objectives/test_spans_of_text.py::test_loss_equals_that_of_each_row_alone"),),
    ),
    *(
        choice(
            "model.head.pooling",
            kind,
            "task",
            f"pool-{kind}",
            CLASSES,
            baseline="encoder",
            paper=paper,
            equation=equation,
            tests=(ROWS_ALONE,),
        )
        for kind, paper, equation in (
            ("first", "Devlin et al. 2019, section 4.1", "scores = v W + b with v = h_0, the state of [CLS]."),
            (
                "last",
                "Radford et al. 2018, section 3.2",
                "scores = v W + b with v = h_n, the state of a row's last token.",
            ),
            (
                "mean",
                "Reimers & Gurevych 2019, section 3",
                "scores = v W + b with v = (h_0 + ... + h_n) / (n + 1), the mean of the states of all tokens.",
            ),
        )
    ),
    *(
        choice(
            "model.head.pooler_activation",
            name,
            "task",
            f"{name}-pooler",
            CLASSES | {"model.head.pooler": True},
            baseline="encoder",
            paper=paper,
            equation=f"scores = v W + b with v = {name}(h_0 W' + b'), h_0 the state of [CLS].",
            tests=(ROWS_ALONE, HUGGING_FACE),
        )
        for name, paper in (
            ("tanh", "Devlin et al. 2019 (BERT's code)"),
            ("gelu", "Clark et al. 2020 (ELECTRA, as in transformers)"),
            ("relu", "Sanh et al. 2019 (DistilBERT, as in transformers)"),
        )
    ),
    Variant(
        "scalar-mix",
        "task",
        CLASSES,
        source="zoo.layers.scalar_mix:scalar_mix",
        equation=(
            "h = gamma * sum_j softmax(w)_j h_j, h_j a token's state after layer j: the vector that a task reads, with "
            "learned numbers gamma and w_j."
        ),
        paper="Peters et al. 2018, eq. 1",
        baseline="elmo",
        tests=(
            numpy_reference("layers/test_scalar_mix.py::test_mixture_matches_its_equation"),
            numpy_reference("models/test_elmo_features.py::test_scores_equal_the_mixture_computed_by_hand"),
        ),
    ),
    choice(
        "model.elmo.layer_norm",
        True,
        "task",
        "normalised-layers",
        CLASSES,
        source="zoo.layers.scalar_mix:normalise_layers",
        equation=(
            "h_j = (h_j - mean(h_j)) / sqrt(variance(h_j) + 1e-12) for the state of each token after each layer j, "
            "before they are mixed. Nothing is learned."
        ),
        paper="Peters et al. 2018, section 3.2; Ba et al. 2016",
        details=(
            "AllenNLP's `do_layer_norm` takes both moments over all tokens of the batch instead, so that its scores "
            "depend on the rest of the batch.",
        ),
        baseline="elmo",
        tests=(numpy_reference("models/test_elmo_features.py::test_scores_equal_the_mixture_computed_by_hand"),),
    ),
)
