"""Random configs over all fields, valid or invalid, as a user may write them."""

import contextlib
import random

from tests.fields.every_field import NEEDED_BY_CHOICE, NEEDS
from zoo import config as configs
from zoo.config.fields import EMBEDDED_POSITIONS, IGNORED_BY, OBJECTIVES_OF
from zoo.config.scopes import GROUPS, KINDS, SIDES, overridable, scoped, split_path
from zoo.errors import ConfigError
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import logical_axes, split
from zoo.models.parameter_groups import group_sizes
from zoo.nested import flatten

# A small model of each architecture; a drawn config changes some of its fields.
SMALL = {"model.dim": 16, "model.num_layers": 2, "data.sequence_length": 16, "data.batch_size": 4, "training.steps": 4}
ATTENTION_SIZES = {"model.attention.num_heads": 2, "model.ffn.hidden_dim": 24}
ELMO_SIZES = {
    "model.elmo.cell_dim": 8,
    "model.elmo.characters": 6,
    "model.elmo.character_dim": 4,
    "model.elmo.filters": (1, 4, 2, 4),
}
# Values with which a small model can still be built. Other numbers are drawn near their defaults
# and limits.
NUMBERS = {
    "seed": (0, 1, 2**31 - 1), "model.dim": (8, 16, 12, 7), "model.num_layers": (1, 2, 3), "model.vocab_size": (257, 258, 300, 2),
    "model.attention.num_heads": (1, 2, 4, 3), "model.attention.num_kv_heads": (1, 2), "model.attention.head_dim": (2, 4, 6, 3),
    "model.attention.num_query_heads": (1, 2), "model.attention.cross_kv_heads": (1, 2),
    "model.attention.window": (0, 1, 2, 3, 5, 100), "model.attention.global_tokens": (0, 1, 3), "model.attention.features": (1, 5, 16),
    "model.attention.sigmoid_bias": (-3.0, 0.0), "model.attention.ssmax": (0.0, 0.4), "model.attention.lambda_init": (0.0, 0.8),
    "model.attention.latent_dim": (1, 5), "model.attention.rotary_dim": (0, 2, 4, 3), "model.attention.query_latent_dim": (0, 3),
    "model.position.kept_frequencies": (1.0, 0.5, 0.3),
    "model.convolution.width": (2, 3, 40), "model.attention.redraw_every": (0, 1, 1000), "model.ffn.hidden_dim": (1, 8, 13), "model.position.max_length": (4, 16, 40),
    "model.position.offset": (0, 2), "model.position.fraction": (1.0, 0.5, 0.3), "model.position.theta": (0.5, 10.0, 1e6),
    "model.position.scaling.factor": (1.0, 2.0, 8.0), "model.position.scaling.original_length": (1, 4, 64),
    "model.position.scaling.low": (1.0, 2.0, 40.0), "model.position.scaling.high": (0.5, 4.0, 32.0),
    "model.position.buckets": (4, 6, 8, 32), "model.position.max_distance": (2, 5, 20, 40), "model.position.clip": (0, 1, 4),
    "model.embedding.segments": (0, 1, 2), "model.norm.epsilon": (1e-12, 1e-5, 1.0), "model.dropout": (0.0, 0.1, 0.9),
    "model.attention.dropout": (0.0, 0.1), "model.attention.scale": (0.1, 1.0), "model.attention.softcap": (0.0, 1.0, 50.0),
    "model.head.softcap": (0.0, 5.0), "model.init.std": (1e-6, 0.02, 1.0), "model.init.embedding_std": (1e-6, 0.02, 1.0),
    "model.elmo.characters": (3, 6), "model.elmo.character_dim": (1, 4), "model.elmo.highways": (0, 1, 2),
    "model.elmo.cell_dim": (1, 8), "model.elmo.cell_clip": (0.0, 0.01, 3.0), "model.elmo.projection_clip": (0.0, 0.01, 3.0),
    "objective.chunk_tokens": (0, 1, 7, 64), "objective.prefix_length": (1, 5, 15, 16), "objective.z_loss": (0.0, 1e-4, 1.0),
    "data.buckets": (1, 3, 20), "data.examples": (0, 1, 32), "objective.beams": (1, 2), "training.translate_every": (0, 2),
    "data.sequence_length": (1, 2, 8, 16), "data.batch_size": (1, 2, 4), "data.tokenizer.vocab_size": (258, 300),
    "training.steps": (1, 4), "training.dynamics_every": (0, 1, 5),
    "training.accumulation_steps": (1, 2, 3), "optimizer.learning_rate": (1e-6, 1e-3),
    "objective.distillation.temperature": (0.5, 2.0), "objective.distillation.kl": (0.0, 1.0), "objective.distillation.cosine": (0.0, 1.0),
    "model.head.classes": (1, 2, 5), "training.eval_batches": (0, 1, 40), "data.stride": (1, 5, 100), "data.mixture_exponent": (0.0, 0.3),
    "training.trained_layers": (0, 1, 9), "training.eval_context": (0, 1, 5), "objective.mask_copies": (0, 1, 2),
    "schedule.warmup_steps": (0, 2, 9), "mesh.data": (-1, 0, 1, 2), "mesh.fsdp": (1, 2), "mesh.expert": (1, 1, 2), "mesh.tensor": (1, 2),
}  # fmt: skip
TUPLES = {
    "optimizer.groups": ((), ("a",), ("a", "b")),
    "model.layers.pattern": ((), ("local",), ("local", "global"), ("local", "local", "global")),
    "data.labels": ((), ("a", "b")),
    "data.mixture": ((), ("0.5*stdlib", "0.5*stdlib")),
    "model.elmo.filters": ((1, 4), (1, 4, 2, 4), (1,), ()),
    "training.eval_lengths": ((), (8,), (8, 32)),
    "model.attention.dilations": ((), (1, 2), (3,)),
    "data.position_offsets": ((), (0, 16), (3,)),
    "data.batch_stages": ((), (1, 1), (2, 2), (1, 1, 2, 2), (8, 1), (2,)),
    "data.length_stages": ((), (8, 1), (4, 2, 8, 1), (8, 9), (3, 1), (8,)),
    "training.start_layers": ((), (0,), (0, 1)),
    "training.trackers": ((),),
    "model.position.scaling.short_factors": ((), (1.0, 2.0), (1.0, 1.5, 2.0, 2.5)),
    "model.position.scaling.long_factors": ((), (2.0, 4.0), (1.0, 4.0, 4.0, 5.0)),
}
TEXTS = {
    "model.convolution.places": ("ABCD", "AC", "B", "D", "CA", ""),
    "optimizer.select": ("role:embedding", "role:vector", "path:*kernel, axes:mlp", "role:scalar", "role:", ""),
}
# Building a model needs neither text nor a teacher.
NOT_DRAWN = (
    "plugins", "data.source", "data.tokenizer.", "data.document_separator", "data.held_out", "objective.distillation.",
)  # fmt: skip
# Fields that must be set for another field to be read. No run is read to build a model.
NEEDED = NEEDS | {"training.start_layers": {"training.start_from": "x"}}
# Fields that are set together with a choice, because the choice alone would be refused.
REQUIRED_BY_CHOICE = NEEDED_BY_CHOICE | {("model.attention.implementation", "cudnn"): {"model.dtype": "bfloat16"}}
# Drawn first; other fields are drawn to fit them.
FIXED = ("model.architecture", "objective.kind")
TRAINED = [(architecture, objective) for architecture, names in OBJECTIVES_OF.items() for objective in names]


