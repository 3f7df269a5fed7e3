"""How much a word's vector depends on its sentence, layer by layer, and whether it tells the senses
of a word apart.

    python -m zoo.analysis.contextuality RUN [RUN ...] [--text FILE] [--json] [--figure FILE]

A word's vector is the mean over its pieces. Two occurrences are of one form where the model reads
the same pieces.
"""

import argparse
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from zoo.analysis.activations import Rows, elmo_states, look_inside, rows_of, table_vectors
from zoo.analysis.word_senses import SENSES
from zoo.data.tokenizers.word_level import WordTokenizer
from zoo.errors import ConfigError, DataError, reported
from zoo.files import read_json
from zoo.training.trained_run import TrainedRun, load_trained

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
# Rows that are read at once, pairs of different words, occurrences of one form that are compared,
# and orders of the senses that are tried.
ROWS, PAIRS, OCCURRENCES, SHUFFLES = 32, 5000, 20, 10000
LINES = 500


class Occurrence(NamedTuple):
    """A word of a sentence: which sentence, the word as written, its pieces' ids, and their places
    among those of the sentence.
    """

    sentence: int
    word: str
    ids: tuple[int, ...]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """What one layer's vectors tell.

    Attributes:
        name: "input table", "first input" (with positions and segments), "layer 0", ...
        self_similarity: mean over forms of the mean cosine between two occurrences in different
            sentences (Ethayarajh 2019, section 3.1).
        anisotropy: mean cosine between occurrences of different forms.
        senses: mean over ambiguous words of (mean cosine within a sense - mean cosine across
            senses).
        by_word: the same of each word.
        shuffled: between which the difference lies in 95 of 100 cases where the sentences of a word
            are dealt to its senses at random.
        p: share of such cases with a difference as large or larger.
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
        """Self-similarity above what any two words have."""
        return self.self_similarity - self.anisotropy


def occurrences(texts: Sequence[str], rows: Rows) -> list[Occurrence]:
    """All words of the texts that have pieces."""
    found = []
    for number, (text, located) in enumerate(zip(texts, rows.located, strict=True)):
        for match in WORD.finditer(text):
            places = np.flatnonzero((located.starts < match.end()) & (located.stops > match.start()))
            if len(places):
                found.append(Occurrence(number, match[0], tuple(located.ids[places].tolist()), tuple(places.tolist())))
    return found


def cosine(x: Float[np.ndarray, "*N E"], y: Float[np.ndarray, "*N E"]) -> Float[np.ndarray, "*N"]:
    """x . y / sqrt((x . x) (y . y)); exactly 1 for equal vectors. 0 where one is zero."""
    below = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.divide((x * y).sum(-1), below, out=np.zeros_like(below), where=below > 0)


def similarity(words: Sequence[Occurrence], vectors: Float[np.ndarray, "layers N E"]) -> tuple[np.ndarray, np.ndarray]:
    """(self-similarity, anisotropy) of each layer.

    Raises:
        DataError: no form occurs in two sentences, or there is one form only.
    """
    random = np.random.default_rng(0)
    forms: dict[tuple[int, ...], list[int]] = {}
    for index, word in enumerate(words):
        forms.setdefault(word.ids, []).append(index)
    means = []
    for mine in forms.values():
        chosen = sorted(random.permutation(mine)[:OCCURRENCES].tolist())
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
    """Mean cosine within a sense minus across senses.

    Args:
        cosines: of every two occurrences.
        senses: int [orders, N], the sense of each; every row has at least one pair within a sense
            and one across.
    """
    pairs = np.triu_indices(senses.shape[1], 1)
    same = (senses[:, pairs[0]] == senses[:, pairs[1]]).astype(np.float64)
    values = cosines[:, *pairs]
    return values @ same.T / same.sum(axis=1) - values @ (1 - same).T / (1 - same).sum(axis=1)


def judge_senses(
    vectors: Mapping[str, Float[np.ndarray, "layers N E"]], senses: Mapping[str, Sequence[int]]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(difference of each word [layers], mean over words of those under random senses [layers,
    orders]).
    """
    random = np.random.default_rng(0)
    found, shuffled = {}, []
    for word, x in vectors.items():
        cosines, given = cosine(x[:, :, None], x[:, None]), np.array(senses[word])
        found[word] = sense_differences(cosines, given[None])[:, 0]
        shuffled.append(sense_differences(cosines, random.permuted(np.tile(given, (SHUFFLES, 1)), axis=1)))
    return found, np.mean(shuffled, axis=0)


