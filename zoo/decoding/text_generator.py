"""Text from a trained run: prompts to tokens, tokens to text."""

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.config.kinds.side_lengths import side_lengths
from zoo.data.tokenizers.run_frame import frame_of_run
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE, Tokenizer
from zoo.decoding.generator import Generator
from zoo.decoding.sampling import Sampling
from zoo.decoding.special_tokens import read_special_tokens
from zoo.decoding.stop_strings import stop_table
from zoo.decoding.unmasking import UnmaskingGenerator
from zoo.errors import ConfigError, DataError
from zoo.models.functional import Params, Stats

# fairseq's name of the unknown token.
UNKNOWN = "<unk>"
BLANK = re.compile(r"<(\d+)>")
Prompt = str | Sequence[int]
"""A text, or its ids."""


@dataclass(frozen=True)
class PromptReading:
    """Limits on the text that a generator reads.

    Attributes:
        trained_length: largest number of tokens that the decoder read at once in training; infinite
            if unknown, None if the config tells.
        limited: without a cache, the decoder reads at most the last `trained_length` tokens;
            otherwise as many as with one, or as its table of positions has.
        special_tokens: special tokens that a prompt spells are read as such.
        frame: the special tokens around a text, of an imported run.
    """

    trained_length: float | None = None
    limited: bool = False
    special_tokens: bool = False
    frame: TextFrame | None = None


@dataclass(frozen=True)
class Completion:
    """The text generated for a prompt.

    Attributes:
        text: the new text, without the token or string that stopped it.
        tokens: number of new tokens, including the one that stopped it.
        stopped: whether a token or string stopped it, rather than the limit of new tokens.
        score: score of beam search, else None.
    """

    text: str
    tokens: int
    stopped: bool
    score: float | None = None