def values(path):
    """Returns values for the field at a path, most of them allowed."""
    field = configs.field_at(path)
    name = path if path in configs.BY_PATH else split_path(path)[1]
    if field.choices:
        found = list(field.choices)
    elif field.kind is bool:
        found = [False, True]
    elif name in NUMBERS:
        found = list(NUMBERS[name])
    elif field.kind is tuple:
        found = list(TUPLES[name])
    elif field.kind is str:
        found = list(TEXTS.get(name, ("", "x")))
    else:
        low = field.minimum if field.minimum is not None else (field.above or 0) + 1e-6
        default = low + 1 if field.default == configs.AUTO else field.default
        high = [field.maximum] if field.maximum is not None else [2 * default or 3]
        found = [field.kind(number) for number in (low, *high, max(low, default / 2))]
    return [*found, configs.AUTO] if field.auto else found


def random_config(number, changes=8, tidy=True):
    """Returns the config of a small model with the field or choice that `number` picks and up to
    `changes` further random fields, including fields of sides and kinds of layers.

    Args:
        number: seed of the draw; successive numbers go through all of `drawable()`.
        changes: the largest number of further fields, each drawn with the choices that it needs.
        tidy: draws only fields that the architecture and the objective read, and resets those that
            the drawn choices do not read; otherwise such a config is refused.
    """
    draw = random.Random(number)
    picked = drawable()
    first, name = picked[number % len(picked)]
    architecture, objective = draw.choice([pair for pair in TRAINED if not is_ignored(first, *pair)])
    sizes = SMALL | (ELMO_SIZES if architecture == "elmo" else ATTENTION_SIZES)
    drawn = dict(zip(FIXED, (architecture, objective), strict=True))
    # A second architecture or objective would mostly be refused.
    paths = list(dict(picked))
    others = [path for path in paths if not is_ignored(path, *drawn.values())] if tidy else [*paths, *FIXED]
    draw_with_conditions(draw, first, drawn, among=[name] if name else None)
    for path in draw.sample(others, draw.randint(0, changes)):
        draw_with_conditions(draw, path, drawn)
    scopes = [f"{KINDS}.{name}" for name in dict.fromkeys(drawn.get("model.layers.pattern", ()))]
    scopes += draw.sample(SIDES, draw.randint(0, 2)) if architecture == "encoder_decoder" else []
    scopes += [f"{GROUPS}.{name}" for name in drawn.get("optimizer.groups", ())]
    for scope in scopes:
        inside = [path for path in overridable(scope) if path != "optimizer.select"]
        for path in draw.sample(inside, draw.randint(1, 3)):
            draw_with_conditions(draw, path, drawn, scope)
        if scope.startswith(GROUPS):
            select = scoped(scope, "optimizer.select")
            drawn[select] = draw.choice(values(select))
    flat = sizes | drawn
    return configs.override(configs.default(), tidied(flat) if tidy else flat)


