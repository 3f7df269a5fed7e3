"""Parameters on unit spheres: which vectors, from the first update on, and in every kind of run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import curves, small, stop_requested_at
from zoo import config as configs
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.models.functional import ParameterTraits, parameter_traits
from zoo.models.parameter_groups import group_labels
from zoo.nested import flatten
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.startup import RunRequest
from zoo.training.trained_run import load_trained, trained_and_initial
from zoo.training.trainer import run, train_runs

SPHERES = {"optimizer__constraint": "unit_norm"}
# Two layers, a table with rows that pad it, accumulation, and a group that keeps its initial values.
RUN = SPHERES | {
    "model__num_layers": 2,
    "model__ffn__kind": "swiglu",
    "model__tie_embeddings": False,
    "model__vocab_multiple": 64,
    "training__accumulation_steps": 2,
    "training__eval_every": 0,
    "optimizer__learning_rate": 0.03,
    "optimizer__groups": ("still",),
    "optimizer__group__still__select": "path:*/key/*",
    "optimizer__group__still__rate_factor": 0.0,
}
# The dimension of the model's width in each kernel of [inputs, outputs].
READING, WRITING = ("query", "key", "value", "up", "gate"), ("output", "down")


def quiet(line):
    del line


def lengths(values):
    """Returns the lengths of all vectors that have to be 1, by path."""
    found = {}
    for path, value in flatten(values, "/").items():
        name = path.split("/")[-2] if path.endswith("kernel") else path
        if name in (*READING, *WRITING, "embedding", "head/weights", "position/table"):
            found[path] = np.linalg.norm(np.float64(value), axis=-2 if name in READING else -1)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    run(small(**RUN), folder, quiet)
    return folder


def test_vectors_have_length_1_at_first_and_after_updates(trained):
    found = load_trained(trained)
    for which, (params, _) in trained_and_initial(found).items():
        of_vectors = lengths(params)
        assert len(of_vectors) == 10
        for path, length in of_vectors.items():
            table = path in ("embedding", "head/weights")
            np.testing.assert_allclose(length[:257] if table else length, 1, atol=1e-6, err_msg=f"{which} {path}")
            assert not length[257:].any()
            assert (length.shape == (320,)) == table
    after = flatten(found.params, "/")
    before = flatten(found.program.initial_state(found.config.seed)["params"], "/")
    for path in before:
        assert np.array_equal(before[path], after[path]) == ("/key/" in path), path


def test_constrained_parameters_are_the_matrices_with_the_width_of_the_model():
    model = make_model(configs.resolve(small(**RUN | {"model__vocab_size": 257, "model__convolution__kind": "canon"})))
    found = parameter_traits(model).model_axis
    layers = {f"stack/layers/attention/{name}/kernel": -2 for name in ("query", "key", "value")}
    layers |= {f"stack/layers/ffn/{name}/kernel": -2 for name in ("up", "gate")}
    layers |= {"stack/layers/attention/output/kernel": -1, "stack/layers/ffn/down/kernel": -1}
    assert dict(found) == layers | dict.fromkeys(("embedding", "head/weights", "position/table"), -1)


def test_ten_updates_follow_the_equation():
    draw = np.random.default_rng(3)
    kernel, gradients = draw.normal(size=(2, 4, 10)), draw.normal(size=(10, 2, 4, 10))
    kernel /= np.linalg.norm(kernel, axis=1, keepdims=True)
    fields = {"optimizer__kind": "sgd", "optimizer__sgd_momentum": 0.5, "optimizer__weight_decay": 0.1}
    config = configs.resolve(small(**SPHERES, **fields, optimizer__learning_rate=0.1))
    optimizer = make_optimizer(config, ParameterTraits({"kernel": 2}, {"kernel": True}, model_axis={"kernel": -2}))
    params = {"kernel": jnp.asarray(kernel, jnp.float32)}
    state, momentum = optimizer.init(params), 0.0
    for gradient in gradients:
        updates, state = optimizer.update({"kernel": jnp.asarray(gradient, jnp.float32)}, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        momentum = 0.5 * momentum + gradient
        kernel = kernel - 0.1 * (momentum + 0.1 * kernel)
        kernel /= np.sqrt((kernel**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(params["kernel"], kernel, atol=2e-6)


@pytest.mark.promise(reason="programs of a population and of runs alone are compiled")
def test_members_of_a_population_equal_their_runs_alone(trained, tmp_path):
    members = [RUN, RUN | {"seed": 1, "optimizer__learning_rate": 0.01}]
    train_runs([RunRequest(small(**one), tmp_path / str(n), quiet) for n, one in enumerate(members)], "map")
    run(small(**members[1]), tmp_path / "alone", quiet)
    for one, other in ((tmp_path / "0", trained), (tmp_path / "1", tmp_path / "alone")):
        assert curves(one) == curves(other)
        sums = [read_json(folder / "status.json")["parameters_sha256"] for folder in (one, other)]
        assert sums[0] == sums[1]


@pytest.mark.promise(reason="two runs are trained")
def test_run_that_starts_from_another_begins_on_the_spheres_and_resumes_bit_for_bit(trained, tmp_path, monkeypatch):
    free = {name: value for name, value in RUN.items() if name != "optimizer__constraint"}
    run(small(**free), tmp_path / "free", quiet)
    assert abs(lengths(load_trained(tmp_path / "free").params)["embedding"][:257] - 1).max() > 0.01
    # Nothing is trained, so the parameters are those that the run begins with.
    begun = RUN | {"training__start_from": str(tmp_path / "free"), "optimizer__group__still__select": "path:*"}
    run(small(**begun), tmp_path / "begun", quiet)
    for path, length in lengths(load_trained(tmp_path / "begun").params).items():
        np.testing.assert_allclose(length[:257] if length.shape == (320,) else length, 1, atol=1e-6, err_msg=path)
    with stop_requested_at(5, monkeypatch), pytest.raises(Preempted):
        run(small(**RUN), tmp_path / "stopped", quiet)
    run(small(**RUN), tmp_path / "stopped", quiet)
    sums = [read_json(folder / "status.json")["parameters_sha256"] for folder in (trained, tmp_path / "stopped")]
    assert sums[0] == sums[1]


def test_kind_whose_parameters_are_an_average_is_refused():
    with pytest.raises(ConfigError, match=r"optimizer\.constraint=unit_norm cannot be combined with optimizer\.kind="):
        configs.resolve(small(**SPHERES, optimizer__kind="schedule_free"))


@pytest.mark.parametrize(("field", "value"), [("ema_steps", 4), ("tail_average", 0.5)])
def test_averages_of_vectors_on_spheres_are_refused(field, value):
    average = {f"optimizer__{field}": value}
    with pytest.raises(ConfigError) as refusal:
        configs.resolve(small(**SPHERES, **average))
    assert refusal.value.problems == [
        f"optimizer.{field}={value} cannot be combined with optimizer.constraint=unit_norm: an average of vectors on a "
        "sphere is inside it; leave one of them out"
    ]
    configs.resolve(small(**average))


def test_matrices_of_zeros_are_refused():
    config = configs.resolve(small(model__vocab_size=257, model__init__zero_outputs=True, **SPHERES))
    with pytest.raises(ConfigError) as refusal:
        group_labels(config, make_model(config))
    assert refusal.value.problems == [
        f"optimizer.constraint=unit_norm keeps vectors of length 1, and those of stack/layers/{path}/kernel are 0 at "
        "first; choose other initial values, or leave the constraint none"
        for path in ("attention/output", "ffn/down")
    ]