def word_vectors(run: TrainedRun, tokenizer, texts: Sequence[str]) -> tuple[list[str], list[Occurrence], np.ndarray]:
    """(names of the layers, the words of the texts, their vectors [layers, N, E] in float64)."""
    config, model, values = run.config, run.model, (run.params, run.stats)
    elmo = config.model.architecture == "elmo"
    spelt = tokenizer.token_characters(config.model.elmo.characters) if elmo else None
    rows = rows_of(texts, tokenizer)
    words = occurrences(texts, rows)
    ids, places = np.unique(rows.tokens[rows.tokens >= 0], return_inverse=True)
    of_ids = table_vectors(config, model, *values, ids, spelt)
    table = np.zeros((*rows.tokens.shape, of_ids.shape[1]), np.float32)
    table[rows.tokens >= 0] = of_ids[places]
    above = []
    for tokens in _batches(rows.tokens):
        if elmo:
            # Its lowest layer is the table.
            found = elmo_states(model, *values, spelt[np.maximum(tokens, 0)], tokens >= 0)[1:]
        else:
            opens = np.full((len(tokens), 1), tokenizer.document_id, np.int32)
            found = next(iter(look_inside(config, model, *values, tokens, opens, maps=False).values())).states
        above.append(np.pad(found, [(0, 0), (0, 0), (0, rows.tokens.shape[1] - found.shape[2]), (0, 0)]))
    states = np.concatenate([table[None], np.concatenate(above, axis=1)[:, : len(texts)]])
    vectors = np.empty((len(states), len(words), states.shape[-1]))
    for index, word in enumerate(words):
        pieces = rows.first + np.array(word.places)
        vectors[:, index] = states[:, word.sentence, pieces].astype(np.float64).mean(axis=1)
    layers = len(states) - (1 if elmo else 2)
    return (
        ["input table", *([] if elmo else ["first input"]), *(f"layer {number}" for number in range(layers))],
        words,
        vectors,
    )


