"""ELMo's files against a reference that follows TensorFlow's conventions, and unsupported options."""

import copy
import json
import re

import numpy as np
import pytest

from tests.reference import elmo as reference
from tests.support.building import TINY, TINY_ELMO, as_float64, call, close, random_values, tiny, with_values
from tests.support.checkpoints_of_others import zoo
from zoo.config import default, override, resolve
from zoo.errors import ConfigError, DataError
from zoo.interop.families.bilm import read_config, read_hdf5, read_weights, rules
from zoo.interop.weights.mapping import from_zoo
from zoo.models.elmo import ELMo
from zoo.training.trained_run import load_trained

CONFIG = tiny(TINY_ELMO | {"model.elmo.cell_clip": 0.5, "model.elmo.projection_clip": 0.6}).model
D, M = 16, 24
OPTIONS = {
    "lstm": {
        "cell_clip": 0.5,
        "proj_clip": 0.6,
        "use_skip_connections": True,
        "n_layers": 2,
        "projection_dim": D,
        "dim": M,
    },
    "char_cnn": {
        "embedding": {"dim": 5},
        "filters": [[1, 4], [3, 6], [2, 5]],
        "n_highway": 2,
        "n_characters": 262,
        "max_characters_per_token": 8,
        "activation": "relu",
    },
}


def random_weight_file(seed=1):
    """Returns random arrays with the names and shapes of a bilm-tf weight file."""
    shapes = {"char_embed": (261, 5), "CNN_proj/W_proj": (15, D), "CNN_proj/b_proj": (D,)}
    for index, (width, filters) in enumerate(OPTIONS["char_cnn"]["filters"]):
        shapes |= {f"CNN/W_cnn_{index}": (1, width, 5, filters), f"CNN/b_cnn_{index}": (filters,)}
    for index in range(2):
        for name in ("carry", "transform"):
            shapes |= {f"CNN_high_{index}/W_{name}": (15, 15), f"CNN_high_{index}/b_{name}": (15,)}
    for side in range(2):
        for layer in range(2):
            at = f"RNN_{side}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{at}/W_0": (2 * D, 4 * M), f"{at}/B": (4 * M,), f"{at}/W_P_0": (M, D)}
    generator = np.random.default_rng(seed)
    return {
        name: (generator.standard_normal(shape) * (shape[-2] ** -0.5 if len(shape) > 1 else 1)).astype(np.float32)
        for name, shape in shapes.items()
    }


def reference_states(file, characters):
    """The last layer's states of one unpadded row, by the equations of TensorFlow's LSTMCell."""
    file = {name: np.float64(array) for name, array in file.items()}
    sigmoid, tokens = reference.sigmoid, []
    for ids in characters:
        embedded = np.concatenate([np.zeros((1, 5)), file["char_embed"]])[ids]
        pooled = []
        for index, (width, _) in enumerate(OPTIONS["char_cnn"]["filters"]):
            kernel = file[f"CNN/W_cnn_{index}"][0]
            windows = [np.tensordot(embedded[p : p + width], kernel, 2) for p in range(len(ids) - width + 1)]
            pooled.append(np.maximum(np.max(windows, axis=0) + file[f"CNN/b_cnn_{index}"], 0))
        x = np.concatenate(pooled)
        for index in range(2):
            at = f"CNN_high_{index}"
            carry = sigmoid(x @ file[f"{at}/W_carry"] + file[f"{at}/b_carry"])
            x = carry * np.maximum(x @ file[f"{at}/W_transform"] + file[f"{at}/b_transform"], 0) + (1 - carry) * x
        tokens.append(x @ file["CNN_proj/W_proj"] + file["CNN_proj/b_proj"])
    sides = []
    for side, step in ((0, 1), (1, -1)):
        inputs = tokens[::step]
        for layer in range(2):
            at = f"RNN_{side}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            h, c, outputs = np.zeros(D), np.zeros(M), []
            for x in inputs:
                i, j, f, o = np.split(np.concatenate([x, h]) @ file[f"{at}/W_0"] + file[f"{at}/B"], 4)
                c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -0.5, 0.5)
                h = np.clip((sigmoid(o) * np.tanh(c)) @ file[f"{at}/W_P_0"], -0.6, 0.6)
                outputs.append(h + x if layer else h)
            inputs = outputs
        sides.append(inputs[::step])
    return np.array(sides)


def test_imported_elmo_matches_bilm():
    file, characters = random_weight_file(), np.random.default_rng(2).integers(0, 262, (1, 6, 8))
    values = read_weights(file, CONFIG)
    model = with_values(ELMo(CONFIG), values | {"head": random_values(ELMo(CONFIG))["head"]})
    out = call(model, characters, np.ones((1, 6), bool))
    close(np.concatenate(out), reference_states(file, characters[0]))


def write_weights(params, config):
    """Returns the arrays of a weight file by path; the file has no head."""
    return from_zoo(rules(config), {name: value for name, value in params.items() if name != "head"})


def test_elmo_weights_round_trip():
    file = random_weight_file()
    written = write_weights(read_weights(file, CONFIG), CONFIG)
    assert set(written) == set(file)
    for name, array in file.items():
        assert written[name].dtype == np.float32
        # TensorFlow adds 1 to the forget bias, which rounds; all other values are only rearranged.
        np.testing.assert_allclose(written[name], array, rtol=0, atol=2e-7 if name.endswith("/B") else 0)
    ours = random_values(ELMo(CONFIG))
    again = read_weights(write_weights(ours, CONFIG), CONFIG)
    assert set(again) == set(ours) - {"head"}
    for name, part in as_float64(again).items():
        close(
            part["layers"]["input"]["bias"] if "layers" in part else part["embedding"],
            ours[name]["layers"]["input"]["bias"] if "layers" in part else ours[name]["embedding"],
            1e-6,
        )


