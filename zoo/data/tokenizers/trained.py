"""Tokenizers trained on the source, with special tokens: WordPiece as in BERT, Unigram as in T5.

The result depends only on the text and the settings. The trainers of the `tokenizers` library
iterate over hash tables in an order that differs between processes and decides ties. So WordPiece's
trainer is given the order of its characters, and Unigram's is replaced by that of the
`sentencepiece` library, which sorts.
"""

import io
import itertools
import re
from abc import abstractmethod
from collections import Counter
from typing import Any, ClassVar, Self

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.digits import digits_key, parts_of_word, single_digits
from zoo.data.tokenizers.fast_tokenizer import FastTokenizer
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.tokenizer import interruptible, num_extra_ids, training_chunks
from zoo.errors import DataError

# Increased whenever the same text yields another tokenizer, so that no old cache is used.
_RECIPE = 3
# Size of WordPiece's alphabet; a word with a rarer character is [UNK].
_ALPHABET = 1000
# SentencePiece silently drops words of more bytes than this; `training_chunks` are shorter.
_LONGEST_WORD = 1 << 20
# Replace characters that SentencePiece's trainer takes for the end of a word or of a field.
_HIDDEN = str.maketrans({"\t": "\U000f0000", "\n": "\U000f0001", "\r": "\U000f0002"})
_SHOWN = {ord(hidden): chr(shown) for shown, hidden in _HIDDEN.items()}


class TrainedTokenizer(FastTokenizer):
    """Trained on the training part only, once, and kept in the cache."""

    special_tokens: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def train(cls, settings: Any, training: Documents) -> Any:
        """Trains a model of the `tokenizers` library."""

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        import sentencepiece
        import tokenizers

        versions = f"{tokenizers.__version__} {sentencepiece.__version__} {_RECIPE}"
        key = f"{settings.vocab_size} {settings.lowercase} {training.fingerprint} {versions}{digits_key(settings)}"
        return cls.load_or_train(key, lambda: cls._trained(settings, training))

    @classmethod
    def _trained(cls, settings: Any, training: Documents) -> Self:
        tokenizer = cls(keep_own_tokens(cls.train(settings, training)))
        if tokenizer.vocab_size != settings.vocab_size:
            raise DataError(
                f"data.tokenizer.vocab_size: {settings.vocab_size} asked for, but {cls.kind} on the "
                f"{training.description} yields {tokenizer.vocab_size}; ask for that, or take another text"
            )
        return tokenizer

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return int(settings.vocab_size)

    @classmethod
    def known_model_vocab_size(cls, settings: Any, objective: Any, rows: str = "packed") -> int:
        return int(settings.vocab_size) + num_extra_ids(
            objective, rows, "[MASK]" in cls.special_tokens, "[SEP]" in cls.special_tokens
        )


