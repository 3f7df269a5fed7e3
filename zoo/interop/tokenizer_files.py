"""A run's tokenizer in the files that other libraries read."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.config import ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.tokenizers.byte_pair import byte_of_symbol
from zoo.data.tokenizers.pretrained_files import SENTENCEPIECE_NAMES
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer
from zoo.files import write_json

# Names of special tokens that have none in this library: the one that opens and so ends a document,
# the mask and the separator. Sentinels are named as in T5: the last id is the first sentinel.
OPENS, MASK, SEPARATOR = "<|endoftext|>", "[MASK]", "[SEP]"


def write_tokenizer(
    folder: Path,
    tokenizer: Tokenizer,
    config: ResolvedConfig,
    given: Mapping[str, Any] | None = None,
    names: Mapping[str, Any] = {},
) -> bool:
    """Writes `tokenizer.json`, or SentencePiece's `.model`, and `tokenizer_config.json`.

    Args:
        folder: to write into.
        tokenizer: the run's tokenizer.
        config: the run's config, resolved.
        given: the tokenizer_config.json of the import.
        names: names of the imported files.

    Returns:
        whether the tokenizer could be expressed.
    """
    objective, masked = config.objective, config.objective.kind in OBJECTIVE_KINDS.having("masking")
    if tokenizer.kind == "sentencepiece":
        if tokenizer.model_vocab_size(objective, config.data.row_format) > tokenizer.vocab_size:
            return False
        name = next((name for name in SENTENCEPIECE_NAMES if name in names), SENTENCEPIECE_NAMES[0])
        (folder / name).write_bytes(base64.b64decode(tokenizer.to_json()["content"]))
        more = {
            tokenizer.ids[token]: {"content": token, "special": True, "normalized": False} for token in tokenizer.added
        }
        given = {**tokenizer.roles, **({"added_tokens_decoder": more} if more else {}), **(given or {})}
        if given:
            write_json(folder / "tokenizer_config.json", given)
        return True
    model = to_fast_tokenizer(tokenizer, objective, config.data.row_format)
    if model is None:
        return False
    model.save(str(folder / "tokenizer.json"))
    if given is None:
        ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.bos_id}
        ids |= {"mask_token": tokenizer.mask_id} if masked else {}
        given = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": config.data.sequence_length,
        } | {name: model.id_to_token(id) for name, id in ids.items()}
    write_json(folder / "tokenizer_config.json", {**getattr(tokenizer, "roles", {}), **given})
    return True


def to_fast_tokenizer(tokenizer: Tokenizer, objective: ResolvedConfig, rows: str = "packed") -> Any:
    """Converts a tokenizer to the `tokenizers` library, or returns None if that is impossible.

    The result gives every text the same ids and includes the ids that the objective and the rows
    add. A character that a character vocabulary lacks is an error here, and dropped there.
    """
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Model

    more = [(tokenizer.bos_id, OPENS)]
    if tokenizer.kind == "bytes":
        model = Model(models.BPE(dict(byte_of_symbol()), []))
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        model.decoder = decoders.ByteLevel()
    elif tokenizer.kind == "characters":
        model = Model(models.BPE({piece.decode(): id for id, piece in enumerate(tokenizer.pieces[:-1])}, []))
        model.decoder = decoders.Fuse()
    elif tokenizer.kind == "bpe":
        model = Model.from_str(json.dumps(tokenizer.to_json()["model"]))
        model.decoder = decoders.ByteLevel()
    elif isinstance(tokenizer, PretrainedTokenizer):
        model, more = Model.from_str(json.dumps(tokenizer.to_json()["model"])), []
    else:
        return None
    added = tokenizer.model_vocab_size(objective, rows) - tokenizer.vocab_size
    spans = objective.kind in OBJECTIVE_KINDS.having("spans")
    of_spans = [f"<extra_id_{number}>" for number in reversed(range(added))] if spans else []
    names = of_spans or ([MASK] * (tokenizer.mask_id >= tokenizer.vocab_size) + [SEPARATOR])[:added]
    more += [(tokenizer.vocab_size + number, name) for number, name in enumerate(names)]
    for id, name in more:
        model.add_special_tokens([AddedToken(name, special=True, normalized=False)])
        if model.token_to_id(name) != id:
            return None
    return model
