"""The three kinds of requests of the harness, as texts: log-probabilities of continuations and of
whole texts, and generated texts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.decoding.sampling import Sampling
from zoo.decoding.text_generator import PromptReading, TextGenerator
from zoo.errors import ConfigError, DataError
from zoo.harness.scoring import ROWS, Continuation, ContinuationScorer
from zoo.training.trained_run import TrainedRun

NEW_TOKENS = 256
"""Most tokens that are generated where a task does not say."""
# Arguments of `generate_until` that are read.
_ARGUMENTS = ("until", "max_gen_toks", "max_new_tokens", "max_tokens", "do_sample", "temperature", "top_k", "top_p")
# These change nothing where one text is written for a context, and no beams are searched.
_INERT = ("stop_sequences", "early_stopping", "use_cache", "max_length")
_ONE = ("num_beams", "num_return_sequences")


class TextRequests:
    """Answers requests with a run that generates text token by token.

    Texts are read as the run's objective, or its published class, reads prompts. Of a text that is
    longer than `max_length`, the last tokens are read.

    Args:
        run: the run.
        max_length: largest number of tokens that are read at once. Default: the rows of its
            training, and never more than its table of positions.
        rows: largest number of rows that are read at once.

    Attributes:
        run: the run.
        max_length: as resolved.
        scorer: scores the tokens.

    Raises:
        ConfigError: the model writes no text after another, or has fewer positions.
    """

    def __init__(self, run: TrainedRun, max_length: int | None = None, rows: int = ROWS):
        config = run.config
        kind, architecture = config.objective.kind, config.model.architecture
        if architecture not in ("decoder", "encoder_decoder"):
            raise ConfigError(
                f"model.architecture={architecture}: the harness scores and continues texts token by token, which "
                "decoders and encoder-decoders do"
            )
        fills = kind in (*OBJECTIVE_KINDS.having("spans"), *OBJECTIVE_KINDS.having("denoising"))
        if fills and run.text_frame is None:
            raise ConfigError(f"objective.kind={kind} fills blanks, and the harness asks for what follows a text")
        self.run, self.rows = run, rows
        # An encoder reads the beginning of the text that the decoder continues.
        self._splits = architecture == "encoder_decoder" and kind in OBJECTIVE_KINDS.having("prefix")
        self._splits = self._splits and run.text_frame is None
        self._text = TextGenerator(
            config, run.tokenizer, run.model, run.params, run.stats, run.source_tokenizer,
            PromptReading(run.trained_length, frame=run.text_frame),
        )  # fmt: skip
        self.scorer = ContinuationScorer(run, rows)
        self.scorer.generator = self._text.generator
        self.max_length = self._resolved_length(max_length)
        # A text without a context begins with this token.
        self._opening = self._text.encode_prompt("")

    def _resolved_length(self, asked: int | None) -> int:
        table = self._text.generator.max_positions
        if asked is not None and table is not None and asked > table:
            raise ConfigError(f"max_length={asked}: positions end at {table}")
        usual = self._text.trained_length
        length = asked or min(usual, math.inf if table is None else table)
        return int(length) if math.isfinite(length) else 2048

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, bool]]:
        """Returns log p(continuation | context), in nats, and whether greedy decoding would write the
        continuation, of pairs (context, continuation).

        Spaces at the end of a context are read as the beginning of the continuation. The tokens of
        the continuation are those of both texts together without as many as the context has alone.

        Raises:
            ConfigError: the tokenizer cannot encode a text, or makes no tokens of a continuation.
        """
        scores = self.scorer.score([self._limited(self.encoded(*pair)) for pair in pairs])
        return [(score.log_probability, score.greedy) for score in scores]

    def loglikelihood_rolling(self, texts: Sequence[str]) -> list[float]:
        """Returns log p(text), in nats, each token after as many tokens before it as are read at once.

        A text is cut into windows of `max_length` tokens. The last one begins earlier and overlaps
        the one before, so that its tokens have as much context, and each token is scored once.

        Raises:
            ConfigError: as `loglikelihood`; an encoder-decoder, which has no text before its first.
        """
        if self._text.generator.has_encoder:
            raise ConfigError("model.architecture=encoder_decoder: log p(text) of a whole text is that of a decoder")
        windows = [list(self._windows(text)) for text in texts]
        scores = iter(self.scorer.score([one for parts in windows for one in parts]))
        return [math.fsum(next(scores).log_probability for _ in parts) for parts in windows]

    def generate_until(self, requests: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """Returns the text after each context, without the string that ends it.

        Args:
            requests: pairs (context, arguments): `until`, strings that end the text; `max_gen_toks`;
                `do_sample` with `temperature`, `top_k` and `top_p`, otherwise greedy. Where
                `max_gen_toks` leaves no room for a context, half of `max_length` is new.

        Raises:
            ConfigError: an argument that is not known, or asks for beams or several texts; as
                `loglikelihood`.
        """
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, (_, arguments) in enumerate(requests):
            groups.setdefault(_settings(arguments), []).append(number)
        found = [""] * len(requests)
        # What cannot be cached depends on the longest text of a batch, so that each is read alone.
        cache = self._text.generator.why_uncacheable() is None
        drawn = 0
        for (until, asked, sampling), numbers in groups.items():
            new = asked if asked < self.max_length else max(1, self.max_length // 2)
            read = {number: self._prompt(requests[number][0], self.max_length - new) for number in numbers}
            # Of unequal contexts, neighbours are about as long.
            for part in _parts(sorted(numbers, key=lambda number: -len(read[number][1])), self.rows if cache else 1):
                # A task may ask for many texts after one context: batches have their own numbers.
                drawn += 1
                texts = self._text.sample_encoded([read[number] for number in part], new, sampling, drawn, until, cache)
                for number, completion in zip(part, texts, strict=True):
                    found[number] = completion.text
        return found

    def encoded(self, context: str, continuation: str) -> Continuation:
        """Returns the tokens of a pair."""
        rest = context.rstrip()
        context, continuation = rest, context[len(rest) :] + continuation
        if self._text.generator.has_encoder and not (self._splits and context):
            source, first = self._text.encode_prompt(context)
            return Continuation(tuple(first), self._encoded(continuation), tuple(source))
        if not context:
            opening, tokens = tuple(self._opening[1]), self._encoded(continuation)
            # A text may spell this token itself.
            if tokens[: len(opening)] == opening and len(tokens) > len(opening):
                return Continuation(opening, tokens[len(opening) :])
            return Continuation(opening, tokens)
        before = tuple(self._before(context)) or tuple(self._opening[1])
        # What the tokenizer makes of both texts together may be no longer than the context alone.
        tokens = tuple(self._before(context + continuation))[len(before) :] or self._encoded(continuation)
        return Continuation(before[-1:], tokens, before) if self._splits else Continuation(before, tokens)

    def _encode(self, text: str) -> list[int]:
        try:
            return self.run.tokenizer.encode(text).tolist()
        except (DataError, UnicodeEncodeError) as error:
            raise ConfigError(f"{text!r:.60}: {' '.join(str(error).split())}") from error

    def _encoded(self, text: str) -> tuple[int, ...]:
        if not (found := tuple(self._encode(text))):
            raise ConfigError(f"the run's tokenizer makes no tokens of the continuation {text!r:.60}")
        return found

    def _before(self, text: str) -> list[int]:
        """Returns the tokens of a text that is continued: nothing follows them."""
        frame, ids = self.run.text_frame, self._encode(text)
        before = list(frame.before) if frame else list(self.run.tokenizer.opening_ids)
        return ids if before and ids[: len(before)] == before else [*before, *ids]

    def _prompt(self, context: str, length: int) -> tuple[list[int], list[int]]:
        source, start = self._text.encode_prompt(context)
        if self._text.generator.has_encoder:
            return source[-self._source_length :], start
        row = self._before(context)[-length:] or start
        return row, row

    @property
    def _source_length(self) -> int:
        table = self._text.generator.max_source_positions
        return self.max_length if table is None else table

    def _limited(self, request: Continuation) -> Continuation:
        """Returns the request with the last tokens that are read at once."""
        if self._text.generator.has_encoder:
            tokens = request.tokens[-(self.max_length - len(request.context)) :]
            return request._replace(source=request.source[-self._source_length :], tokens=tokens)
        tokens = request.tokens[-self.max_length :]
        room = self.max_length + 1 - len(tokens)
        return Continuation(request.context[-room:], tokens)

    def _windows(self, text: str) -> Iterator[Continuation]:
        opening, ids = tuple(self._opening[1]), tuple(self._encode(text))
        frame = self.run.text_frame
        # The harness also scores the first special token of a published tokenizer.
        ids = (*frame.before, *ids) if frame and ids[: len(frame.before)] != frame.before else ids
        whole = (opening[-1], *ids)
        return windows(whole, self.max_length)


def windows(tokens: Sequence[int], max_length: int) -> Iterator[Continuation]:
    """Yields the windows in which all tokens but the first are scored once, each with at most
    `max_length` tokens before its last.

    The first window has the first tokens. Each further one has the next `max_length`, after one token;
    the last one the rest, after as many as make it full.
    """
    tokens = tuple(tokens)
    start = 1
    while start < len(tokens):
        end = min(start + max_length, len(tokens))
        first = max(0, end - max_length - 1) if start > 1 else 0
        yield Continuation(tokens[first:start], tokens[start:end])
        start = end


def _settings(arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], int, Sampling]:
    """Returns (strings that end the text, most new tokens, sampling) of the arguments of a task."""
    if several := [f"{name}={arguments[name]}" for name in _ONE if (arguments.get(name) or 1) != 1]:
        raise ConfigError(f"generation_kwargs: {', '.join(several)}: one text is written for a context, without beams")
    if unknown := [name for name in arguments if name not in (*_ARGUMENTS, *_INERT, *_ONE)]:
        raise ConfigError(f"generation_kwargs: {', '.join(unknown)}: known are {', '.join(_ARGUMENTS)}")
    until = arguments.get("until") or ()
    until = (until,) if isinstance(until, str) else tuple(one for one in until if one)
    given = (arguments.get(name) for name in ("max_gen_toks", "max_new_tokens", "max_tokens"))
    most = next((int(value) for value in given if value is not None), NEW_TOKENS)
    temperature = float(arguments.get("temperature") or 0.0)
    # Without this flag, transformers takes the most probable token whatever the temperature is.
    if not arguments.get("do_sample", temperature > 0):
        temperature = 0.0
    elif "temperature" not in arguments:
        temperature = 1.0
    sampling = Sampling(temperature, int(arguments.get("top_k") or 0), float(arguments.get("top_p") or 1.0))
    return until, most, sampling.checked()


def _parts(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (numbers[start : start + size] for start in range(0, len(numbers), size))
