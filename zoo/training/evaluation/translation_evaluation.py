"""Translates the held-out pairs of a run and scores the translations."""

import json
from collections.abc import Callable
from pathlib import Path

from flax import nnx
from jax.experimental import multihost_utils

from zoo.config import ResolvedConfig
from zoo.data import TranslationDataset
from zoo.decoding.beam_search import BeamSettings
from zoo.decoding.translate import sacrebleu_metrics, score_translations, translate
from zoo.files import write_atomic, write_json
from zoo.training.state import State

SCORES, TEXTS = "translations.json", "translations.jsonl"


class TranslationEvaluator:
    """Translates every held-out source once and scores the translations.

    The latest texts are in `translations.jsonl`, one line for each pair, and their scores with
    sacrebleu's signatures in `translations.json`.

    Args:
        config: the resolved config.
        dataset: has the held-out pairs.
        model: the abstract model.
        folder: where the two files go.

    Raises:
        ConfigError: sacrebleu is not installed.
    """

    def __init__(self, config: ResolvedConfig, dataset: TranslationDataset, model: nnx.Module, folder: Path):
        sacrebleu_metrics()
        self._config, self._dataset, self._model, self._folder = config, dataset, model, folder

    def is_due(self, step: int) -> bool:
        """Returns whether the evaluation at a step includes translations; those of initial values mean
        nothing.
        """
        every = self._config.training.translate_every
        return step == self._config.training.steps or bool(every and step and step % every == 0)

    def __call__(self, step: int, state: State, stopped: Callable[[], bool]) -> dict[str, float] | None:
        """Returns {"eval/bleu", "eval/chrf", "eval/exact_match"}, or None if a stop was requested.

        Args:
            step: updates done.
            state: with the weights to evaluate.
            stopped: asked regularly whether to stop.
        """
        search, pairs = self._config.objective, self._dataset.validation
        # Every process translates on one device, with the whole weights.
        params, stats = (multihost_utils.process_allgather(state[name], tiled=True) for name in ("params", "stats"))
        texts = translate(
            self._config,
            self._dataset.tokenizer,
            self._model,
            params,
            stats,
            pairs.sources,
            BeamSettings(search.beams, search.length_penalty),
            stopped,
        )
        if texts is None:
            return None
        scores = score_translations(texts, pairs.targets)
        lines = (
            {"source": source, "target": target, "translation": text}
            for source, target, text in zip(pairs.sources, pairs.targets, texts, strict=True)
        )
        write_atomic(self._folder / TEXTS, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        write_json(
            self._folder / SCORES,
            {
                "step": step,
                "pairs": len(pairs),
                "beams": search.beams,
                "length_penalty": search.length_penalty,
                **scores.values,
                "signatures": scores.signatures,
            },
        )
        return {f"eval/{name}": value for name, value in scores.values.items()}
