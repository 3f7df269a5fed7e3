"""Small tokenizers of every layout, trained on a few sentences, as people have them in files."""

import functools
import io
import json

CORPUS = (
    "the cat sat on the mat and the dog sat too",
    "a law of the place, and work of the day",
    "people read the file; the file has data",
    "x = [1, 2, 3]  # numbers 10 20 30",
) * 12
OPENS = "<|endoftext|>"


def byte_level(size=330, complete=True, corpus=CORPUS, **model_settings):
    """Byte-level BPE; `complete` begins with all 256 bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    model = Tokenizer(models.BPE(**model_settings))
    model.pre_tokenizer, model.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) if complete else []
    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=[OPENS], initial_alphabet=alphabet
    )
    model.train_from_iterator(corpus, trainer)
    return model


def without_some_bytes():
    """Byte-level BPE that knows only the bytes of its training text."""
    return byte_level(120, complete=False)


def with_added_words():
    """Byte-level BPE with added tokens that are no symbols of bytes, or mean other bytes as such."""
    from tokenizers import AddedToken

    model = byte_level()
    model.add_tokens([AddedToken(token, normalized=False) for token in ("café", "đem", "    ", "  ")])
    return model


def without_spaces():
    """Byte-level BPE after a division that drops white space."""
    from tokenizers import pre_tokenizers

    model = byte_level()
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    model.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return model


def normalised():
    """Byte-level BPE of text in NFC."""
    from tokenizers import normalizers

    model = byte_level()
    model.normalizer = normalizers.NFC()
    return model


def stripping():
    """Byte-level BPE with an added token that takes the white space around it."""
    from tokenizers import AddedToken

    model = byte_level()
    model.add_tokens([AddedToken("<tab>", lstrip=True, rstrip=True, normalized=False)])
    return model


def with_dropout():
    """Byte-level BPE whose file leaves dropout on."""
    return byte_level(dropout=0.4)


def wordpiece():
    """Lower-case WordPiece, as BERT's."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    model = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    model.normalizer, model.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    model.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=90, show_progress=False, special_tokens=specials)
    )
    return model


def byte_fallback():
    """BPE of characters with bytes for unknown ones and a space before the text, as LLaMA's."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    specials = ["<unk>", "<s>", "</s>"]
    letters = sorted({*"".join(CORPUS).replace(" ", "▁")})
    pieces = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), *letters, "th", "the", "▁the", "at"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("a", "t")]
    model = Tokenizer(
        models.BPE(
            {piece: id for id, piece in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True
        )
    )
    model.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    model.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    model.add_special_tokens(specials)
    return model


@functools.cache
def sentencepiece_content(**settings):
    """The bytes of a SentencePiece model."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(CORPUS), model_writer=model, hard_vocab_limit=False, minloglevel=2,
        **{"vocab_size": 70, "unk_id": 0, "bos_id": 1, "eos_id": 2, **settings},
    )  # fmt: skip
    return model.getvalue()


LIBRARY = {
    maker.__name__: maker
    for maker in (byte_level, without_some_bytes, with_added_words, without_spaces, normalised, stripping, with_dropout,
                  wordpiece, byte_fallback)
}  # fmt: skip
KINDS = (*LIBRARY, "sentencepiece")


def saved(folder, kind, **settings):
    """Writes a tokenizer of a kind, and tokenizer_config.json with `settings`; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "sentencepiece":
        (folder / "tokenizer.model").write_bytes(sentencepiece_content())
    else:
        LIBRARY[kind]().save(str(folder / "tokenizer.json"))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