class TextGenerator:
    """A run's model and tokenizer, used as the run's objective trained them.

    causal: the model continues the prompt, which begins a document. masked_diffusion: it fills in
    masks after the prompt, in random order. prefix: the encoder reads the
    prompt and the decoder continues from its last token; a decoder alone reads the prompt as a
    whole and continues it. span: the encoder reads the prompt with a sentinel for each blank,
    "<0>", "<1>", ..., or one at the end if there is none; the decoder writes their contents, "<0>
    ... <1> ...". denoising: the encoder reads the prompt with [MASK] for each blank, and the
    decoder writes the whole text. translation: the encoder reads the prompt, and the decoder writes
    its translation. A model with a separate source tokenizer translates: the encoder reads the
    prompt and </s>, and the decoder begins with </s>, as in fairseq. A text ends at the first
    special token: where the model opens another document, or at a pretrained tokenizer's own end
    token.

    An imported model reads a prompt as its published class does, whatever its objective
    (`PromptReading.frame`): the encoder of T5 `text </s>` and its decoder <pad>, BART's encoder
    `<s> text </s>`, GPT-2 the text alone. Its texts end where the class ends them.

    Args:
        config: resolved, of the run.
        tokenizer: the run's tokenizer.
        model, params, stats: the abstract model and its values.
        source_tokenizer: the encoder's tokenizer, if it differs from the decoder's.
        reading: how prompts and the growing text are read.

    Attributes:
        trained_length: largest number of tokens that the decoder read at once in training. Infinite
            if unknown.

    Raises:
        ConfigError: the model does not generate, or its tokenizer has no special tokens to read.
    """

    def __init__(
        self, config: ResolvedConfig, tokenizer: Tokenizer, model: Any, params: Params, stats: Stats,
        source_tokenizer: Tokenizer | None = None, reading: PromptReading = PromptReading(),
    ):  # fmt: skip
        if config.objective.kind in TASKS:
            raise ConfigError(
                f"objective.kind={config.objective.kind}: the run has a head for its task and none for tokens, so it "
                "generates no text; eval.py scores it"
            )
        self.tokenizer, self.source_tokenizer, self.objective = tokenizer, source_tokenizer, config.objective
        both, length = config.model.architecture == "encoder_decoder", config.data.sequence_length
        self.trained_length: float = side_lengths(config.objective, length)[1] if both else length
        if reading.trained_length is not None:
            self.trained_length = reading.trained_length
        elif source_tokenizer is not None:
            self.trained_length = math.inf
        self._encode_text = read_special_tokens(tokenizer) if reading.special_tokens else tokenizer.encode
        self._fills_blanks = self._has("spans") or self._has("denoising")
        self._frame = reading.frame if source_tokenizer is None else None
        size, sentinels = tokenizer.vocab_size, config.objective.sentinels if self._has("spans") else 0
        # The sentinels of an objective are the last ids, the first one last.
        self._blanks = self._frame.blanks if self._frame else tuple(range(size + sentinels - 1, size - 1, -1))
        self.vocab_size = max(size, *(id + 1 for id in self._blanks)) if self._blanks else size
        # Published settings write -1 for "none", and ids of tokens that their tokenizer lacks.
        ends = (id for id in (self._frame.ends if self._frame else ()) if 0 <= id < self.vocab_size)
        self._trained_frame = frame_of_run(config, tokenizer, source_tokenizer)
        self._ends = frozenset(ends) or frozenset(self._trained_frame.ends) or tokenizer.end_ids
        limit = int(self.trained_length) if reading.limited and math.isfinite(self.trained_length) else None
        self.generator: Generator | UnmaskingGenerator
        if self._has("any_share"):
            allowed = np.ones(tokenizer.vocab_size, bool)
            allowed[[id for id in tokenizer.special_ids if id < tokenizer.vocab_size]] = False
            suffix = () if config.data.row_format == "packed" else (tokenizer.separator_id,)
            self.generator = UnmaskingGenerator(model, params, stats, tokenizer.mask_id, allowed, suffix)
        else:
            self.generator = Generator(
                model, params, stats, limit, bidirectional_prompt=not both and self._has("prefix")
            )

    @property
    def blanks(self) -> int:
        """Number of blanks that a prompt may have: "<0>", "<1>" ..."""
        return len(self._blanks)

    def longest_sequence(self, prompts: Sequence[Prompt], max_new_tokens: int) -> int:
        """Returns the length of the longest sequence that the decoder would read for these prompts."""
        return max_new_tokens - 1 + max(len(self.encode_prompt(prompt)[1]) for prompt in prompts)

    def fitting_tokens(self, prompts: Sequence[Prompt], most: int, cache: bool = True) -> int:
        """Returns how many new tokens, at most `most`, fit the table of positions after each prompt.

        It is 1 where none fits: generation then says which prompt is too long.
        """
        if not cache or self.generator.max_positions is None:
            return most
        longest = max(len(self.encode_prompt(prompt)[1]) for prompt in prompts)
        return max(1, min(most, self.generator.max_positions - self.generator.positions_read(longest, 0)))

    def sample(
        self,
        prompts: Sequence[Prompt],
        max_new_tokens: int,
        sampling: Sampling,
        seed: int,
        stop: Sequence[str] = (),
        cache: bool = True,
    ) -> list[Completion]:
        """Samples one text for each prompt.

        Args:
            prompts: texts, or their ids.
            max_new_tokens: largest number of new tokens per prompt.
            sampling: how tokens are chosen.
            seed: for the random choices.
            stop: strings that end a generated text, which does not include them.
            cache: as for `Generator.generate`.

        Raises:
            ConfigError: a prompt that the tokenizer cannot encode, or that is too long.
        """
        read = [self.encode_prompt(prompt) for prompt in prompts]
        return self.sample_encoded(read, max_new_tokens, sampling, seed, stop, cache)

    def sample_encoded(
        self,
        prompts: Sequence[tuple[Sequence[int], Sequence[int]]],
        max_new_tokens: int,
        sampling: Sampling,
        seed: int,
        stop: Sequence[str] = (),
        cache: bool = True,
    ) -> list[Completion]:
        """Samples one text for each result of `encode_prompt`, or what is left of it; arguments and
        errors are those of `sample`.
        """
        request = self._request_of(prompts, max_new_tokens, stop)
        made = self.generator.generate(sampling=sampling, key=jax.random.key(seed), cache=cache, **request)
        return [
            self._completion_of(read, *row, stop)
            for (read, _), *row in zip(prompts, made.tokens, made.lengths, strict=True)
        ]

    def beam_search(
        self,
        prompts: Sequence[str],
        max_new_tokens: int,
        beams: int,
        length_penalty: float,
        stop: Sequence[str] = (),
        cache: bool = True,
    ) -> list[Completion]:
        """Searches the most probable text for each prompt; see `zoo.decoding.beam_search.search`.

        Other arguments and errors are those of `sample`.
        """
        request = self._request(prompts, max_new_tokens, stop)
        found = self.generator.beam_search(beams=beams, length_penalty=length_penalty, cache=cache, **request)
        return [
            self._completion(*row, stop, float(score))
            for *row, score in zip(prompts, found.tokens[:, 0], found.lengths[:, 0], found.scores[:, 0], strict=True)
        ]

    def full_text(self, prompt: str, answer: Completion) -> str:
        """Returns the generated text, after its prompt if it continues the prompt."""
        return prompt + answer.text if self._continues else answer.text

    def _has(self, trait: str) -> bool:
        """Returns whether the objective has a trait."""
        return self.objective.kind in OBJECTIVE_KINDS.having(trait)

    @property
    def _continues(self) -> bool:
        """Whether the text continues its prompt, rather than fills blanks or translates."""
        writes_apart = self._frame is not None and bool(self._frame.decoder)
        return not (self._fills_blanks or self._translates or writes_apart)

    @property
    def _translates(self) -> bool:
        return self.objective.kind == "translation" or self.source_tokenizer is not None

    def _request(self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str]) -> dict[str, Any]:
        return self._request_of([self.encode_prompt(prompt) for prompt in prompts], max_new_tokens, stop)

    def _request_of(
        self, read: Sequence[tuple[Sequence[int], Sequence[int]]], max_new_tokens: int, stop: Sequence[str]
    ) -> dict[str, Any]:
        # Where neighbours decide what a token writes, the text is cut when all tokens are there.
        written = self.tokenizer.written_pieces() if stop else None
        table = stop_table(self.vocab_size, self._ends, stop if written else (), written or ())
        return {
            "prompts": [row for _, row in read],
            "max_new_tokens": max_new_tokens,
            "stop": table,
            "vocab_size": self.vocab_size,
            "sources": [source for source, _ in read] if self.generator.has_encoder else None,
        }

    def encode_prompt(self, prompt: Prompt) -> tuple[list[int], list[int]]:
        """Returns what the encoder reads of a prompt, and what the decoder begins with; of a decoder,
        the same tokens twice. Ids are read as they are.

        Raises:
            ConfigError: a prompt that the tokenizer cannot encode.
        """
        tokens = self._read(prompt) if isinstance(prompt, str) else list(prompt)
        return tokens, self._beginning(tokens)

    def _read(self, prompt: str) -> list[int]:
        """Returns the ids of a prompt, with the special tokens around it."""
        frame, opens = self._trained_frame, self.tokenizer.bos_id
        if self.source_tokenizer is not None and not self.tokenizer.has_source_side:
            return [*self._encode_source(prompt), *frame.after]
        if self._frame is not None:
            # Without a token there is nothing to continue.
            ids = self._frame.around(self._encode_blanks(prompt) if self._blanks else self._encode(prompt))
            return ids or list(self._frame.alone) or [opens]
        if self._fills_blanks:
            text = prompt if self._has("denoising") or BLANK.search(prompt) else prompt + "<0>"
            return [*frame.before, *self._encode_blanks(text), *frame.after]
        if self._translates:
            source = self.source_tokenizer or self.tokenizer.source_side
            return [*source.encode(prompt).tolist(), *frame.after]
        tokens = self._encode(prompt)
        # A prompt with special tokens may begin with this one.
        tokens = tokens if tokens[:1] == [opens] else [*self.tokenizer.opening_ids, *tokens]
        if not tokens:
            raise ConfigError(
                "--prompt is empty, and the run knows no token that opens a document; give ids, as --prompt 17"
            )
        return tokens

    def _beginning(self, tokens: list[int]) -> list[int]:
        """Returns what the decoder reads first, beside an encoder that reads `tokens`."""
        if self._frame is not None:
            return list(self._frame.decoder) if self.generator.has_encoder else tokens
        if self._translates or self._fills_blanks:
            return list(self._trained_frame.decoder)
        return tokens[-1:] if self.generator.has_encoder else tokens

    def _encode_blanks(self, text: str) -> list[int]:
        """Encodes a text in which "<0>", "<1>", ... are blanks."""
        # Parts alternate: text, number of a blank, text, ...
        parts = (
            self._blank_ids(int(part)) if place % 2 else self._encode(part)
            for place, part in enumerate(BLANK.split(text))
        )
        return [*itertools.chain(*parts)]

    def _encode(self, text: str) -> list[int]:
        try:
            return self._encode_text(text).tolist()
        except (DataError, UnicodeEncodeError) as error:
            raise ConfigError(f"--prompt {text!r}: {' '.join(str(error).split())}") from error

    def _encode_source(self, prompt: str) -> list[int]:
        """Encodes a text to translate.

        It must already consist of the dictionary's tokens: the program that divided the training
        text into them is not part of the model.
        """
        unknown = self.source_tokenizer.encode(UNKNOWN).tolist()
        for token in prompt.split():
            if token != UNKNOWN and self.source_tokenizer.encode(token).tolist() == unknown:
                raise ConfigError(
                    f"--prompt {prompt!r}: {token!r} is not a token of the run's {SOURCE_TOKENIZER_FILE}; "
                    "this model reads the tokens that it was trained on, separated by spaces, with @@ at the end of a "
                    f"token inside a word ({UNKNOWN} stands for any other)"
                )
        return self.source_tokenizer.encode(prompt).tolist()

    def _blank_ids(self, number: int) -> list[int]:
        if self._has("denoising"):
            return [self.tokenizer.mask_id]
        if number >= len(self._blanks):
            of = "the model's" if self._frame else f"objective.sentinels={len(self._blanks)},"
            raise ConfigError(f"blank <{number}> is past the last of {of} <{len(self._blanks) - 1}>")
        return [self._blanks[number]]

    def _completion(
        self, prompt: str, tokens: np.ndarray, length: int, stop: Sequence[str], score: float | None = None
    ) -> Completion:
        return self._completion_of(self.encode_prompt(prompt)[0], tokens, length, stop, score)

    def _completion_of(
        self, read: Sequence[int], tokens: np.ndarray, length: int, stop: Sequence[str], score: float | None = None
    ) -> Completion:
        ids = tokens[:length].tolist()

        def text_of(count: int) -> str:
            return self._continuation(read, ids[:count]) if self._continues else self._decode_blanks(ids[:count])

        text = text_of(len(ids))
        ends = [place for place in (text.find(each) for each in stop) if place >= 0]
        over = bool(ids) and ids[-1] in self._ends
        if ends:
            # The first tokens that spell a stop string.
            counts = range(len(ids) + 1)
            length = bisect_left(counts, True, key=lambda count: any(each in text_of(count) for each in stop))
        return Completion(text[: min(ends, default=len(text))], int(length), over or bool(ends), score)

    def _continuation(self, read: Sequence[int], ids: list[int]) -> str:
        """Decodes tokens that follow a prompt.

        Most pretrained tokenizers drop the space before the first token of a text, so prompt and
        continuation are decoded together.
        """
        before, after = self.tokenizer.decode(read), self.tokenizer.decode([*read, *ids])
        return after[len(before) :] if after.startswith(before) else self.tokenizer.decode(ids)

    def _decode_blanks(self, ids: list[int]) -> str:
        """Decodes tokens without their prompt; sentinels are not tokens of the tokenizer."""
        numbers, text = {id: number for number, id in enumerate(self._blanks)}, ""
        for is_blank, group in itertools.groupby(ids, numbers.__contains__):
            run = list(group)
            text += "".join(f"<{numbers[id]}>" for id in run) if is_blank else self.tokenizer.decode(run)
        return text