def _batches(tokens: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of equal number, so that few programs are compiled; each batch as wide as its longest
    row, rounded up to 16.
    """
    for start in range(0, len(tokens), ROWS):
        part = tokens[start : start + ROWS]
        width = min(-(-int((part >= 0).sum(axis=1).max()) // 16) * 16, tokens.shape[1])
        batch = np.full((ROWS, width), -1, np.int32)
        batch[: len(part)] = part[:, :width]
        # A row without any token would have nothing to attend to.
        batch[len(part) :] = batch[0]
        yield batch


def measure(folder: Path, texts: Sequence[str] = (), step: str = "latest", senses: Mapping = SENSES) -> list[Layer]:
    """The layers of a run, lowest first.

    Args:
        folder: the run's.
        texts: sentences for self-similarity; those of `senses` where there are none.
        step: as for `load_trained`.
        senses: by word and sense, sentences that have the word once.

    Raises:
        ConfigError, DataError: no run, or texts that it cannot read.
    """
    run = load_trained(folder, step)
    if run.source_tokenizer is not None:
        raise ConfigError(f"{folder} reads tokens of a dictionary of its own, and no text can be cut into these")
    examples = [
        (word, number, text)
        for word, each in senses.items()
        for number, group in enumerate(each.values())
        for text in group
    ]
    of_senses = [text for *_, text in examples]
    texts = list(texts)
    tokenizer = run.tokenizer
    about = folder / "meta.json"
    if run.config.model.architecture == "elmo" and about.is_file() and "imported" in read_json(about):
        # It was trained on words, and reads any by its characters.
        tokenizer = WordTokenizer(itertools.chain.from_iterable(text.split() for text in (*of_senses, *texts)))
    names, words, vectors = word_vectors(run, tokenizer, of_senses)
    chosen = {word: [] for word in senses}
    for index, found in enumerate(words):
        if found.word == examples[found.sentence][0]:
            chosen[found.word].append(index)
    for word, indices in chosen.items():
        if len({words[index].ids for index in indices}) != 1 or len(indices) != sum(map(len, senses[word].values())):
            raise DataError(f"the run reads {word!r} in different pieces, or not once in every sentence")
    by_word, shuffled = judge_senses(
        {word: vectors[:, indices] for word, indices in chosen.items()},
        {word: [examples[words[index].sentence][1] for index in indices] for word, indices in chosen.items()},
    )
    if texts:
        _, words, vectors = word_vectors(run, tokenizer, texts)
    own, others = similarity(words, vectors)
    found = []
    for layer, name in enumerate(names):
        senses_here = float(np.mean([each[layer] for each in by_word.values()]))
        low, high = np.quantile(shuffled[layer], [0.025, 0.975])
        p = (1 + np.count_nonzero(shuffled[layer] >= senses_here)) / (1 + SHUFFLES)
        found.append(
            Layer(
                name,
                float(own[layer]),
                float(others[layer]),
                senses_here,
                {word: float(each[layer]) for word, each in by_word.items()},
                (float(low), float(high)),
                float(p),
            )
        )
    return found


def table(layers: Sequence[Layer]) -> str:
    """The layers as a Markdown table."""
    lines = [
        "| layer | self-similarity | different words | above them | within - across senses | under random senses | p | words > 0 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for layer in layers:
        above = sum(value > 0 for value in layer.by_word.values())
        lines.append(
            f"| {layer.name} | {_number(layer.self_similarity)} | {layer.anisotropy:.3f} | {layer.adjusted:.3f} | "
            f"{_number(layer.senses)} | {layer.shuffled[0]:.3f} to {layer.shuffled[1]:.3f} | {layer.p:.4f} | "
            f"{above} of {len(layer.by_word)} |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    """Three digits, or the number itself where it is whole."""
    return f"{value:.0f}" if value == round(value) else f"{value:.3f}"


def draw(found: Mapping[str, Sequence[Layer]], path: Path) -> None:
    """Both measures by layer, a panel for each; suffix .png or .svg. Layers of one name stand in
    one place, whatever a run has before.
    """
    from zoo.draw.style import COLOURS, figure, save

    page, (left, right) = figure(8.4, 3.4, columns=2)
    # A run with the most layers has them in their order; an ELMo has no "first input" before its
    # own.
    names = list(
        dict.fromkeys(layer.name for layers in sorted(found.values(), key=len, reverse=True) for layer in layers)
    )
    for colour, (name, layers) in zip(itertools.cycle(COLOURS), found.items()):
        places = [names.index(layer.name) for layer in layers]
        left.plot(places, [layer.adjusted for layer in layers], "o-", color=colour, label=name, markersize=4)
        right.plot(places, [layer.senses for layer in layers], "o-", color=colour, label=name, markersize=4)
        right.fill_between(
            places, *zip(*(layer.shuffled for layer in layers), strict=True), color=colour, alpha=0.15, linewidth=0
        )
    left.set_title("one word in different sentences,\nabove different words")
    right.set_title("same sense above other sense\n(shaded: 95% of random senses)")
    for axes in (left, right):
        axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names], fontsize=7)
        axes.set_ylabel("mean cosine")
    left.legend(frameon=False)
    save(page, path)


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Measures runs and prints a table of each."""
    parser = argparse.ArgumentParser(
        prog="python -m zoo.analysis.contextuality",
        allow_abbrev=False,
        description="How much a word's vector depends on its sentence, layer by layer of a run.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="folders of runs: encoders, decoders, ELMos, imported ones too",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help=f"sentences, one a line, the first {LINES} of them, for self-similarity (default: those of the senses)",
    )
    parser.add_argument(
        "--step", default="latest", help="which checkpoint: latest, best, or a step (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write a figure, .png or .svg")
    args = parser.parse_args(arguments)
    if args.figure is not None:
        from zoo.draw.style import kind_of

        kind_of(args.figure)
    texts = []
    if args.text is not None:
        try:
            texts = [line.strip() for line in args.text.read_text(encoding="utf-8").splitlines() if line.strip()][
                :LINES
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--text {args.text}: {error}") from error
        if not texts:
            raise DataError(f"--text {args.text} has no text")
    found = {str(folder): measure(folder, texts, args.step) for folder in args.runs}
    if args.figure is not None:
        short = [Path(name).name for name in found]
        draw(
            {
                name if short.count(last) > 1 else last: layers
                for last, (name, layers) in zip(short, found.items(), strict=True)
            },
            args.figure,
        )
    if args.json:
        print(
            json.dumps(
                {
                    name: [asdict(layer) | {"adjusted": layer.adjusted} for layer in layers]
                    for name, layers in found.items()
                },
                indent=2,
            )
        )
    else:
        print("\n\n".join(f"{name}\n\n{table(layers)}" for name, layers in found.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
