"""Fields of the schedule, the training loop and the mesh."""

from zoo.config.field import AUTO, Field
from zoo.config.fields.conditions import CAUSAL, FIXED_SHARE, TASK_OBJECTIVES, TOKEN_OBJECTIVES, TRANSLATION
from zoo.config.kinds import SCHEDULE_KINDS

SEED_FIELDS: tuple[Field, ...] = (
    Field("seed", 0, int, "seed of everything random: initial values, data order, dropout", minimum=0),
)

PLUGIN_FIELDS: tuple[Field, ...] = (
    Field(
        "plugins",
        (),
        tuple,
        "plug-in files that add kinds, each with the sha256 of its text; zoo COMMAND --plugin FILE sets it",
        items=str,
        added=True,
    ),
)

SCHEDULE_FIELDS: tuple[Field, ...] = (
    Field("schedule.kind", "constant", str, "learning rate after the warm-up", SCHEDULE_KINDS.choices),
    Field(
        "schedule.warmup_steps",
        0,
        int,
        "steps of linear warm-up; the peak is reached at the last of them",
        minimum=0,
        traced=True,
        synonyms=("warmup", "warm-up"),
    ),
    Field(
        "schedule.final_fraction",
        0.0,
        float,
        "last learning rate as a share of the peak",
        minimum=0,
        maximum=1,
        when=SCHEDULE_KINDS.when("final_fraction"),
        traced=True,
    ),
    Field(
        "schedule.decay_fraction",
        0.2,
        float,
        "share of the steps over which `wsd` decays",
        above=0,
        maximum=1,
        when=SCHEDULE_KINDS.when("decay_fraction"),
    ),
    *SCHEDULE_KINDS.fields,
)

TRAINING_FIELDS: tuple[Field, ...] = (
    Field("training.steps", 1000, int, "number of updates", minimum=1),
    Field(
        "training.start_from",
        "",
        str,
        "folder of a run whose parameters and statistics this run starts from; empty: fresh initial values",
        is_path=True,
    ),
    Field(
        "training.start_layers",
        (),
        tuple,
        "for each layer, the index (from 0) of the layer of that run that it is initialised from; empty: layer i "
        "from layer i",
        minimum=0,
        when=("model.architecture", ("decoder", "encoder")),
    ),
    Field(
        "training.allow_seen_text",
        False,
        bool,
        "accept held-out text that the run of training.start_from, or the teacher, was trained on",
        added=True,
    ),
    Field(
        "training.trained_layers",
        AUTO,
        int,
        "0: train only the head of a task; k: also the last k layers and the norm after them",
        minimum=0,
        auto="everything is trained",
        when=TASK_OBJECTIVES,
    ),
    Field(
        "training.accumulation_steps",
        AUTO,
        int,
        "number of micro-batches that a batch is split into; gradients are accumulated, so the update is that of "
        "the whole batch",
        minimum=1,
        auto="as many as training.microbatch_size needs on the devices of the run; 1 without it",
    ),
    Field(
        "training.microbatch_size",
        0,
        int,
        "rows that a device processes at once; with fewer than its rows, gradients are accumulated; 0: all its rows",
        minimum=0,
    ),
    Field(
        "training.dropout_generator",
        "threefry",
        str,
        "random numbers of dropout",
        {
            "threefry": "each row has masks of its own, the same on any device and mesh and in any micro-batch",
            "rbg": "the device's own generator, faster on a GPU or TPU; masks depend on device, mesh and micro-batches",
        },
    ),
    Field("training.log_every", 10, int, "steps between training lines of metrics.jsonl", minimum=1),
    Field(
        "training.dynamics_every",
        0,
        int,
        "steps between records of training dynamics, layer by layer, in dynamics.jsonl, from the first step "
        "on; 0: none",
        minimum=0,
    ),
    Field(
        "training.trackers",
        AUTO,
        tuple,
        "trackers that also receive the lines of metrics.jsonl: tensorboard, wandb, trackio; empty: none",
        auto="tensorboard where tensorboardX is installed, else none",
        items=str,
    ),
    Field(
        "training.eval_every",
        AUTO,
        int,
        "steps between evaluations, from step 0 on; the last step is always evaluated; 0: only the last step",
        minimum=0,
        auto="a twentieth of the steps, rounded up; an eighth where eval_batches is 0 or 40 * eval_batches are more "
        "than the steps; in runs of tuning 0",
    ),
    Field(
        "training.eval_batches",
        AUTO,
        int,
        "batches per evaluation, spread over the validation split; 0: all of it",
        minimum=0,
        auto="40; for a task all examples",
    ),
    Field(
        "training.eval_context",
        0,
        int,
        "first tokens of a row that evaluation reads but does not score, e.g. a prefix's, to compare with "
        "objective.kind=prefix",
        minimum=0,
        when=CAUSAL,
    ),
    Field(
        "training.eval_masks",
        "as_trained",
        str,
        "what evaluation shows in place of the predicted tokens",
        {
            "as_trained": "the same as training, by objective.mask_token_fraction and random_token_fraction",
            "all": "always [MASK], so that models trained with other fractions read the same rows",
        },
        when=FIXED_SHARE,
    ),
    Field(
        "training.translate_every",
        0,
        int,
        "steps between translations of held-out texts, scored by BLEU; the last step always has them; 0: "
        "only the last step",
        minimum=0,
        when=TRANSLATION,
    ),
    Field(
        "training.eval_lengths",
        (),
        tuple,
        "further sequence lengths for the last evaluation, e.g. 256,512",
        minimum=1,
        when=TOKEN_OBJECTIVES,
    ),
    Field(
        "training.checkpoint_every",
        250,
        int,
        "steps between checkpoints; the last step is always saved; 0: only the last step",
        minimum=0,
    ),
    Field(
        "training.keep_checkpoints",
        2,
        int,
        "number of newest checkpoints that are kept, in addition to the best one",
        minimum=1,
    ),
)

MESH_FIELDS: tuple[Field, ...] = (
    Field(
        "mesh.data",
        -1,
        int,
        "devices that split the batch and hold all parameters; -1: all remaining devices, or with mesh.fsdp=-1 one",
        minimum=-1,
    ),
    Field(
        "mesh.fsdp", 1, int, "devices that split the batch and the parameters; -1: all remaining devices", minimum=-1
    ),
    Field(
        "mesh.expert",
        1,
        int,
        "devices that split the batch and the experts of mixtures; it divides model.ffn.experts.number",
        minimum=1,
        added=True,
        synonyms=("expert-parallelism",),
    ),
    Field("mesh.tensor", 1, int, "devices that split heads, hidden units and vocabulary", minimum=1),
)
