"""fairseq's translation models (Ott et al. 2019).

Files are `fairseq_args.json`, weights as safetensors, and dictionaries. fairseq's own checkpoints
are pickles and are never opened; `fairseq_args.json` holds {"args": {name: value}}, the arguments
in such a file, and `model.safetensors` its tensors under their names. BART came from this code, and
its layers have the same names.

The sinusoids are those of tensor2tensor: sines, then cosines, frequencies from 1 to 1/10000,
positions counted from the padding id plus one. Source and target may have separate dictionaries.
Both tables have the size of the larger one here; the source's may be smaller and is padded with
rows of 0, which nothing reads. Text consists of tokens separated by spaces, as fairseq's
preprocessing writes it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer
from zoo.errors import ConfigError, DataError
from zoo.interop.families import bart
from zoo.interop.settings.ignored_settings import without_ignored
from zoo.interop.settings.importer import ACTIVATIONS, SettingsReader
from zoo.interop.weights.checkpoint_contents import CheckpointContents, ParamsAndStats
from zoo.interop.weights.mapping import IDENTITY, IgnoredTensors, Rule, Rules, TiedTensor, Transform, to_zoo
from zoo.interop.weights.tensor_files import open_tensors, read_object, weight_files
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten, unflatten

ARGUMENTS = "fairseq_args.json"
CLASS = "fairseq TransformerModel"
DEFAULTS = {
    "encoder_layers": 6, "decoder_layers": 6, "encoder_embed_dim": 512, "decoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048, "decoder_ffn_embed_dim": 2048, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "encoder_normalize_before": False, "decoder_normalize_before": False,
    "encoder_learned_pos": False, "decoder_learned_pos": False, "dropout": 0.1, "attention_dropout": 0.0,
    "activation_fn": "relu", "share_decoder_input_output_embed": False, "share_all_embeddings": False,
    "no_scale_embedding": False, "layernorm_embedding": False,
}  # fmt: skip
# Of these, other models of the same code have other defaults.
OF_SIZES = tuple(
    name for name in DEFAULTS if name.endswith(("_layers", "_dim", "_heads", "normalize_before", "dropout"))
)
BASES = ("transformer", "transformer_wmt_en_de")
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
PADDING = SPECIALS.index("<pad>")
EMBEDDINGS = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"


def read_config(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns flat overrides of `zoo.config.default()` for a model's arguments.

    The sizes of the dictionaries are not among them.

    Raises:
        ConfigError: with one line for each argument that cannot be expressed.
    """
    settings = SettingsReader(arguments, DEFAULTS, "fairseq")
    dim = settings.same("encoder_embed_dim", "decoder_embed_dim")
    everything = settings["share_all_embeddings"]
    fields = {
        "model.architecture": "encoder_decoder",
        "model.dim": dim,
        "model.num_layers": settings["encoder_layers"],
        "model.dropout": settings["dropout"],
        "model.tie_embeddings": bool(settings["share_decoder_input_output_embed"] or everything),
        "model.embedding.scale": "none" if settings["no_scale_embedding"] else "sqrt_dim",
        "model.embedding.shared": bool(everything),
        "model.embedding.norm": settings["layernorm_embedding"],
        "model.norm.kind": "layernorm",
        "model.norm.placement": "pre"
        if settings.same("encoder_normalize_before", "decoder_normalize_before")
        else "post",
        "model.norm.epsilon": 1e-5,
        "model.position.kind": "sinusoidal",
        "model.position.layout": "half",
        "model.position.endpoint": True,
        "model.position.offset": PADDING + 1,
        "model.attention.num_heads": settings["encoder_attention_heads"],
        "model.attention.dropout": settings["attention_dropout"],
        "model.ffn.hidden_dim": settings["encoder_ffn_embed_dim"],
        "objective.kind": "prefix",
    } | settings.choose("activation_fn", {name: ACTIVATIONS[name] for name in ("relu", "gelu")})
    for name, field in (
        ("layers", "num_layers"),
        ("attention_heads", "attention.num_heads"),
        ("ffn_embed_dim", "ffn.hidden_dim"),
    ):
        if settings[f"decoder_{name}"] != settings[f"encoder_{name}"]:
            fields[f"model.decoder.{field}"] = settings[f"decoder_{name}"]
    _reject_unsupported(settings, dim)
    settings.finish()
    return fields


