"""Tokenizers with special tokens of their own that are trained on the source: WordPiece as BERT has it, Unigram as T5 has it."""

import hashlib
import json
from abc import abstractmethod
from typing import Any, ClassVar, Self

from zoo.data.documents import Documents
from zoo.data.published import PublishedTokenizer, plain
from zoo.data.tokenizers import beside, load_tokenizer, training_chunks
from zoo.errors import ConfigError, DataError
from zoo.files import cache_directory


class TrainedTokenizer(PublishedTokenizer):
    """Trained on the training part only, once, and kept in the cache."""

    special_tokens: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def train(cls, settings: Any, training: Documents) -> Any:
        """A model of the `tokenizers` library."""

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        import tokenizers

        parts = f"{cls.kind} {settings.vocab_size} {settings.lowercase} {training.fingerprint} {tokenizers.__version__}"
        folder = cache_directory() / "tokenizers" / hashlib.sha256(parts.encode()).hexdigest()[:32]
        try:
            return load_tokenizer(folder)
        except (ConfigError, DataError):
            pass  # not there yet, or damaged
        tokenizer = cls(plain(cls.train(settings, training)))
        if tokenizer.vocab_size != settings.vocab_size:
            raise DataError(f"data.tokenizer.vocab_size: {settings.vocab_size} asked for, but {cls.kind} on the {training.description} "
                            f"yields {tokenizer.vocab_size}; ask for that, or take another text")
        tokenizer.save(folder)
        return tokenizer

    @classmethod
    def size_in_advance(cls, settings: Any) -> int:
        return int(settings.vocab_size)

    @classmethod
    def ids_in_advance(cls, settings: Any, objective: Any, rows: str = "packed") -> int:
        return int(settings.vocab_size) + beside(objective, rows, "[MASK]" in cls.special_tokens, "[SEP]" in cls.special_tokens)


class WordPieceTokenizer(TrainedTokenizer):
    """WordPiece (Schuster & Nakajima 2012; Devlin et al. 2019): the longest piece of the vocabulary, again and again, word by word."""

    kind = "wordpiece"
    special_tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

    @classmethod
    def train(cls, settings: Any, training: Documents) -> Any:
        from tokenizers import Tokenizer as Model
        from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

        model = Model(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
        model.normalizer = normalizers.BertNormalizer(lowercase=settings.lowercase)
        model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        model.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=settings.vocab_size, special_tokens=list(cls.special_tokens), show_progress=False)
        model.train_from_iterator(training_chunks(training), trainer)
        return model


class UnigramTokenizer(TrainedTokenizer):
    """The likeliest cut under a unigram model of pieces (Kudo 2018); characters that the vocabulary lacks are spelled in bytes."""

    kind = "unigram"
    special_tokens = ("<pad>", "</s>", "<unk>")

    @classmethod
    def train(cls, settings: Any, training: Documents) -> Any:
        from tokenizers import Tokenizer as Model
        from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

        model = Model(models.Unigram())
        changes = [normalizers.NFKC(), *([normalizers.Lowercase()] if settings.lowercase else [])]
        model.normalizer = normalizers.Sequence(changes)
        model.pre_tokenizer = pre_tokenizers.Metaspace()
        model.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
        spelled = [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.UnigramTrainer(vocab_size=settings.vocab_size - len(spelled), special_tokens=list(cls.special_tokens),
                                          unk_token="<unk>", show_progress=False)
        model.train_from_iterator(training_chunks(training), trainer)
        return _spelling(model, spelled)


def _spelling(model: Any, spelled: list[str]) -> Any:
    """The model with a piece for every byte, for what its pieces cannot write; they are less likely than any other piece."""
    from tokenizers import Tokenizer as Model

    described = json.loads(model.to_str())
    vocabulary = described["model"]["vocab"]
    lowest = min(score for _, score in vocabulary) - 10.0
    described["model"] |= {"vocab": [*vocabulary, *([piece, lowest] for piece in spelled)], "byte_fallback": True}
    return Model.from_str(json.dumps(described))
