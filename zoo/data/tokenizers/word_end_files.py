"""BPE in which the last piece of a word ends in "</w>": the files of GPT-1 and of CLIP."""

from pathlib import Path
from typing import Any

WORD_END = "</w>"
# CLIP's pattern of one word, after the text is normalised (Radford et al. 2021, the published code).
CLIP_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def gpt1_model(path: Path) -> Any:
    """Returns GPT-1's tokenizer (Radford et al. 2018) as the `tokenizers` library has it.

    Text is lower-cased, loses its accents and is split at spaces and punctuation, as BERT's is; the
    authors split it by spaCy.

    Args:
        path: vocab.json, with merges.txt beside it.
    """
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    model = Model(
        models.BPE.from_file(
            str(path), str(path.with_name("merges.txt")), unk_token="<unk>", end_of_word_suffix=WORD_END
        )
    )
    model.normalizer = normalizers.BertNormalizer(lowercase=True)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.BPEDecoder(suffix=WORD_END)
    return model


def clip_model(path: Path) -> Any:
    """Returns CLIP's tokenizer (Radford et al. 2021, section 2.4): lower-cased, byte-level BPE.

    Args:
        path: vocab.json, with merges.txt beside it.
    """
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Model

    model = Model(
        models.BPE.from_file(
            str(path),
            str(path.with_name("merges.txt")),
            unk_token="<|endoftext|>",
            continuing_subword_prefix="",
            end_of_word_suffix=WORD_END,
        )
    )
    model.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words = pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True)
    model.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    ends = [decoders.Replace(WORD_END, " "), decoders.Strip(" ", 0, 1)]
    model.decoder = decoders.Sequence([decoders.ByteLevel(), *ends])
    return model