class WordPieceTokenizer(TrainedTokenizer):
    """WordPiece: greedy longest match, word by word.

    Sources: Schuster & Nakajima 2012; Devlin et al. 2019.
    """

    kind = "wordpiece"
    special_tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

    @classmethod
    def train(cls, settings: Any, training: Documents) -> Any:
        from tokenizers import Tokenizer as Model
        from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

        def untrained(vocabulary: dict[str, int] | None = None) -> Model:
            model = Model(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
            model.normalizer = normalizers.BertNormalizer(lowercase=settings.lowercase)
            model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            model.decoder = decoders.WordPiece()
            return model

        model = untrained()
        first, later = _characters(model, training)
        # Special tokens get the first ids in the given order; any other order would be that of a
        # hash table, which would also decide ties.
        trainer = trainers.WordPieceTrainer(
            vocab_size=settings.vocab_size,
            special_tokens=[*cls.special_tokens, *first, *(f"##{character}" for character in later)],
            initial_alphabet=first,
            limit_alphabet=len(first),
            show_progress=False,
        )
        if settings.split_digits:
            # In training alone: no piece then holds a digit and another character, so the longest one
            # at a digit is that digit. The words of a text stay whole, and "##" marks what is inside.
            model.pre_tokenizer = single_digits([model.pre_tokenizer], [])
        interruptible(lambda: model.train_from_iterator(training_chunks(training), trainer))
        model = untrained(model.get_vocab())
        model.add_special_tokens(list(cls.special_tokens))
        return model


def _characters(model: Any, training: Documents) -> tuple[list[str], list[str]]:
    """Returns the most frequent characters of words, and those of them that occur within a word.

    Both lists are sorted.
    """
    counts, pairs = Counter(), set()
    for chunk in training_chunks(training):
        text = model.normalizer.normalize_str(chunk)
        counts.update(text)
        pairs.update(itertools.pairwise(text))
    cut = model.pre_tokenizer.pre_tokenize_str
    ranked = sorted((-count, character) for character, count in counts.items() if cut(character))
    first = sorted(character for _, character in ranked[:_ALPHABET])
    inside = {right for left, right in pairs if [word for word, _ in cut(left + right)] == [left + right]}
    return first, sorted(inside.intersection(first))


class UnigramTokenizer(TrainedTokenizer):
    """The most probable segmentation under a unigram model of pieces (Kudo 2018).

    Characters that the vocabulary lacks are spelled in bytes.
    """

    kind = "unigram"
    special_tokens = ("<pad>", "</s>", "<unk>")

    @classmethod
    def train(cls, settings: Any, training: Documents) -> Any:
        from tokenizers import Tokenizer as Model
        from tokenizers import decoders, models, normalizers, pre_tokenizers

        spelled = [f"<0x{byte:02X}>" for byte in range(256)]
        changes = normalizers.Sequence([normalizers.NFKC(), *([normalizers.Lowercase()] if settings.lowercase else [])])
        words = _words(changes, training)
        if settings.split_digits:
            words = _split_at_digits(words)
        pieces = _unigram_pieces(words, settings.vocab_size - len(spelled) - len(cls.special_tokens))
        # Bytes spell what the pieces cannot; they are less probable than any piece. The library reads
        # numbers of few digits as it wrote them, and others with an error in the last bit.
        lowest = round(min(score for _, score in pieces) - 10.0, 4)
        vocabulary = [*((name, 0.0) for name in cls.special_tokens), *pieces, *((piece, lowest) for piece in spelled)]
        model = Model(models.Unigram(vocabulary, unk_id=cls.special_tokens.index("<unk>"), byte_fallback=True))
        model.normalizer = changes
        model.pre_tokenizer = pre_tokenizers.Metaspace()
        model.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
        model.add_special_tokens(list(cls.special_tokens))
        return model


def _words(normalizer: Any, training: Documents) -> Counter[str]:
    """Counts each word: the text between two spaces, after the mark of a space."""
    counts: Counter[str] = Counter()
    for chunk in training_chunks(training):
        counts.update(normalizer.normalize_str(chunk).removeprefix(" ").split(" "))
    return Counter({f"▁{word}": count for word, count in counts.items()})


def _split_at_digits(words: Counter[str]) -> Counter[str]:
    """Counts the parts of words, each digit being one. No piece of these holds a digit and another
    character, so a text need not be split before its tokens are chosen.
    """
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for part in parts_of_word(word):
            counts[part] += count
    return counts


def _unigram_pieces(words: Counter[str], size: int) -> list[tuple[str, float]]:
    """Returns pieces of words with their log probabilities, most probable first.

    There are fewer than `size` if the words have no more.

    Raises:
        DataError: `size` is too small for the characters of the words.
    """
    import sentencepiece

    model = io.BytesIO()
    lines = (f"{word.translate(_HIDDEN)}\t{count}" for word, count in sorted(words.items()))
    try:
        interruptible(
            lambda: sentencepiece.SentencePieceTrainer.Train(
                sentence_iterator=lines,
                input_format="tsv",
                model_writer=model,
                model_type="unigram",
                vocab_size=size + 1,
                unk_id=0,
                bos_id=-1,
                eos_id=-1,
                pad_id=-1,
                normalization_rule_name="identity",
                add_dummy_prefix=False,
                remove_extra_whitespaces=False,
                hard_vocab_limit=False,
                max_sentence_length=_LONGEST_WORD,
                num_threads=1,
                minloglevel=2,
            )
        )
    except RuntimeError as error:
        problem = " ".join(str(error).split())
        if needed := re.search(r"required_chars\. \d+ vs (\d+)", problem):
            problem = f"the characters of the text alone need {int(needed[1]) - 1 - size} more"
        raise DataError(f"data.tokenizer.vocab_size: too few for unigram: {problem}") from error
    read = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    # Rounded, so that the last bit of a machine's logarithm does not change the tokenizer.
    return [(read.IdToPiece(id).translate(_SHOWN), round(read.GetScore(id), 4)) for id in range(1, read.GetPieceSize())]