def _reject_unsupported(settings: SettingsReader, dim: int) -> None:
    """Rejects arguments of models that this library does not have."""
    settings.expect(
        False,
        None,
        encoder_learned_pos="expected sinusoids",
        decoder_learned_pos="expected sinusoids",
        no_token_positional_embeddings="expected sinusoids",
        no_cross_attention="expected a decoder that reads the encoder",
        adaptive_input="adaptive embeddings are not supported",
        cross_self_attention="expected one attention at a time",
    )
    settings.expect(
        None,
        adaptive_softmax_cutoff="adaptive softmax is not supported",
        encoder_layers_to_keep="all layers are kept",
        decoder_layers_to_keep="all layers are kept",
    )
    settings.expect(
        0,
        None,
        encoder_layerdrop="leaving out layers in training is not supported",
        decoder_layerdrop="leaving out layers in training is not supported",
    )
    settings.expect(
        None, dim, decoder_input_dim="expected decoder_embed_dim", decoder_output_dim="expected decoder_embed_dim"
    )
    arch = settings.get("arch", "transformer")
    if not arch.startswith("transformer") or "_lm" in arch:
        settings.reject("arch", "expected transformer or one of its sizes")
    elif arch not in BASES and (missing := [name for name in OF_SIZES if name not in settings.given]):
        settings.reject("arch", f"the defaults of this architecture are not known; give {', '.join(missing)}")


def _padded(rows: int, all_rows: int) -> Transform:
    """Converts between a table of `rows` rows and ours, which ends in rows of 0."""
    return Transform(
        lambda x: (np.concatenate([x, np.zeros((all_rows - rows, *x.shape[1:]), x.dtype)]),),
        lambda parts: parts[0][:rows],
    )


def rules(config: ResolvedConfig, source_rows: int) -> Rules:
    """Returns the rules of a model.

    Args:
        config: the `model` part of a resolved config.
        source_rows: length of the source's dictionary.
    """
    sides = [
        replace(rule, name=rule.name.removeprefix("model."))
        for rule in bart.rules(config)
        if isinstance(rule, Rule) and rule.name.startswith(("model.encoder.", "model.decoder."))
    ]
    source, target = EMBEDDINGS
    own = Rule(
        source,
        ("source_embedding",),
        IDENTITY if source_rows == config.vocab_size else _padded(source_rows, config.vocab_size),
    )
    head = "decoder.output_projection.weight"
    return [
        Rule(target, ("embedding",)),
        TiedTensor(source, target) if config.embedding.shared else own,
        *sides,
        TiedTensor(head, target) if config.tie_embeddings else Rule(head, ("head/weights",)),
        IgnoredTensors(r"(encoder|decoder)\.(version|embed_positions\._float_tensor)"),
    ]


def read_dictionary(path: Path) -> list[str]:
    """Returns the tokens of a `dict.LANGUAGE.txt` in the order of their ids.

    These are fairseq's four special tokens and those of the lines, "TOKEN COUNT".

    Raises:
        DataError: any other line, or a token that occurs twice.
    """
    try:
        # Not text mode, in which a carriage return within a token would end a line.
        lines = path.read_bytes().decode("utf-8-sig").removesuffix("\n").split("\n")
    except ValueError as error:
        raise DataError(f"{path}: not UTF-8") from error
    parts = [line.removesuffix("\r").removesuffix(" #fairseq:overwrite").rsplit(" ", 1) for line in lines]
    wrong = [number for number, part in enumerate(parts, 1) if len(part) != 2 or not part[1].isdecimal()]
    if wrong:
        raise DataError(f"{path}: line {wrong[0]} is not a token and its count")
    tokens = [*SPECIALS, *(token for token, _ in parts)]
    if len(set(tokens)) < len(tokens):
        raise DataError(f"{path}: {next(token for token in tokens if tokens.count(token) > 1)!r} occurs twice")
    return tokens


