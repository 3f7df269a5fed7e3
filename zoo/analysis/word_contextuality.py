"""How much a word's vector depends on its sentence, and whether it separates the word's senses.

Two occurrences have one form if the model reads the same pieces. `zoo.draw.contextuality` is the
command that prints and draws these measures for runs.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from zoo.analysis.word_senses import SENSES
from zoo.analysis.word_vectors import WordOccurrence, read_word_vectors
from zoo.data.tokenizers.word_level import WordTokenizer
from zoo.errors import ConfigError, DataError
from zoo.files import read_json
from zoo.training.trained_run import TrainedRun, load_trained

# Sampled pairs of different words, compared occurrences of one form, and random assignments of
# senses.
PAIRS, OCCURRENCES, SHUFFLES = 5000, 20, 10000


@dataclass(frozen=True)
class LayerContextuality:
    """The measures of one layer.

    Attributes:
        name: "input table", "first input" (with positions and segments), "layer 0", ...
        self_similarity: mean over forms of the mean cosine between two occurrences in different
            sentences (Ethayarajh 2019, section 3.1).
        anisotropy: mean cosine between occurrences of different forms.
        senses: mean over ambiguous words of (mean cosine within a sense - mean cosine across
            senses).
        by_word: the same difference for each word.
        shuffled: the central 95 % of `senses` when the sentences of each word are assigned to its
            senses at random.
        p: share of these assignments with a difference as large or larger.
    """

    name: str
    self_similarity: float
    anisotropy: float
    senses: float
    by_word: dict[str, float]
    shuffled: tuple[float, float]
    p: float

    @property
    def adjusted(self) -> float:
        """Self-similarity minus the similarity of any two words."""
        return self.self_similarity - self.anisotropy


def cosine(x: Float[np.ndarray, "*N E"], y: Float[np.ndarray, "*N E"]) -> Float[np.ndarray, "*N"]:
    """Returns x . y / sqrt((x . x) (y . y)): exactly 1 for equal vectors, 0 if one is zero."""
    below = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.divide((x * y).sum(-1), below, out=np.zeros_like(below), where=below > 0)


def similarity(
    words: Sequence[WordOccurrence], vectors: Float[np.ndarray, "layers N E"]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the self-similarity and the anisotropy of each layer.

    Raises:
        DataError: no form occurs in two sentences, or there is only one form.
    """
    random = np.random.default_rng(0)
    forms: dict[tuple[int, ...], list[int]] = {}
    for index, word in enumerate(words):
        forms.setdefault(word.ids, []).append(index)
    means = []
    for occurrences in forms.values():
        chosen = sorted(random.permutation(occurrences)[:OCCURRENCES].tolist())
        pairs = [
            pair for pair in itertools.combinations(chosen, 2) if words[pair[0]].sentence != words[pair[1]].sentence
        ]
        if pairs:
            one, other = np.array(pairs).T
            means.append(cosine(vectors[:, one], vectors[:, other]).mean(axis=1))
    if not means or len(forms) < 2:
        raise DataError("the texts are too few: no word occurs in two of them")
    one, other = random.integers(0, len(words), (2, PAIRS))
    different = np.array([words[a].ids != words[b].ids for a, b in zip(one, other, strict=True)])
    pairs = one[different], other[different]
    return np.mean(means, axis=0), np.concatenate(
        [cosine(layer[pairs[0]], layer[pairs[1]])[None] for layer in vectors]
    ).mean(axis=1)


def sense_differences(
    cosines: Float[np.ndarray, "layers N N"], senses: np.ndarray
) -> Float[np.ndarray, "layers orders"]:
    """Returns the mean cosine within a sense minus that across senses.

    Args:
        cosines: cosine of every two occurrences.
        senses: int [orders, N], the sense of each occurrence; every row has at least one pair
            within a sense and one across.
    """
    pairs = np.triu_indices(senses.shape[1], 1)
    same = (senses[:, pairs[0]] == senses[:, pairs[1]]).astype(np.float64)
    values = cosines[:, *pairs]
    return values @ same.T / same.sum(axis=1) - values @ (1 - same).T / (1 - same).sum(axis=1)


