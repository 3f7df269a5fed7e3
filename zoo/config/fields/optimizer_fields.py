"""Fields of the optimizer, and those that only a group of parameters has."""

from zoo.config.field import Field
from zoo.config.kinds import OPTIMIZER_KINDS

OPTIMIZER_FIELDS: tuple[Field, ...] = (
    Field("optimizer.kind", "adamw", str, "optimizer", OPTIMIZER_KINDS.choices, synonyms=("adam",)),
    Field("optimizer.learning_rate", 1e-3, float, "peak learning rate", above=0, traced=True, synonyms=("lr",)),
    Field(
        "optimizer.weight_decay",
        0.0,
        float,
        "weight decay on matrices and embeddings; never on biases and norms",
        minimum=0,
        traced=True,
        synonyms=("wd",),
    ),
    Field(
        "optimizer.weight_decay_form",
        "decoupled",
        str,
        "where the decayed parameter enters the update, with the direction u, the rate r and its peak R",
        {
            "decoupled": "W <- W - r (u + decay W) (Loshchilov & Hutter 2019)",
            "coupled": "decay W is added to the gradient: L2 regularization",
            "independent": "W <- W - r u - (r/R) decay W: not scaled by the peak (Wortsman et al. 2024)",
            "cautious": "as decoupled, where u W >= 0; elsewhere none (Chen et al. 2025)",
        },
        synonyms=("l2",),
    ),
    Field(
        "optimizer.weight_decay_schedule",
        "constant",
        str,
        "factor on the weight decay, in addition to the learning rate where `weight_decay_form` has it",
        {
            "constant": "1",
            "linear": "1 - (t - 1)/T at update t of T: it falls to 0 with the run",
            "rate": "r/R: it follows the learning rate r over its peak R",
        },
        added=True,
    ),
    Field(
        "optimizer.beta1",
        0.9,
        float,
        "decay of the first moment",
        minimum=0,
        maximum=0.99999,
        when=OPTIMIZER_KINDS.when("moments"),
        traced=True,
    ),
    Field(
        "optimizer.beta2",
        0.999,
        float,
        "decay of the second moment",
        minimum=0,
        maximum=0.9999999,
        when=OPTIMIZER_KINDS.when("moments"),
        traced=True,
    ),
    Field(
        "optimizer.epsilon",
        1e-8,
        float,
        "added to the root of the second moment",
        above=0,
        when=OPTIMIZER_KINDS.when("epsilon"),
        traced=True,
    ),
    Field(
        "optimizer.momentum_warmup",
        0,
        int,
        "updates over which the decay of the first moment goes linearly from `momentum_start` to its own value",
        minimum=0,
        when=OPTIMIZER_KINDS.when("momentum"),
        traced=True,
        added=True,
    ),
    Field(
        "optimizer.momentum_cooldown",
        0,
        int,
        "last updates over which the decay of the first moment goes linearly back to `momentum_start`",
        minimum=0,
        when=OPTIMIZER_KINDS.when("momentum"),
        traced=True,
        added=True,
    ),
    Field(
        "optimizer.momentum_start",
        0.85,
        float,
        "decay of the first moment before the warm-up and after the cool-down",
        minimum=0,
        maximum=0.99999,
        when=OPTIMIZER_KINDS.when("momentum"),
        traced=True,
        added=True,
    ),
    *OPTIMIZER_KINDS.fields,
    Field(
        "optimizer.clip_norm", 0.0, float, "largest global norm of the gradient; 0: no clipping", minimum=0, traced=True
    ),
    Field(
        "optimizer.constraint",
        "none",
        str,
        "what the parameters are brought back to after every update, and at the start",
        {
            "none": "nothing",
            "unit_norm": "matrices with a dimension of the model's width: their vectors along it have length 1 (nGPT)",
        },
        added=True,
    ),
    Field(
        "optimizer.ema_steps",
        0,
        int,
        "horizon, in updates, of an exponential moving average of the parameters; evaluation scores the average as "
        "well, as eval/ema/...; 0: no average",
        minimum=0,
        traced=True,
        synonyms=("ema",),
    ),
    Field(
        "optimizer.tail_average",
        0.0,
        float,
        "the parameters after this last share of the updates are averaged with equal weights; evaluation scores the "
        "average as well, as eval/tail/...; 0: no average",
        minimum=0,
        maximum=1,
        added=True,
    ),
    Field(
        "optimizer.groups",
        (),
        tuple,
        "names of parameter groups with settings of their own under optimizer.group.NAME; a parameter belongs to the "
        "first that selects it",
        items=str,
    ),
)
# Fields that only a group of parameters has, at optimizer.group.NAME.select and .rate_factor.
GROUP_ONLY_FIELDS: tuple[Field, ...] = (
    Field(
        "optimizer.select",
        "",
        str,
        "the parameters of the group: comma-separated terms role:NAME, axes:NAME or path:PATTERN, of which one "
        "must apply",
    ),
    Field(
        "optimizer.rate_factor",
        1.0,
        float,
        "factor on the scheduled learning rate; 0: the parameters keep their initial values",
        minimum=0,
        traced=True,
    ),
)
