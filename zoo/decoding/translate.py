"""Translation of many texts by beam search, and translation metrics."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.decoding.beam_search import BeamSettings
from zoo.decoding.generator import Generator
from zoo.decoding.stop_strings import stop_table
from zoo.errors import ConfigError
from zoo.models.functional import Params, Stats


class TranslationScores(NamedTuple):
    """Scores of translations against references.

    Attributes:
        bleu: corpus BLEU (Papineni et al. 2002) on plain text with sacrebleu's defaults, 0 to 100
            (Post 2018).
        chrf: chrF2 (Popović 2015), likewise.
        exact_match: share of translations that equal their reference, 0 to 1.
        signatures: sacrebleu's description of how it computed "bleu" and "chrf".
    """

    bleu: float
    chrf: float
    exact_match: float
    signatures: dict[str, str]

    @property
    def values(self) -> dict[str, float]:
        """The numbers by name."""
        return {"bleu": self.bleu, "chrf": self.chrf, "exact_match": self.exact_match}


def sacrebleu_metrics() -> Any:
    """Returns the module `sacrebleu.metrics`.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from sacrebleu import metrics
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"translations are scored by the package {error.name}, which is missing: pip install {error.name}"
        ) from error
    return metrics


def score_translations(translations: Sequence[str], references: Sequence[str]) -> TranslationScores:
    """Compares each translation with its single reference. Raises ConfigError without sacrebleu."""
    metrics = sacrebleu_metrics()
    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    values = [metric.corpus_score(list(translations), [list(references)]).score for metric in (bleu, chrf)]
    same = np.mean([one == other for one, other in zip(translations, references, strict=True)])
    return TranslationScores(
        *values, float(same), {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    )


def translate(
    config: ResolvedConfig,
    tokenizer: Tokenizer,
    model: Any,
    params: Params,
    stats: Stats,
    sources: Sequence[str],
    settings: BeamSettings,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[str] | None:
    """Translates each text once, by `zoo.decoding.beam_search.search`.

    Texts of similar lengths are translated together, data.batch_size at a time. A translation ends
    at the token that ends targets, or after twice the tokens of the longest source of its batch
    plus ten, at most data.sequence_length. Longer sources are truncated to data.sequence_length
    tokens.

    Args:
        config: resolved, of a run with objective.kind=translation.
        tokenizer: the run's tokenizer.
        model, params, stats: the abstract model and its values.
        sources: the texts.
        settings: settings of the search.
        cancelled: polled between batches; True ends the translation.

    Returns:
        the translations, or None if cancelled.

    Raises:
        ConfigError: the model does not generate.
    """
    generator = Generator(model, params, stats)
    end, longest, rows = tokenizer.bos_id, config.data.sequence_length, config.data.batch_size
    cache, stop = generator.why_uncacheable() is None, stop_table(tokenizer.vocab_size, [end])
    ids = [[*tokens[: longest - 1].tolist(), end] for tokens in tokenizer.source_side.encode_batch(list(sources))]
    order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
    found = [""] * len(ids)
    for start in range(0, len(order), rows):
        if cancelled():
            return None
        numbers = order[start : start + rows]
        # The batch is filled up to a fixed number of rows, for which programs are compiled.
        together = [ids[number] for number in numbers] + [ids[numbers[-1]]] * (rows - len(numbers))
        max_new_tokens = min(2 * len(together[-1]) + 10, longest)
        made = generator.beam_search(
            [[tokenizer.start_id]] * rows, max_new_tokens, *settings, stop, together, tokenizer.vocab_size, cache
        )
        for number, tokens, length in zip(numbers, made.tokens[:, 0], made.lengths[:, 0], strict=False):
            found[number] = tokenizer.decode(
                [id for id in tokens[:length].tolist() if id not in tokenizer.special_ids]
            ).strip()
    return found