def dictionary_tokenizer(path: Path) -> PretrainedTokenizer:
    """Returns the tokenizer of a dictionary.

    Tokens are separated by spaces; unknown ones are <unk>. As in fairseq, a text may spell special
    tokens.
    """
    from tokenizers import AddedToken, models, pre_tokenizers
    from tokenizers import Tokenizer as Model

    model = Model(models.WordLevel({token: id for id, token in enumerate(read_dictionary(path))}, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    model.encode_special_tokens = True
    return PretrainedTokenizer(model)


def _find_dictionaries(folder: Path, arguments: Mapping[str, Any], rows: tuple[int, int]) -> tuple[Path, Path]:
    """Returns the dictionaries of source and target.

    They are those of the languages in the arguments, or those of the right lengths.
    """
    languages = [arguments.get(f"{side}_lang") for side in ("source", "target")]
    if all(languages):
        named = tuple(folder / f"dict.{language}.txt" for language in languages)
        if missing := [path for path in named if not path.is_file()]:
            raise ConfigError(
                f"{missing[0]} is missing, the dictionary of args.source_lang={languages[0]!r} or "
                f"args.target_lang={languages[1]!r} in {ARGUMENTS}"
            )
        return named
    tokens = {path: read_dictionary(path) for path in sorted(folder.glob("dict.*.txt"))}
    # Copies of a dictionary count once.
    found = [path for path in tokens if tokens[path] not in [tokens[other] for other in tokens if other < path]]
    fits = [[path for path in found if len(tokens[path]) == length] for length in rows]
    if any(len(paths) != 1 for paths in fits):
        described = ", ".join(f"{path.name} of {len(tokens[path])} tokens" for path in found) or "none"
        raise ConfigError(
            f"{folder}: cannot tell the dictionaries of source ({rows[0]} tokens) and target ({rows[1]}) apart; found "
            f"{described}; args.source_lang and args.target_lang in {ARGUMENTS} name them"
        )
    return fits[0][0], fits[1][0]


def open_fairseq(folder: Path, ignored: Collection[str] = ()) -> CheckpointContents:
    """Opens the model of a folder.

    Args:
        folder: with the files.
        ignored: arguments that the importer does not know, to be ignored.

    Raises:
        ConfigError: arguments that cannot be expressed, missing files, a source with more tokens
            than the target.
        DataError: files with bad content.
    """
    arguments = read_object(folder / ARGUMENTS, 'the arguments, {"args": {...}},').get("args")
    if not isinstance(arguments, Mapping):
        raise DataError(f"{folder / ARGUMENTS} has no object args")
    try:
        arguments, left_out = without_ignored(read_config, CLASS, ARGUMENTS, arguments, ignored)
        fields = read_config(arguments)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{folder / ARGUMENTS} has a value of a wrong type: {type(error).__name__}: {error}"
        ) from error
    tensors = open_tensors(folder)
    tables = (EMBEDDINGS[1],) * 2 if fields["model.embedding.shared"] else EMBEDDINGS
    if missing := [name for name in dict.fromkeys(tables) if name not in tensors]:
        raise DataError([f"tensor {name} is missing" for name in missing])
    rows = tuple(tensors[name].shape[0] for name in tables)
    if rows[0] > rows[1]:
        raise ConfigError(
            f"{folder}: a source of {rows[0]} tokens and a target of {rows[1]}: rows without a token would be "
            "predicted too"
        )
    paths = _find_dictionaries(folder, arguments, rows)
    tokenizers = [dictionary_tokenizer(path) for path in paths]
    for path, tokenizer, length in zip(paths, tokenizers, rows, strict=True):
        if tokenizer.vocab_size != length:
            raise DataError(f"{path} has {tokenizer.vocab_size} tokens, its embedding {length} rows")

    def weights(config: ResolvedConfig) -> ParamsAndStats:
        _, params, stats = split(make_model(config))
        read = flatten(to_zoo(rules(config.model, rows[0]), tensors, params), "/")
        tensors.finish()
        return unflatten({path: read[path] for path in flatten(params, "/")}, "/"), stats

    files = (folder / ARGUMENTS, *weight_files(folder), *paths)
    note = (
        f"source tokens are those of {paths[0].name} ({SOURCE_TOKENIZER_FILE}), target tokens those of "
        f"{paths[1].name} (tokenizer.json)"
    )
    return CheckpointContents(
        CLASS,
        arguments,
        fields | {"model.vocab_size": rows[1]},
        weights,
        files,
        tokenizers[1],
        {"ignored": left_out} if left_out else {},
        (note,),
        extra_tokenizers={SOURCE_TOKENIZER_FILE: tokenizers[0]},
    )
