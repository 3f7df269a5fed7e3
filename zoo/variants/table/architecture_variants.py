"""Architectures, and the objectives that they are trained for."""

from zoo.config.kinds.objective_kinds import OBJECTIVES_RESULT
from zoo.variants.variant import Variant

_DIRECTIONS_RESULT = (
    "Devlin et al. 2019, table 5, both without next sentences, MNLI, MRPC, SQuAD F1: encoder with masks 83.9, 86.5, "
    "87.9; left to right 82.1, 77.5, 77.8."
)

_DRAWN = (
    "The number depends on the seed and the step, and is the same for all rows, micro-batches and devices; it is "
    "recorded as `train/loops`. Evaluation has r turns, or `model.layers.eval_loops`.",
    "Operations are counted for r turns. An update runs as many as it draws, but what the backward pass keeps is "
    "allocated, and set to 0, for the largest number; with `model.remat=full` that is little. Where several runs are "
    "trained by one program with `vmap`, each draws a number of its own, and all compute the largest.",
    "All turns are differentiated; Geiping et al. 2025 differentiate the last eight.",
)

ARCHITECTURE_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "decoder",
        "architecture",
        {"model.architecture": "decoder"},
        equation="h = Blocks(E[tokens]), where query t sees the keys s <= t.",
        paper="Radford et al. 2018 (GPT)",
        published=(_DIRECTIONS_RESULT, OBJECTIVES_RESULT),
        claims=("O12",),
        picture="mask",
    ),
    Variant(
        "shared-layers",
        "architecture",
        {"model.layers.distinct": 1, "model.layers.sharing": "sequence"},
        equation=(
            "x_l = f(x_{l-1}) for l = 1 ... L, with one layer f and one set of weights. The gradient of a weight is "
            "the sum over its L uses."
        ),
        paper="Lan et al. 2020, section 3.1 (ALBERT); Dehghani et al. 2019 (Universal Transformer, which also halts)",
        details=(
            "With n = `model.layers.distinct` layer l, counted from 0, has the weights of stored layer floor(l n / "
            "L). Operations, activations and the cache are those of L layers; parameters, gradients and the state "
            "of the optimizer are those of n. Dropout differs from layer to layer.",
        ),
    ),
    Variant(
        "looped-layers",
        "architecture",
        {"model.layers.sharing": "cycle"},
        needs={"model.layers.distinct": 2},
        equation=(
            "x = coda(core(core(... core(prelude(x))))), with r applications of the core: L = P + r R + C layers are "
            "applied and n = P + R + C stored, P the number of layers in the prelude, R the number in the core, C the "
            "number in the coda."
        ),
        paper=(
            "Dehghani et al. 2019 (Universal Transformer); Takase & Kiyono 2021 (CYCLE); Geiping et al. 2025, section "
            "3, for prelude, core and coda"
        ),
        details=(
            "`model.num_layers` is L, and `model.layers.distinct` n; P and C are `model.layers.prelude` and "
            "`model.layers.coda`. So a loop has the parameters of a decoder with `model.num_layers=n`, and the "
            "operations of one with `model.num_layers=L`.",
            "`model.layers.eval_loops` is the number of turns in evaluation and generation. Such a model computes what "
            "one with as many turns computes; its cache has the layers of all turns.",
        ),
        synonyms=("looped-transformer", "recurrent-depth", "universal-transformer"),
    ),
    Variant(
        "input-reinjection",
        "architecture",
        {"model.layers.reinjection": True},
        needs={"model.layers.distinct": 2, "model.layers.sharing": "cycle"},
        equation="x_{i+1} = core(x_i + e) and x_0 = 0, where e is the output of the prelude.",
        paper="Yang et al. 2024c",
        details=(
            "In Geiping et al. 2025 the core reads x_i and e through a matrix, and x_0 is noise. "
            "`model.norm.placement=x0_shortcut` adds what enters the first layer before every layer, times a learned "
            "number.",
        ),
        synonyms=("input-injection",),
    ),
    Variant(
        "poisson-loops",
        "architecture",
        {"model.layers.loop_draws": "poisson"},
        needs={"model.layers.distinct": 2, "model.layers.sharing": "cycle"},
        source="zoo.models.loop_draws:draw_loops",
        equation=(
            "1 + Poisson(e^t) turns with t ~ N(log(r - 1) - 1/8, 1/2), at most 3 r, drawn for each update; its mean is "
            "r, to within 0.5 %."
        ),
        paper="Geiping et al. 2025, section 3.3",
        details=_DRAWN,
        synonyms=("random-loops",),
    ),
    Variant(
        "uniform-loops",
        "architecture",
        {"model.layers.loop_draws": "uniform"},
        needs={"model.layers.distinct": 2, "model.layers.sharing": "cycle"},
        source="zoo.models.loop_draws:draw_loops",
        equation="u turns, drawn for each update: u = 1, 2, ..., 2 r - 1 are as likely, and their mean is r.",
        paper="a simpler form of the draws of Geiping et al. 2025",
        details=_DRAWN,
    ),
    Variant(
        "encoder",
        "architecture",
        {"model.architecture": "encoder"},
        needs={"objective.kind": "masked"},
        equation="h = Blocks(E[tokens]), where query t sees all keys s.",
        paper="Devlin et al. 2019 (BERT)",
        published=(_DIRECTIONS_RESULT,),
        claims=("O7",),
        picture="mask",
    ),
    Variant(
        "encoder-decoder",
        "architecture",
        {"model.architecture": "encoder_decoder"},
        source="zoo.models.encoder_decoder:EncoderDecoder",
        needs={"objective.kind": "prefix"},
        paper="Vaswani et al. 2017, section 3",
        published=(OBJECTIVES_RESULT,),
        claims=("O8", "O12"),
        picture="architecture",
    ),
    Variant(
        "prefix-lm-decoder",
        "objective",
        {"objective.kind": "prefix"},
        source="zoo.objectives.prefix:PrefixDecoderObjective",
        published=(OBJECTIVES_RESULT,),
        picture="mask",
    ),
    Variant(
        "elmo",
        "architecture",
        {"model.architecture": "elmo"},
        source="zoo.models.elmo:ELMo",
        needs={"objective.kind": "bidirectional"},
        published=("Peters et al. 2018: relative reductions of the error by 6 to 20 % on six tasks.",),
        claims=("O7", "O11", "O14"),
        picture="architecture",
    ),
    Variant(
        "character-cnn",
        "architecture",
        {},
        source="zoo.layers.characters:CharacterCNN",
        baseline="elmo",
        paper="Kim et al. 2016; Peters et al. 2018, section 3.4",
    ),
    Variant(
        "projected-lstm",
        "architecture",
        {},
        source="zoo.layers.recurrent:ProjectedLSTM",
        baseline="elmo",
        paper="Sak et al. 2014",
    ),
    Variant(
        "z-loss",
        "objective",
        {"objective.z_loss": 0.0001},
        source="zoo.objectives.cross_entropy:cross_entropy",
        equation=(
            "loss = -log p(target) + z_loss * log(Z)^2, Z = sum_v exp(logits_v): the second term keeps log Z near "
            "0, in training only."
        ),
        paper="Chowdhery et al. 2022, section 5 (PaLM), with 1e-4",
    ),
    Variant(
        "label-smoothing",
        "objective",
        {"objective.label_smoothing": 0.1},
        equation=(
            "loss = -sum_v q_v log p_v, q_v = (1 - e) [v = target] + e / V, e = `objective.label_smoothing`, in "
            "training; evaluation reports -log p(target)."
        ),
        paper="Szegedy et al. 2016, section 7; Vaswani et al. 2017",
        published=(
            "Vaswani et al. 2017, table 3, row D, perplexity and BLEU: without 4.67, 25.3; with 0.1 4.92, 25.8; "
            "with 0.2 5.47, 25.7.",
        ),
    ),
)
