"""What a run translates of its held-out pairs, and the files in which it keeps that."""

import json
from collections.abc import Callable
from pathlib import Path

from flax import nnx
from jax.experimental import multihost_utils

from zoo.config import ResolvedConfig
from zoo.data import TranslationDataset
from zoo.decoding.translate import sacrebleu_metrics, score_translations, translate
from zoo.files import write_atomic, write_json
from zoo.training.step import State

SCORES, TEXTS = "translations.json", "translations.jsonl"


class Translations:
    """Translates every held-out source once and scores what comes out; called with a step's state.

    The newest texts are in `translations.jsonl`, a line for each pair, and their scores with
    sacrebleu's signatures in `translations.json`.

    Args:
        config: resolved.
        dataset: its held-out pairs.
        model: the abstract model.
        workdir: the run's.

    Raises:
        ConfigError: sacrebleu is not installed.
    """

    def __init__(self, config: ResolvedConfig, dataset: TranslationDataset, model: nnx.Module, workdir: Path):
        sacrebleu_metrics()
        self._config, self._dataset, self._model, self._workdir = config, dataset, model, workdir

    def due(self, step: int) -> bool:
        """Whether the evaluation at a step translates."""
        every = self._config.training.translate_every
        return step == self._config.training.steps or bool(every and step % every == 0)

    def __call__(self, step: int, state: State, stopped: Callable[[], bool]) -> dict[str, float] | None:
        """Returns {"eval/bleu", "eval/chrf", "eval/exact_match"}, or None if `stopped` said so
        before the end.
        """
        how, pairs = self._config.objective, self._dataset.validation
        # On one device, in every process: what is sharded comes together.
        params, stats = (multihost_utils.process_allgather(state[name], tiled=True) for name in ("params", "stats"))
        texts = translate(
            self._config,
            self._dataset.tokenizer,
            self._model,
            params,
            stats,
            pairs.sources,
            how.beams,
            how.length_penalty,
            stopped,
        )
        if texts is None:
            return None
        scores = score_translations(texts, pairs.targets)
        lines = (
            {"source": source, "target": target, "translation": text}
            for source, target, text in zip(pairs.sources, pairs.targets, texts, strict=True)
        )
        write_atomic(self._workdir / TEXTS, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        write_json(
            self._workdir / SCORES,
            {
                "step": step,
                "pairs": len(pairs),
                "beams": how.beams,
                "length_penalty": how.length_penalty,
                **scores.values,
                "signatures": scores.signatures,
            },
        )
        return {f"eval/{name}": value for name, value in scores.values.items()}