def test_wrong_tensors_are_named():
    file = random_weight_file()
    del file["CNN/b_cnn_1"]
    file["char_embed"] = file["char_embed"][:-1]
    file["softmax/W"] = np.zeros((13, D), np.float32)
    with pytest.raises(DataError) as error:
        read_weights(file, CONFIG)
    assert sorted(error.value.problems) == [
        "tensor CNN/b_cnn_1 is missing",
        "tensor char_embed has shape (260, 5), expected (261, 5)",
        "tensor softmax/W has no place in the model",
    ]


def test_options_are_read_as_a_config():
    # Files written during training have more settings, and do not count the padding character.
    options = OPTIONS | {"dropout": 0.1, "n_tokens_vocab": 13, "char_cnn": OPTIONS["char_cnn"] | {"n_characters": 261}}
    data = {name: value for name, value in TINY.items() if name.startswith("data.")} | {"model.vocab_size": 13}
    resolved = resolve(override(default(), read_config(options) | data)).model
    assert resolved == CONFIG
    plain = copy.deepcopy(OPTIONS)
    plain["lstm"] |= {"use_skip_connections": False, "cell_clip": None}
    del plain["char_cnn"]["n_highway"]
    fields = read_config(plain)
    assert (fields["model.residual"], fields["model.elmo.cell_clip"], fields["model.elmo.highways"]) == (False, 0.0, 0)


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ("char_cnn", "activation", "tanh", "char_cnn.activation='tanh': only relu"),
        ("char_cnn", "n_characters", 60, "char_cnn.n_characters=60"),
        ("char_cnn", "filters", [[1, 16]], "without projection"),
        ("char_cnn", "filters", None, "model.elmo.filters: missing"),
        ("char_cnn", "stride", 2, "char_cnn.stride=2: not known"),
        ("lstm", "dim", 16, "lstm.dim=16: no wider than"),
        ("lstm", "projection_dim", None, "model.dim: missing"),
        ("lstm", "peepholes", True, "lstm.peepholes=True: not known"),
    ],
)
def test_unsupported_options_are_rejected(part, name, value, message):
    options = copy.deepcopy(OPTIONS)
    options[part][name] = value
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_config(options)
    with pytest.raises(ConfigError, match="char_cnn: missing"):
        read_config({"lstm": OPTIONS["lstm"]})


def test_hdf5_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    file = random_weight_file()
    with h5py.File(tmp_path / "weights.hdf5", "w") as target:
        for name, array in file.items():
            target[name] = array
    found = read_hdf5(tmp_path / "weights.hdf5")
    assert set(found) == set(file)
    for name, array in file.items():
        np.testing.assert_array_equal(found[name], array)
    (tmp_path / "text").write_text("no HDF5")
    with pytest.raises(DataError, match="not an HDF5 file"):
        read_hdf5(tmp_path / "text")
    with pytest.raises(ConfigError, match="no such file"):
        read_hdf5(tmp_path / "nothing")


def write_source(folder, options, tensors):
    h5py = pytest.importorskip("h5py")
    folder.mkdir()
    (folder / "options.json").write_text(options)
    with h5py.File(folder / "lm_weights.hdf5", "w") as target:
        for name, array in tensors.items():
            target[name] = array
    return folder


def test_elmo_import_makes_a_run(tmp_path):
    folder = write_source(tmp_path / "source", json.dumps(OPTIONS), random_weight_file())
    code, out, errors = zoo("import", f"elmo:{folder}", "--out", tmp_path / "run", "--config.data.batch_size=2")
    assert (code, errors) == (0, [])
    assert "tokenizer bytes" in out
    trained = load_trained(tmp_path / "run")
    assert (trained.config.model.vocab_size, trained.config.data.batch_size) == (257, 2)
    for name, array in write_weights(trained.params, trained.config.model).items():
        np.testing.assert_allclose(array, random_weight_file()[name], rtol=0, atol=1e-6)
    assert np.abs(trained.params["head"]["weights"]).max() > 0
    code, _, errors = zoo("export", tmp_path / "run", "--out", tmp_path / "out")
    assert (code, errors) == (2, ["error: no class can express model.architecture=elmo"])


@pytest.mark.parametrize(("options", "change", "code", "words"), [
    ("[]", {}, 3, "options.json: not a JSON object"),
    ("{}", {}, 2, "lstm: missing; only models over characters are read"),
    (json.dumps(OPTIONS | {"lstm": 3}), {}, 2, "has a value of a wrong type"),
    (json.dumps(OPTIONS), {"CNN_proj/b_proj": np.full(D, np.nan, np.float32)}, 3, "tensor CNN_proj/b_proj holds infinite or undefined numbers"),
    (json.dumps(OPTIONS), {"CNN_proj/b_proj": np.zeros(D, np.int32)}, 3, "tensor CNN_proj/b_proj holds infinite or undefined numbers"),
    (json.dumps(OPTIONS), {"CNN_proj/b_proj": np.zeros(3, np.float32)}, 3, "tensor CNN_proj/b_proj has shape (3,), expected (16,)"),
    (json.dumps(OPTIONS), {"new": np.zeros(3, np.float32)}, 3, "tensor new has no place"),
])  # fmt: skip
def test_bad_file_contents_make_no_run(options, change, code, words, tmp_path):
    folder = write_source(tmp_path / "source", options, random_weight_file() | change)
    found, _, errors = zoo("import", f"elmo:{folder}", "--out", tmp_path / "run")
    assert found == code
    assert any(words in line for line in errors), errors
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
