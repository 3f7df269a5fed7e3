"""Token ids in files as a source: a place in the files, its documents, and what identifies it."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from zoo.data.sources.text_files import find_files
from zoo.data.sources.token_files import TokenFile, open_token_file
from zoo.errors import ConfigError, DataError, user_path

# Up to this number, all tokens are read for a fingerprint; of more, blocks at equal distances.
WHOLE_TOKENS = 1 << 24
_BLOCKS, _BLOCK_TOKENS = 1 << 10, 1 << 12
# How far the beginning of a document is looked for.
_LONGEST_DOCUMENT = 1 << 22
_READ_TOKENS = 1 << 20


class TokenArray:
    """Tokens of several files as one array, of which those that are asked for are read.

    Args:
        files: the files.
        start, stop: index of the first token and of the one after the last; by default all.
        vocab_size: V, which all ids must be below; None if that is not known.
    """

    def __init__(
        self, files: Sequence[TokenFile], start: int = 0, stop: int | None = None, vocab_size: int | None = None
    ):
        self._files, self._vocab_size = files, vocab_size
        self._ends = np.cumsum([len(file.tokens) for file in files])
        self.start, self.stop = start, int(self._ends[-1]) if stop is None else stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: slice) -> np.ndarray:
        """Returns consecutive tokens, int64. Raises as `take`."""
        first, last, _ = part.indices(len(self))
        found, place = [np.empty(0, np.int64)], self.start + first
        while place < self.start + last:
            number = int(np.searchsorted(self._ends, place, side="right"))
            tokens = self._files[number].tokens
            begin = place - (int(self._ends[number]) - len(tokens))
            ids = tokens[begin : begin + self.start + last - place].astype(np.int64)
            self._check(ids, number, begin)
            found.append(ids)
            place += len(ids)
        return np.concatenate(found)

    def take(self, indices: np.ndarray, mode: str = "clip") -> np.ndarray:
        """Returns tokens by index, int64 of the shape of `indices`, which are clipped.

        Raises:
            DataError: an id outside 0 .. V - 1.
        """
        places = self.start + np.clip(np.asarray(indices, np.int64), 0, len(self) - 1)
        numbers = np.searchsorted(self._ends, places, side="right")
        found = np.empty(places.shape, np.int64)
        for number in range(int(numbers.min(initial=0)), int(numbers.max(initial=-1)) + 1):
            chosen, tokens = numbers == number, self._files[number].tokens
            within = places[chosen] - (self._ends[number] - len(tokens))
            found[chosen] = ids = tokens[within]
            self._check(ids, number, within)
        return found

    def _check(self, ids: np.ndarray, number: int, places: Any) -> None:
        """Checks ids of a file; `places` are their indices there, or the first of them."""
        limit = 1 << 31 if self._vocab_size is None else self._vocab_size
        if not ids.size or 0 <= ids.min() <= ids.max() < limit:
            return
        wrong = int(np.flatnonzero((ids < 0) | (ids >= limit))[0])
        place = places[wrong] if np.ndim(places) else places + wrong
        raise DataError(
            f'"{self._files[number].path}": id {ids[wrong]} at token {place:,} is not one of the {limit:,} ids of the '
            "tokenizer; the file is of another type (data.token_dtype) or of another tokenizer"
        )

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields all tokens, a million at a time."""
        return (self[place : place + _READ_TOKENS] for place in range(0, len(self), _READ_TOKENS))


