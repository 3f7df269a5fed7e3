"""A trained model for use in Python: `zoo.load(RUN)`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float, Int

from zoo.analysis.activations import EncodedTexts, StackActivations, encode_texts, record_activations
from zoo.analysis.token_scores import token_scores
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.pipeline.show import token_name
from zoo.data.tokenizers.run_frame import ends_rows
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.decoding.sampling import Sampling
from zoo.decoding.text_generator import Completion, Prompt, PromptReading, TextGenerator
from zoo.errors import ConfigError, user_path
from zoo.inference.new_tokens import NEW_TOKENS
from zoo.inference.task_predictions import Prediction, TaskPredictor, predict_examples
from zoo.models.functional import Params, split
from zoo.training.trained_run import TrainedRun, load_trained

MASK = "[MASK]"


class TokenProbability(NamedTuple):
    """A token, as text, and its probability."""

    token: str
    probability: float


def load(folder: str | Path, step: str = "latest") -> "LoadedModel":
    """Loads a trained or imported run.

    Args:
        folder: the run's folder.
        step: "latest", "best" (lowest evaluation loss), or the number of a checkpoint.

    Raises:
        ConfigError: there is no such run or checkpoint.
        DataError: the checkpoint is damaged.
    """
    folder = user_path(folder)
    return LoadedModel(load_trained(folder, str(step)), folder)


class LoadedModel:
    """A model with its tokenizer. Texts are strings; results are numpy arrays on the host.

    Encoders read [CLS] text [SEP]; decoders read the text after the token that opens a document. An
    imported model reads what its published class and tokenizer put around a text. `tokens` shows what
    is read. All layers of a text are held at once, so texts should be short.

    Args:
        run: the run.
        folder: the run's folder.

    Attributes:
        run: its model, program and objective, for what has no method here.
        folder: the run's folder.
    """

    def __init__(self, run: TrainedRun, folder: Path):
        self.run, self.folder = run, folder

    def __repr__(self) -> str:
        model = self.config.model
        return f"<{model.architecture} of {self.num_parameters:,} parameters, {self.folder} at step {self.run.step}>"

    @property
    def config(self) -> ResolvedConfig:
        """The resolved config."""
        return self.run.config

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the run."""
        return self.run.tokenizer

    @property
    def parameters(self) -> Params:
        """Nested dicts of arrays."""
        return self.run.params

    @property
    def module(self) -> nnx.Module:
        """A Flax NNX module with the run's values, for what Flax does with modules (docs/flax.md).

        Every access builds a new one: what is changed in it changes neither this model nor the run. It
        is called with ids [B, T] and a `zoo.layers.context.Context`.
        """
        return nnx.merge(split(self.run.model)[0], self.run.params, self.run.stats)

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.run.params))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes of a task, in the order of their scores; empty for other objectives."""
        return self._task_predictions.labels if self.config.objective.kind in TASKS else ()

    @property
    def blanks(self) -> int:
        """Number of blanks that a text for `generate` may have: "<0>", "<1>" ..."""
        return self._generator.blanks

    @property
    def reads_masks(self) -> bool:
        """Whether "[MASK]" hides a token in a text."""
        return self.config.objective.kind in {*OBJECTIVE_KINDS.having("masked"), *OBJECTIVE_KINDS.having("denoising")}

    def tokens(self, text: Prompt) -> list[str]:
        """Returns the tokens that the model reads of a text or of ids, as text; special tokens have
        their names.
        """
        return [self._token_name(int(token)) for token in self._row(text)]

    def ids(self, text: str) -> list[int]:
        """Returns the ids of `tokens(text)`. What reads a text also takes ids, which are read as
        they are.
        """
        return self._row(text).tolist()

    def hidden_states(self, text: Prompt, target: str = "") -> dict[str, Float[np.ndarray, "layers T D"]]:
        """Returns the residual stream: the input of the first layer, then the output of each layer.

        Args:
            text: what the model reads, or its ids; of an encoder-decoder, what the encoder reads.
            target: what the decoder of an encoder-decoder reads.

        Returns:
            {"": states}, or {"encoder": states, "decoder": states}.

        Raises:
            ConfigError: the model is an ELMo, or the text is longer than its table of positions.
            DataError: the tokenizer cannot encode a text.
        """
        return {side: found.states[:, 0] for side, found in self._activations(text, target, maps=False).items()}

    def attention(self, text: Prompt, target: str = "") -> dict[str, list[Float[np.ndarray, "H T S"] | None]]:
        """Returns the attention weights of each layer; None for a layer that computes none.

        Args and errors are those of `hidden_states`.

        Returns:
            {"attention": maps}; of an encoder-decoder {"encoder attention", "decoder attention",
            "decoder cross_attention"}.
        """
        return {
            f"{side} {part}".strip(): [None if layer is None else layer[0] for layer in maps]
            for side, found in self._activations(text, target, maps=True).items()
            for part, maps in found.probabilities.items()
        }

    def logits(self, text: Prompt) -> Float[np.ndarray, "T V"]:
        """Returns the scores of all ids at each token of `tokens(text)`, in float32.

        Those of a decoder are for the next token; those of an encoder are for the token itself.

        Raises:
            ConfigError: the model has no head for tokens, or reads and writes different texts; or the
                text is longer than its table of positions.
            DataError: the tokenizer cannot encode the text.
        """
        return self._logits(self._row(text)[None])[0]

    def next_tokens(self, text: Prompt, count: int = 10) -> list[TokenProbability]:
        """Returns the most probable next tokens of a decoder, the most probable first.

        Raises:
            ConfigError: the model predicts no next token; also as `logits`.
        """
        if self.config.model.architecture != "decoder":
            raise ConfigError(
                f"model.architecture={self.config.model.architecture} predicts no next token; fill_mask is for "
                "encoders, generate for encoder-decoders"
            )
        if isinstance(text, str):
            text = self.run.frame.around(self.tokenizer.encode(text).tolist()) or list(self.tokenizer.opening_ids)
        return self._most_probable(self._logits(self._row(text)[None])[0, -1], count)

    def fill_mask(self, text: Prompt, count: int = 10) -> list[list[TokenProbability]]:
        """Returns the most probable tokens for each "[MASK]" in a text, or for each id of the mask,
        the most probable first.

        Raises:
            ConfigError: the model was not trained to fill in hidden tokens, or the text hides none.
            DataError: the tokenizer cannot encode the text.
        """
        kind = self.config.objective.kind
        if kind not in OBJECTIVE_KINDS.having("masked") or kind in OBJECTIVE_KINDS.having("replaced"):
            raise ConfigError(f"objective.kind={kind} fills in no hidden tokens")
        mask, row = self.tokenizer.mask_id, self._masked(text) if isinstance(text, str) else self._row(text).tolist()
        places = [place for place, token in enumerate(row) if token == mask]
        if not places:
            raise ConfigError(f"{text!r} hides no token: write {MASK}, or the id {mask}, in place of one")
        scores = self._logits(np.array([row], np.int32))[0]
        return [self._most_probable(scores[place], count) for place in places]

    def _masked(self, text: str) -> list[int]:
        """Returns the ids of a text in which "[MASK]" hides tokens.

        Where words' tokens begin with the space before them, as in byte-level BPE, a mask hides that
        space too, as RoBERTa's does.
        """
        parts = text.split(MASK)
        if any(len(piece) > 1 and piece.startswith(b" ") for piece in self.tokenizer.pieces):
            parts = [*(part.removesuffix(" ") for part in parts[:-1]), parts[-1]]
        encoded = [self.tokenizer.encode(part).tolist() if part else [] for part in parts]
        row = encoded[0]
        for part in encoded[1:]:
            row = [*row, self.tokenizer.mask_id, *part]
        return self.run.frame.around(row)

    def embed(self, texts: Sequence[Prompt]) -> Float[np.ndarray, "N D"]:
        """Returns one vector for each text: the mean of the last layer's states over its own tokens,
        or over all of a text's ids if these are given.

        Of an encoder-decoder, those of the encoder. Cosines of these vectors compare texts
        (`similarity`).

        Raises:
            ConfigError, DataError: as `hidden_states`.
        """
        vectors = []
        for text in texts:
            states = next(iter(self.hidden_states(text).values()))[-1]
            if isinstance(text, str):
                encoded = self._encode([text])
                states = states[encoded.first : encoded.first + len(encoded.offsets[0].ids)]
            vectors.append(states.mean(axis=0))
        return np.stack(vectors)

    def similarity(self, texts: Sequence[Prompt]) -> Float[np.ndarray, "N N"]:
        """Returns the cosine of the vectors of each pair of texts; see `embed`."""
        vectors = self.embed(texts)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit @ unit.T

    def predict(self, examples: Sequence[str | tuple[str, str]]) -> list[Prediction]:
        """Returns the predictions of a model with a head for a task.

        Args:
            examples: texts to classify or to tag (words separated by spaces), pairs of texts to
                classify, or pairs (context, question).

        Raises:
            ConfigError: the run has another objective, or needs pairs where texts are given.
            DataError: the tokenizer cannot encode a text.
        """
        return predict_examples(self._task_predictions, examples)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        max_new_tokens: int | None = None,
        sampling: Sampling | None = None,
        seed: int = 0,
        stop: Sequence[str] = (),
        **chosen: float,
    ) -> list[Completion]:
        """Returns one text for each prompt: a continuation, a translation or what fills blanks.

        Args:
            prompts: one text or several, or their ids, which are read as they are; of an
                encoder-decoder by the encoder.
            max_new_tokens: largest number of new tokens of each. Default: 100, or as many as fit the
                table of positions after the longest prompt.
            sampling: how tokens are chosen; by default the most probable one.
            seed: for the random choices.
            stop: strings that end a generated text, which does not include them.
            chosen: `temperature`, `top_k` and `top_p`, in place of `sampling`.

        Raises:
            ConfigError: the model does not generate text, a prompt is too long, or a number is out of
                range.
        """
        if chosen and sampling is not None:
            raise TypeError(f"give either sampling or {', '.join(chosen)}")
        sampling = Sampling(**chosen).checked() if chosen else sampling
        prompts = prompts if hasattr(prompts, "__len__") else list(prompts)
        several = [prompts] if _is_one(prompts) else prompts
        prompts = [each if isinstance(each, str) else self._row(each).tolist() for each in several]
        if max_new_tokens is None:
            max_new_tokens = self._generator.fitting_tokens(prompts, NEW_TOKENS)
        sampling = sampling or Sampling(temperature=0.0)
        if self._generator.generator.why_uncacheable() is None:
            return self._generator.sample(prompts, max_new_tokens, sampling, seed, stop)
        # RoPE whose angles follow the length of the longest text of a batch: each is read alone.
        return [
            answer
            for number, prompt in enumerate(prompts)
            for answer in self._generator.sample([prompt], max_new_tokens, sampling, seed + number, stop, cache=False)
        ]

    @cached_property
    def _generator(self) -> TextGenerator:
        run = self.run
        return TextGenerator(
            run.config, run.tokenizer, run.model, run.params, run.stats, run.source_tokenizer,
            PromptReading(run.trained_length, frame=run.text_frame),
        )  # fmt: skip

    @cached_property
    def _task_predictions(self) -> TaskPredictor:
        return TaskPredictor(self.run, self.folder)

    def _encode(self, texts: Sequence[str]) -> EncodedTexts:
        return encode_texts(texts, self.run.source_tokenizer or self.tokenizer, self.run.frame)

    def _row(self, text: Prompt) -> Int[np.ndarray, " T"]:
        """Returns the ids that the model reads of a text; given ids are checked.

        Raises:
            ConfigError: no ids, or ids that the model does not have.
        """
        if isinstance(text, str):
            return self._encode([text]).tokens[0]
        row, size = np.array(list(text)), self.config.model.vocab_size
        if row.ndim != 1 or not row.size or row.dtype.kind not in "iu" or row.min() < 0 or row.max() >= size:
            raise ConfigError(f"ids: expected at least one whole number from 0 to {size - 1:,}, as ids(text) returns")
        return row.astype(np.int32)

    def _activations(self, text: Prompt, target: str, maps: bool) -> Mapping[str, StackActivations]:
        run, both = self.run, self.config.model.architecture == "encoder_decoder"
        targets = None
        if both:
            ids = self.tokenizer.encode(target).tolist() if target else []
            targets = np.array([[*self.run.frame.decoder, *ids]], np.int32)
        return record_activations(run.config, run.model, run.params, run.stats, self._row(text)[None], targets, maps)

    def _logits(self, rows: np.ndarray) -> Float[np.ndarray, "B T V"]:
        run = self.run
        return token_scores(run.config, run.model, run.params, run.stats, rows)

    def _most_probable(self, scores: np.ndarray, count: int) -> list[TokenProbability]:
        scores = scores[: self.tokenizer.vocab_size]
        shifted = np.exp((scores - scores.max()).astype(np.float64))
        probabilities = shifted / shifted.sum()
        best = np.argsort(-probabilities, kind="stable")[:count]
        return [TokenProbability(self._token_name(int(token)), float(probabilities[token])) for token in best]

    def _token_name(self, token: int) -> str:
        return token_name(self.tokenizer, token, ends_rows(self.config))


def _is_one(prompts: Prompt | Sequence[Prompt]) -> bool:
    """Returns whether it is a single prompt: a text, or numbers."""
    if isinstance(prompts, str) or not len(prompts):
        return isinstance(prompts, str)
    return not isinstance(prompts[0], str) and np.ndim(prompts[0]) == 0
