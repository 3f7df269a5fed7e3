from zoo.nested import flatten, unflatten


def test_flatten_and_unflatten_are_inverse():
    tree = {"seed": 0, "model": {"dim": 1, "layers": {"kinds": [1, 2]}}, "empty": {}}
    assert flatten(tree) == {"seed": 0, "model.dim": 1, "model.layers.kinds": [1, 2]}
    assert list(flatten(tree, "/")) == ["seed", "model/dim", "model/layers/kinds"]
    assert unflatten(flatten(tree)) == {name: tree[name] for name in ("seed", "model")}
    assert unflatten({}) == flatten({}) == {}