@dataclass(frozen=True, eq=False)
class StoredTokens:
    """Tokens from one place in files to another.

    Attributes:
        files: the files, in the order in which they are read.
        name: human-readable description.
        start, stop: index of the first token and of the one after the last, over all files.
        document_id: the token between two documents, which opens the second; None if unknown.
        vocab_size: V, which all ids must be below; None if unknown.
    """

    files: tuple[TokenFile, ...]
    name: str
    start: int
    stop: int
    document_id: int | None = None
    vocab_size: int | None = None

    @property
    def bytes(self) -> None:
        """Number of UTF-8 bytes of the text: unknown."""
        return None

    @property
    def left_out(self) -> Counter[str]:
        """Number of times that bad text was left out: none."""
        return Counter()

    @property
    def warnings(self) -> list[str]:
        """Lines about what may be a mistake in the config: none."""
        return []

    @cached_property
    def tokens(self) -> TokenArray:
        """The tokens."""
        return TokenArray(self.files, self.start, self.stop, self.vocab_size)

    def read_by(self, vocab_size: int, document_id: int | None) -> Self:
        """Returns the same tokens for a tokenizer, after the fingerprint has been computed.

        Raises:
            DataError: an id that the tokenizer does not have, among those of the fingerprint.
        """
        found = replace(self, vocab_size=vocab_size, document_id=document_id)
        found.fingerprint  # noqa: B018  (it is kept, and its tokens are checked)
        return found

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the number of tokens, of the ids, and of where the files say that documents
        begin; the same for every format and division into files.

        Of more than 2^24 tokens these are the ids of 1,024 blocks of 4,096 tokens, the first and the
        last among them, so another change of a large file may go unnoticed.
        """
        digest = hashlib.sha256(f"{self.stop - self.start} tokens".encode())
        for block in self._sample():
            digest.update(self.tokens[block].astype("<u4").data)
        if self._starts is not None:
            digest.update(f" {len(self._starts)} documents".encode())
            digest.update((self._starts[:: max(1, len(self._starts) // WHOLE_TOKENS)] - self.start).astype("<i8").data)
        return digest.hexdigest()

    @property
    def fingerprinted(self) -> int:
        """Number of tokens that the fingerprint covers."""
        count = self.stop - self.start
        return count if count <= WHOLE_TOKENS else _BLOCKS * _BLOCK_TOKENS

    def _sample(self) -> Iterator[slice]:
        """Yields the places of the tokens that are read for a fingerprint."""
        count = self.stop - self.start
        if count <= WHOLE_TOKENS:
            yield from (slice(place, place + _READ_TOKENS) for place in range(0, count, _READ_TOKENS))
            return
        for number in range(_BLOCKS):
            first = number * (count - _BLOCK_TOKENS) // (_BLOCKS - 1)
            yield slice(first, first + _BLOCK_TOKENS)

    @cached_property
    def _starts(self) -> np.ndarray | None:
        """First token of each document, by what the files say, int64; None where one does not."""
        if any(file.starts is None for file in self.files):
            return None
        before = np.cumsum([0, *(len(file.tokens) for file in self.files)])
        starts = [file.starts + begin for file, begin in zip(self.files, before[:-1], strict=True)]
        joined = starts[0] if len(starts) == 1 else np.concatenate(starts)
        return joined[np.searchsorted(joined, self.start) : np.searchsorted(joined, self.stop)]

    @cached_property
    def count(self) -> int | None:
        """Number of documents; None if it is unknown, or too many tokens would have to be read."""
        if self._starts is not None:
            return len(self._starts)
        if self.document_id is None or self.stop - self.start > WHOLE_TOKENS:
            return None
        opened = sum(int((block == self.document_id).sum()) for block in self.tokens.blocks())
        return opened + int(self.tokens[:1][0] != self.document_id)

    @property
    def description(self) -> str:
        """One-line description: name, size, and how much of it the fingerprint covers."""
        documents = f"{self.count:,} documents, " if self.count is not None else ""
        count = self.stop - self.start
        part = f", of which {self.fingerprinted:,} are fingerprinted" if self.fingerprinted < count else ""
        return f"{self.name}: {documents}{count:,} tokens{part}"

    def split(self, fraction: float, clustered: bool = False) -> tuple["StoredTokens", "StoredTokens"]:
        """Splits tokens into (training, validation): the end is held out, from the beginning of a
        document where documents are known.

        Raises:
            ConfigError: a fraction out of range; clusters, which need text.
            DataError: one side would be empty.
        """
        if not 0 < fraction < 1:
            raise ConfigError(f"data.validation_fraction: must lie between 0 and 1, both excluded; got {fraction}")
        if clustered:
            raise ConfigError("data.split=clustered compares texts, and tokens: has none; take data.split=documents")
        count = self.stop - self.start
        border = self._document_start(self.start + count - math.ceil(count * fraction))
        if not self.start < border < self.stop:
            raise DataError(
                f"data.validation_fraction: {fraction} of {self.description} leaves the "
                f"{'training' if border <= self.start else 'validation'} part empty; take more tokens or another "
                "fraction"
            )
        return self._part("training", self.start, border), self._part("validation", border, self.stop)

    def subset(self, fraction: float) -> "StoredTokens":
        """Returns about this share of the tokens, from the beginning.

        Raises:
            DataError: nothing would be left.
        """
        if fraction == 1:
            return self
        try:
            return self.split(1 - fraction)[0]
        except DataError as error:
            raise DataError(
                f"data.training_fraction: {fraction} of {self.description} leaves nothing; take a larger share"
            ) from error

    def _part(self, name: str, start: int, stop: int) -> "StoredTokens":
        return replace(self, name=f"{name} part of {self.name}", start=start, stop=stop)

    def _document_start(self, place: int) -> int:
        """Returns where the first document begins at `place` or later.

        It is `place` if none does within 4 million tokens.
        """
        if self._starts is not None:
            later = self._starts[np.searchsorted(self._starts, place) :]
            return int(later[0]) if len(later) else place
        if self.document_id is None:
            return place
        for first in range(place, min(place + _LONGEST_DOCUMENT, self.stop), _READ_TOKENS):
            begin = first - self.start
            found = np.flatnonzero(self.tokens[begin : begin + _READ_TOKENS] == self.document_id)
            if len(found):
                return first + int(found[0])
        return place

    def check_boundaries(self) -> None:
        """Checks that documents can be told apart by the tokens between them.

        Raises:
            DataError: none of the tokens that are looked at is that between documents, or documents
                of the files neither begin nor end with it, or it stands inside one of them.
        """
        shown = f"data.isolate_documents=true: {self.name}"
        if self._starts is not None:
            chosen = self._starts[1 :: max(1, len(self._starts) // 1000)] - self.start
            first, last = self.tokens.take(chosen) == self.document_id, self.tokens.take(chosen - 1) == self.document_id
            if not (first | last).all():
                raise DataError(
                    f"{shown}: {int((~(first | last)).sum()):,} of {len(chosen):,} documents do not begin with id "
                    f"{self.document_id}, and the one before does not end with it; write the files with --append-eod, "
                    "or set data.tokenizer.document_id"
                )
            self._check_no_inner_boundary(shown)
        elif not any((self.tokens[block] == self.document_id).any() for block in self._sample()):
            raise DataError(
                f"{shown}: id {self.document_id}, which should stand between documents, occurs nowhere; set "
                "data.tokenizer.document_id"
            )

    def _check_no_inner_boundary(self, shown: str) -> None:
        """Checks that the token between documents, which isolation goes by, divides no document of the
        files, as it would where it also ends the turns of a dialogue.

        Raises:
            DataError: naming the first place among the tokens that are looked at.
        """
        edges = np.append(self._starts - self.start, len(self.tokens))
        for block in self._sample():
            found = block.start + np.flatnonzero(self.tokens[block] == self.document_id)
            inner = found[~(np.isin(found, edges) | np.isin(found + 1, edges))]
            if len(inner):
                raise DataError(
                    f"{shown}: id {self.document_id} also stands inside documents, as at token {inner[0]:,}, and would "
                    "divide them; write the files with another id between documents, and set data.tokenizer.document_id"
                )


def stored_tokens(argument: str, data: Any) -> StoredTokens:
    """Opens files of token ids: a file, a folder or a glob pattern, sorted by path.

    Megatron's two files may be named by the part of the name that they share.

    Raises:
        ConfigError, DataError: as `open_token_file`.
    """
    shared = user_path(argument)
    # Of a path without a name, as that of the working directory, it cannot be a part.
    index = shared.with_name(f"{shared.name}.idx") if shared.name else None
    found = (
        [index]
        if index is not None and index.is_file()
        else find_files(argument, "tokens", "train.bin", (".bin", ".npy"))
    )
    # Of Megatron's two files, one.
    paths = list(dict.fromkeys(path.with_suffix(".bin") if path.suffix == ".idx" else path for path in found))
    files = tuple(open_token_file(path, data.token_dtype) for path in paths)
    total = sum(len(file.tokens) for file in files)
    return StoredTokens(files, str(data.source) + (f" in {len(files)} files" if len(files) > 1 else ""), 0, total)