def sense_separation(
    vectors: Mapping[str, Float[np.ndarray, "layers N E"]], senses: Mapping[str, Sequence[int]]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Returns the difference of each word [layers], and the means under random senses.

    The second is the mean over words for each random assignment, [layers, orders].
    """
    random = np.random.default_rng(0)
    found, shuffled = {}, []
    for word, x in vectors.items():
        cosines, given = cosine(x[:, :, None], x[:, None]), np.array(senses[word])
        found[word] = sense_differences(cosines, given[None])[:, 0]
        shuffled.append(sense_differences(cosines, random.permuted(np.tile(given, (SHUFFLES, 1)), axis=1)))
    return found, np.mean(shuffled, axis=0)


def measure_contextuality(
    folder: Path, texts: Sequence[str] = (), step: str = "latest", senses: Mapping = SENSES
) -> list[LayerContextuality]:
    """Measures the layers of a run, lowest first.

    Args:
        folder: the run's folder.
        texts: sentences for self-similarity; by default those of `senses`.
        step: as for `load_trained`.
        senses: by word and sense, sentences in which the word occurs once.

    Raises:
        ConfigError: there is no such run, or it reads token ids of a dictionary of its own.
        DataError: the run cannot read the texts.
    """
    run = load_trained(folder, step)
    if run.source_tokenizer is not None:
        raise ConfigError(f"{folder} reads the tokens of a fixed dictionary, into which text cannot be split here")
    examples = [
        (word, number, text)
        for word, each in senses.items()
        for number, group in enumerate(each.values())
        for text in group
    ]
    of_senses, texts = [text for *_, text in examples], list(texts)
    tokenizer = _tokenizer(run, folder, (*of_senses, *texts))
    names, words, vectors = read_word_vectors(run, tokenizer, of_senses)
    chosen = {word: [] for word in senses}
    for index, found in enumerate(words):
        if found.word == examples[found.sentence][0]:
            chosen[found.word].append(index)
    for word, indices in chosen.items():
        if len({words[index].ids for index in indices}) != 1 or len(indices) != sum(map(len, senses[word].values())):
            raise DataError(f"the run reads {word!r} in different pieces, or not once in every sentence")
    by_word, shuffled = sense_separation(
        {word: vectors[:, indices] for word, indices in chosen.items()},
        {word: [examples[words[index].sentence][1] for index in indices] for word, indices in chosen.items()},
    )
    if texts:
        _, words, vectors = read_word_vectors(run, tokenizer, texts)
    own, others = similarity(words, vectors)
    return [
        _layer(
            name,
            float(own[layer]),
            float(others[layer]),
            {word: float(each[layer]) for word, each in by_word.items()},
            shuffled[layer],
        )
        for layer, name in enumerate(names)
    ]


def _tokenizer(run: TrainedRun, folder: Path, texts: Sequence[str]):
    """Returns the run's tokenizer, or for an imported ELMo one of the words of `texts`.

    An imported ELMo was trained on words, and reads any word by its characters.
    """
    meta = folder / "meta.json"
    if run.config.model.architecture == "elmo" and meta.is_file() and "imported" in read_json(meta):
        return WordTokenizer(itertools.chain.from_iterable(text.split() for text in texts))
    return run.tokenizer


def _layer(
    name: str, own: float, others: float, by_word: dict[str, float], shuffled: Float[np.ndarray, " orders"]
) -> LayerContextuality:
    senses = float(np.mean(list(by_word.values())))
    low, high = np.quantile(shuffled, [0.025, 0.975])
    p = (1 + np.count_nonzero(shuffled >= senses)) / (1 + SHUFFLES)
    return LayerContextuality(name, own, others, senses, by_word, (float(low), float(high)), float(p))
