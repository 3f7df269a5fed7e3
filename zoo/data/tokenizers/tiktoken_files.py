"""Files of the tiktoken library: one token a line, in base64, with its rank.

The text is divided by a pattern, and in each part the two neighbours are merged, again and again,
whose bytes together have the lowest rank. The file holds neither the pattern nor the special tokens.
Those of the published vocabularies are known by their number of ranks; beside another vocabulary,
tokenizer_config.json must name the token that opens a document, and the pattern is that of
cl100k_base, as in `transformers`.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.tokenizers.added_tokens import AddedTokens
from zoo.data.tokenizers.byte_pair import byte_of_symbol
from zoo.errors import ConfigError, DataError, listed

_LINE = re.compile(rb"[A-Za-z0-9+/]+=* \d+")
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_OTHERS}"
QWEN = rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_OTHERS}"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDINGS}?",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDINGS}?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+|\s+(?!\S)|\s+",
    ]
)


class Vocabulary(NamedTuple):
    """Pattern and special tokens of a published vocabulary, which its file lacks.

    Attributes:
        name: of the vocabulary.
        pattern: divides a text.
        special: special tokens with their ids.
    """

    name: str
    pattern: str
    special: Mapping[str, int]


def _llama3() -> dict[str, int]:
    known = {
        0: "<|begin_of_text|>",
        1: "<|end_of_text|>",
        6: "<|start_header_id|>",
        7: "<|end_header_id|>",
        9: "<|eot_id|>",
    }
    reserved = iter(range(256))
    return {known.get(place) or f"<|reserved_special_token_{next(reserved)}|>": 128000 + place for place in range(256)}


# By number of ranks.
PUBLISHED = {
    50256: Vocabulary("gpt2 or r50k_base", GPT2, {"<|endoftext|>": 50256}),
    50280: Vocabulary("p50k_base", GPT2, {"<|endoftext|>": 50256}),
    100256: Vocabulary(
        "cl100k_base",
        CL100K,
        {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
         "<|endofprompt|>": 100276},
    ),
    128000: Vocabulary("Llama 3", CL100K, _llama3()),
    151643: Vocabulary(
        "Qwen",
        QWEN,
        {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
        | {f"<|extra_{number}|>": 151646 + number for number in range(205)},
    ),
    199998: Vocabulary("o200k_base", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
}  # fmt: skip


def is_tiktoken(path: Path) -> bool:
    """Returns whether a file begins as tiktoken's do."""
    with path.open("rb") as file:
        line = file.readline(1 << 12)
    return _LINE.fullmatch(line.rstrip(b"\r\n")) is not None


def read_tiktoken(path: Path) -> Any:
    """Reads a file as a model of the `tokenizers` library.

    Raises:
        ConfigError: nothing says which tokens are special.
        DataError: it is damaged.
    """
    ranks, added = _ranks(path), AddedTokens.beside(path)
    known = PUBLISHED.get(len(ranks))
    if known is None and "bos_token" not in added.roles:
        names = ", ".join(vocabulary.name for vocabulary in PUBLISHED.values())
        raise ConfigError(
            f"data.tokenizer.path={path}: a tiktoken file of {len(ranks):,} ranks, which is none of {names}; such a "
            "file has no special tokens: add tokenizer_config.json with bos_token, or save the tokenizer as "
            "tokenizer.json"
        )
    special = {**(known.special if known else {}), **{token.content: id for id, token in added.by_id.items()}}
    if taken := [f"{name} has the id {id}" for name, id in special.items() if id in {*ranks.values()}]:
        raise DataError(f"{listed(taken, 3)}, which is the rank of a token of text; the files do not belong together")
    return tiktoken_model(ranks, known.pattern if known else CL100K, special, [*(known.special if known else {})])


def _ranks(path: Path) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                token, rank = line.split()
                found[base64.b64decode(token, validate=True)] = int(rank)
            except (ValueError, binascii.Error):
                raise DataError(f"line {number} is no token in base64 with its rank: {line[:40]!r}") from None
    if len({*found.values()}) != len(found):
        raise DataError("two tokens have the same rank")
    return found


def tiktoken_model(ranks: Mapping[bytes, int], pattern: str, tokens: Mapping[str, int], special: list[str]) -> Any:
    """Returns a model of the `tokenizers` library with the ids of tiktoken.

    Args:
        ranks: id of each token's bytes, which is also its rank.
        pattern: divides a text.
        tokens: further tokens with their ids.
        special: those of them that no text becomes.
    """
    from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Model

    symbols = {byte: symbol for symbol, byte in byte_of_symbol().items()}

    def written(token: bytes) -> str:
        return "".join(symbols[byte] for byte in token)

    # tiktoken asks only for the rank of the bytes of two neighbours, so every division of a token is a
    # merge.
    pairs = [
        (rank, ranks[token[:cut]], ranks[token[cut:]], token[:cut], token[cut:])
        for token, rank in ranks.items()
        for cut in range(1, len(token))
        if token[:cut] in ranks and token[cut:] in ranks
    ]
    merges = [(written(left), written(right)) for *_, left, right in sorted(pairs)]
    vocabulary = {written(token): rank for token, rank in ranks.items()} | dict(tokens)
    model = Model(models.BPE(vocabulary, merges, ignore_merges=True))
    divided = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [divided, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    model.decoder = decoders.ByteLevel()
    model.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return model