def drawable():
    """Returns (path, choice) for every choice but the default, and (path, None) for fields without
    choices, of all fields that some architecture and objective read, without `NOT_DRAWN`.
    """
    return [
        (path, name)
        for path, field in configs.BY_PATH.items()
        if path not in FIXED and not path.startswith(NOT_DRAWN) and not all(is_ignored(path, *pair) for pair in TRAINED)
        for name in ([choice for choice in field.choices if choice != field.default] if field.choices else [None])
    ]


def is_ignored(path, architecture, objective):
    """Returns whether models of this architecture and objective ignore a field."""
    when, fixed = configs.BY_PATH[path].when, dict(zip(FIXED, (architecture, objective), strict=True))
    if path.startswith(IGNORED_BY.get(architecture, ())):
        return True
    if when is None or when[0] in NOT_DRAWN:
        return when is not None
    return fixed[when[0]] not in when[1] if when[0] in fixed else is_ignored(when[0], architecture, objective)


def draw_with_conditions(draw, path, drawn, scope=None, among=None):
    """Draws a field into `drawn`, with the choices and numbers that it needs to be read.

    Args:
        draw: a `random.Random`.
        path: the field.
        drawn: the fields drawn so far.
        scope: the side, kind of layers or group that the field is set for.
        among: the values to choose from; by default those of `values(path)`.
    """
    place = scoped(scope, path) if scope else path
    when = configs.BY_PATH[path].when if path in configs.BY_PATH else None
    if when is not None and when[0] not in (*NOT_DRAWN, *FIXED):
        inside = scope if scope and when[0] in overridable(scope) else None
        choice = scoped(inside, when[0]) if inside else when[0]
        if drawn.get(choice, configs.BY_PATH[when[0]].default) not in when[1]:
            draw_with_conditions(draw, when[0], drawn, inside, list(when[1]))
    drawn[place] = draw.choice(among or values(place))
    for other, value in {**NEEDED.get(path, {}), **REQUIRED_BY_CHOICE.get((path, drawn[place]), {})}.items():
        if other in configs.BY_PATH and not other.startswith(NOT_DRAWN) and not callable(value):
            drawn.setdefault(other, value)


@contextlib.contextmanager
def errors_with_config(config, **how):
    """Adds to an error how its config was drawn and which fields it sets."""
    try:
        yield
    except Exception as error:
        default = flatten(configs.default())
        changed = {path: value for path, value in flatten(config).items() if value != default.get(path)}
        error.add_note(f"random_config({', '.join(f'{name}={value}' for name, value in how.items())}): {changed}")
        raise


def tidied(flat):
    """Removes fields that the config's choices do not read, as a user would after the first error."""
    flat = dict(flat)
    while True:
        try:
            configs.resolve(configs.override(configs.default(), flat))
            return flat
        except ConfigError as error:
            idle = [
                path
                for problem in error.problems
                if "has no effect" in problem
                for path in flat
                if problem.startswith((f"{path}=", f"{path} "))
            ]
            kinds = [
                path
                for path in flat
                if path.endswith(".position.kind")
                and path not in configs.BY_PATH
                and flat[path] in (*EMBEDDED_POSITIONS, "relative_bias")
            ]
            if not idle and not kinds:
                return flat
            flat = {path: value for path, value in flat.items() if path not in (*idle, *kinds)}


def resolved_or_none(config):
    """Returns the resolved config, or None if it is refused in plain lines."""
    try:
        resolved = configs.resolve(config)
    except ConfigError as error:
        problems = error.problems
    else:
        assert configs.resolve(resolved) == resolved
        return resolved
    assert problems
    assert all("\n" not in problem and 10 < len(problem) < 400 for problem in problems), problems
    return None


def is_built(config):
    """Returns whether a config's model is built, with as many parameters as counted from the
    config; if not, asserts that the config is refused in plain lines.
    """
    resolved = resolved_or_none(config)
    if resolved is None:
        return False
    model = make_model(resolved)
    params = split(model)[1]
    assert set(params) == set(logical_axes(model))
    counted = cost.summary(resolved)
    assert counted.flops_per_token > 0
    assert sum(counted.blocks.values()) == counted.parameters["total"]
    # A group without parameters is allowed; any other problem is an error.
    with contextlib.suppress(ConfigError):
        groups = group_sizes(resolved)
        assert not groups or sum(groups.values()) == counted.parameters["total"]
    return True
