"""Parameter groups in configs: how they are resolved, changed and refused."""

import json

import pytest

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.nested import flatten

GROUPS = {
    "optimizer.groups": ("tables", "vectors"),
    "optimizer.group.tables.select": "role:embedding,axes:vocab",
    "optimizer.group.tables.rate_factor": 0.5,
    "optimizer.group.vectors.select": "role:vector",
    "optimizer.group.vectors.weight_decay": 0.1,
}


def changed(*changes):
    config = configs.default()
    for change in changes:
        config = configs.override(config, change)
    return config


def resolve(*changes):
    return configs.resolve(changed(*changes))


def refused(*changes):
    with pytest.raises(ConfigError) as caught:
        resolve(*changes)
    return caught.value.problems


ONE_GROUP = {"optimizer.groups": ("a",), "optimizer.group.a.select": "role:vector", "optimizer.group.a.beta1": 0.5}


def test_a_group_for_each_role():
    fields = configs.by_role(embedding={"rate_factor": 0.3}, vector={"weight_decay": 0.1, "kind": "lion"})
    resolved = configs.resolve(configs.override(configs.default(), fields))
    assert resolved.optimizer.groups == ("embedding", "vector")
    assert resolved.optimizer.group.embedding.to_dict() == {"select": "role:embedding", "rate_factor": 0.3}
    assert resolved.optimizer.group.vector.to_dict() == {"select": "role:vector", "weight_decay": 0.1, "kind": "lion"}
    with pytest.raises(ConfigError, match=r'by_role: vectors is not one of .*did you mean "vector"'):
        configs.by_role(vectors={"weight_decay": 0.1})


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"optimizer.groups": ("a", "b", "b", "c.d", "rest"), "optimizer.group.a.beta1": 0.5},
            [
                "optimizer.groups names 'a', but optimizer.group.a.select is not set "
                "(e.g. optimizer.group.a.select=role:embedding)",
                "optimizer.groups names 'b', but optimizer.group.b.select is not set "
                "(e.g. optimizer.group.b.select=role:embedding)",
                "optimizer.groups names 'b' twice",
                "optimizer.groups: 'c.d' is no name of a group; use letters, digits, _ and -",
                "optimizer.groups: 'rest' stands for the parameters that no group selects; take another name",
            ],
        ),
        (
            ONE_GROUP | {"optimizer.group.c.select": "role:vector", "optimizer.group.c.beta1": 0.5},
            ["optimizer.group.c has no effect: optimizer.groups=a does not name it"],
        ),
        (
            {"optimizer.group.c.beta1": 0.5},
            ["optimizer.group.c has no effect: optimizer.groups=empty does not name it"],
        ),
        (
            ONE_GROUP | {"optimizer.group.a.select": "rol:matrix,role:matrx,axes:vocabulary,path:,"},
            [
                "optimizer.group.a.select: 'rol:matrix' is not role:NAME, axes:NAME or path:PATTERN",
                "optimizer.group.a.select: 'role:matrx': matrx is not one of matrix, vector, embedding, head, expert, "
                'router, scalar (did you mean "matrix"?)',
                "optimizer.group.a.select: 'axes:vocabulary': vocabulary is not one of vocab, embed, latent, mlp, heads, "
                'kv_heads, expert, layers (did you mean "vocab"?)',
                "optimizer.group.a.select: 'path:' is not role:NAME, axes:NAME or path:PATTERN",
                "optimizer.group.a.select: '' is not role:NAME, axes:NAME or path:PATTERN",
            ],
        ),
        (
            {"optimizer.groups": ("a",), "optimizer.group.a.select": "role:vector"},
            ["optimizer.group.a changes nothing: it sets none of rate_factor, kind, beta1, beta2, epsilon, "
             "momentum_warmup, momentum_cooldown, momentum_start, weight_decay, weight_decay_form"],
        ),
        (
            ONE_GROUP | {"optimizer.group.a.rate_factor": 0.0},
            ["optimizer.group.a.beta1=0.5 has no effect with optimizer.group.a.rate_factor=0; leave it out"],
        ),
        (
            ONE_GROUP | {"optimizer.group.a.rate_factor": -1.0, "optimizer.group.a.beta1": "fast"},
            ["optimizer.group.a.beta1='fast': expected a number", "optimizer.group.a.rate_factor=-1.0 must be at least 0"],
        ),
    ],
)  # fmt: skip
def test_each_problem_of_a_group_is_reported_in_one_line(changes, lines):
    assert sorted(refused(changes)) == sorted(lines)


@pytest.mark.parametrize("name", ["clip_norm", "learning_rate", "groups", "selct"])
def test_a_field_that_no_group_has_is_unknown(name):
    with pytest.raises(ConfigError, match=rf"unknown field optimizer.group.a.{name}"):
        changed(ONE_GROUP, {f"optimizer.group.a.{name}": 1})
    assert configs.field_at("optimizer.select") is None
    assert configs.field_at("optimizer.group.a.select").path == "optimizer.group.a.select"


def test_resolving_groups_again_changes_nothing(tmp_path):
    resolved = resolve(GROUPS)
    assert GROUPS.items() <= flatten(resolved).items()
    assert configs.resolve(resolved) == resolved
    (tmp_path / "config.json").write_text(json.dumps(configs.to_plain(resolved)))
    assert configs.resolve(configs.load(str(tmp_path))) == resolved
    assert configs.identity(resolved) != configs.identity(resolve())
    # Groups change no other field.
    assert configs.difference(resolved, resolve()).keys() == GROUPS.keys()


def test_groups_follow_a_new_group_list_architecture_or_preset():
    alone = resolve(GROUPS, {"optimizer.groups": "vectors"})
    assert set(alone.optimizer.group) == {"vectors"}
    assert "group" not in resolve(GROUPS, {"optimizer.groups": ()}).optimizer
    both_sides = {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "model.decoder.num_layers": 2}
    decoder = resolve(both_sides, GROUPS, {"model.architecture": "decoder", "objective.kind": "causal"})
    assert "decoder" not in decoder.model
    assert GROUPS.items() <= flatten(decoder).items()
    # A problem outside the groups is not reported again for each group.
    assert len(refused(GROUPS, {"model.attention.num_heads": 3, "mesh.tensor": 2})) == len(
        refused({"model.attention.num_heads": 3, "mesh.tensor": 2})
    )
    assert GROUPS.items() <= flatten(configs.resolve(configs.shrink(changed(GROUPS), "tiny"))).items()


def test_runs_that_differ_only_in_group_hyperparameters_share_a_program():
    def key(**numbers):
        changes = {f"optimizer.group.{path.replace('__', '.')}": value for path, value in numbers.items()}
        return configs.program_key(flatten(resolve(GROUPS, changes)))

    assert key() == key(tables__rate_factor=2.0, vectors__weight_decay=0.3)
    assert key(tables__epsilon=1e-3) == key(tables__epsilon=1e-6) != key()
    assert key() != key(vectors__weight_decay=0.0)
    assert key() != key(tables__select="role:embedding")
    numbers = configs.traced_hyperparameters(flatten(resolve(GROUPS)))
    assert {path: value for path, value in numbers.items() if path.startswith("optimizer.group")} == {
        "optimizer.group.tables.rate_factor": 0.5,
        "optimizer.group.vectors.weight_decay": 0.1,
    }
