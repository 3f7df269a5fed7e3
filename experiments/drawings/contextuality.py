"""Dependence of a word's vector on its sentence, layer by layer of runs.

    zoo draw contextuality runs/minilm runs/elmo --text captions.txt --table contextuality.md

Claim O14: the vector of a word depends on its context, and does not in the input table (Peters et
al. 2018; Ethayarajh 2019). The left panel compares the vectors of a word in different sentences, the
right one asks whether they separate the senses of ambiguous words. The vector of a word is the mean
over its pieces; two occurrences have one form if the model reads the same pieces.
"""

import argparse
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from zoo import plugin
from zoo.analysis.activations import EncodedTexts, elmo_layer_states, encode_texts, input_vectors, record_activations
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.word_level import WordTokenizer
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError, DataError, not_writable
from zoo.files import read_json, write_atomic
from zoo.training.trained_run import TrainedRun, load_trained

SENSES: dict[str, dict[str, tuple[str, ...]]] = {
    "bank": {
        "money": (
            "after she lost her job she borrowed a little money from the bank and paid it back .",
            "the thieves knew how much cash was kept in the bank that night .",
            "he took his savings and opened an account with a small bank in the city .",
            "interest on the loan has to be paid to the bank every month .",
        ),
        "river": (
            "they pulled the boat out of the river and up the muddy bank before dark .",
            "the water rose until it flowed over the bank and into the fields .",
            "willows grew all along the stream , on its steep northern bank and in the shallows .",
            "the fisherman sat all day with his rod on the grassy bank near the old bridge .",
        ),
    },
    "bat": {
        "animal": (
            "out of the dark cave flew a small brown bat with wide wings .",
            "at dusk we watched an insect being caught in the air by a bat over the pond .",
            "of all mammals that hang upside down and sleep by day , the bat is the best known .",
            "the scientist held the tiny furry body and the folded wings of the bat in her glove .",
        ),
        "club": (
            "the player swung at the ball and broke his wooden bat on the first try .",
            "for his birthday the boy got a baseball glove and a new bat to practise with .",
            "when the pitcher threw , she hit the ball with the middle of the bat and ran .",
            "the cricketer walked off the field with his gloves and his bat under one arm .",
        ),
    },
    "spring": {
        "season": (
            "after a long and cold winter everyone looked forward to the spring and its flowers .",
            "the birds come back from the south each year in early spring to build their nests .",
            "snow melted , the days grew longer and at last it was spring again .",
            "the farmers sow their wheat in the autumn or in the spring of the next year .",
        ),
        "coil": (
            "the old mattress was so worn that a rusty metal spring came through the cloth .",
            "inside the clock a wheel is turned by a tightly wound spring made of steel .",
            "the weight was hung from a hook , which stretched the spring by an inch .",
            "the mechanic took the wheel off and replaced the broken spring under the car .",
        ),
    },
    "match": {
        "game": (
            "both teams trained hard for the final match of the football season .",
            "the crowd cheered when the home side won the match by two goals .",
            "she beat the champion in three sets in a long tennis match on grass .",
            "the referee blew his whistle and ended the match before the second half .",
        ),
        "fire": (
            "he wanted to light his pipe but he had only one match left .",
            "the room was dark , so she took out a box and struck a match on its side .",
            "the candle went out and she had to burn her fingers with another match to light it .",
            "the forest fire was started by a smoker who dropped a burning match on dry leaves .",
        ),
    },
    "plant": {
        "living": (
            "it needs water and sunlight , like any green plant in a garden .",
            "the roots and the leaves of this rare plant were eaten by goats .",
            "she put the seed in a pot of soil and soon a small plant grew out of it .",
            "the botanist had found a new flower , a climbing plant with red petals .",
        ),
        "factory": (
            "three hundred workers lost their jobs when the steel plant was closed .",
            "the company builds its cars and engines in a large plant outside the town .",
            "electricity comes from a nuclear power plant on the coast .",
            "smoke rose from the chimneys of the chemical plant all day and night .",
        ),
    },
    "light": {
        "lamp": (
            "it was dark in the room until someone turned on the light in the hall .",
            "the sun went down and there was not enough light left to read by .",
            "through the window of the house shone a bright yellow light from a lamp .",
            "her eyes were blinded by the flash and by the strong light of the sun .",
        ),
        "weight": (
            "the empty suitcase weighed almost nothing and was so light that a child could lift it .",
            "a feather is soft , and it is light enough to float in the air .",
            "carbon is used where the frame has to be strong and light at once , as in racing bicycles .",
            "she carried the basket without effort , for it was small and light to carry .",
        ),
    },
}
"""By word and sense, sentences with space-separated words; each contains the word once."""

MAXIMUM_LINES = 500
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
BATCH_SIZE = 32


class WordOccurrence(NamedTuple):
    """A word in a sentence.

    Attributes:
        sentence: index of the sentence.
        word: as written.
        ids: token ids of its pieces.
        places: indices of the pieces among the tokens of the sentence.
    """

    sentence: int
    word: str
    ids: tuple[int, ...]
    places: tuple[int, ...]


def find_words(texts: Sequence[str], rows: EncodedTexts) -> list[WordOccurrence]:
    """Returns all words of the texts that have pieces."""
    found = []
    for number, (text, offsets) in enumerate(zip(texts, rows.offsets, strict=True)):
        for match in WORD.finditer(text):
            places = np.flatnonzero((offsets.starts < match.end()) & (offsets.stops > match.start()))
            if len(places):
                ids = tuple(offsets.ids[places].tolist())
                found.append(WordOccurrence(number, match[0], ids, tuple(places.tolist())))
    return found


def read_word_vectors(
    run: TrainedRun, tokenizer, texts: Sequence[str]
) -> tuple[list[str], list[WordOccurrence], Float[np.ndarray, "layers N E"]]:
    """Returns the names of the layers, the words of the texts, and their vectors in float64."""
    config, model, values = run.config, run.model, (run.params, run.stats)
    elmo = config.model.architecture == "elmo"
    spellings = tokenizer.token_characters(config.model.elmo.characters) if elmo else None
    # Every model reads the token that opens documents, and its separator where it has one.
    ends = (tokenizer.separator_id,) if tokenizer.separator_id < tokenizer.vocab_size else ()
    rows = encode_texts(texts, tokenizer, TextFrame(tuple(tokenizer.opening_ids), ends))
    words = find_words(texts, rows)
    ids, places = np.unique(rows.tokens[rows.tokens >= 0], return_inverse=True)
    of_ids = input_vectors(config, model, *values, ids, spellings)
    table = np.zeros((*rows.tokens.shape, of_ids.shape[1]), np.float32)
    table[rows.tokens >= 0] = of_ids[places]
    batches = []
    for tokens in _batches(rows.tokens):
        if elmo:
            # The lowest layer of an ELMo is its input table, which is there already.
            found = elmo_layer_states(model, *values, spellings[np.maximum(tokens, 0)], tokens >= 0)[1:]
        else:
            begin = np.full((len(tokens), 1), tokenizer.bos_id, np.int32)
            found = next(iter(record_activations(config, model, *values, tokens, begin, maps=False).values())).states
        batches.append(np.pad(found, [(0, 0), (0, 0), (0, rows.tokens.shape[1] - found.shape[2]), (0, 0)]))
    states = np.concatenate([table[None], np.concatenate(batches, axis=1)[:, : len(texts)]])
    vectors = np.empty((len(states), len(words), states.shape[-1]))
    for index, word in enumerate(words):
        pieces = rows.first + np.array(word.places)
        vectors[:, index] = states[:, word.sentence, pieces].astype(np.float64).mean(axis=1)
    layers = len(states) - (1 if elmo else 2)
    names = ["input table", *([] if elmo else ["first input"]), *(f"layer {number}" for number in range(layers))]
    return names, words, vectors


def _batches(tokens: np.ndarray) -> Iterator[np.ndarray]:
    """Yields batches of equal size, each as wide as its longest row, rounded up to 16.

    Few different shapes mean few compiled programs.
    """
    for start in range(0, len(tokens), BATCH_SIZE):
        part = tokens[start : start + BATCH_SIZE]
        width = min(-(-int((part >= 0).sum(axis=1).max()) // 16) * 16, tokens.shape[1])
        batch = np.full((BATCH_SIZE, width), -1, np.int32)
        batch[: len(part)] = part[:, :width]
        # A row of padding alone would have nothing to attend to.
        batch[len(part) :] = batch[0]
        yield batch


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


def table(layers: Sequence[LayerContextuality]) -> str:
    """Returns the layers as a Markdown table."""
    header = (
        "layer",
        "self-similarity",
        "different words",
        "difference",
        "within - across senses",
        "random senses",
        "p",
        "words > 0",
    )
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for layer in layers:
        above = sum(value > 0 for value in layer.by_word.values())
        lines.append(
            f"| {layer.name} | {_number(layer.self_similarity)} | {layer.anisotropy:.3f} | {layer.adjusted:.3f} | "
            f"{_number(layer.senses)} | {layer.shuffled[0]:.3f} to {layer.shuffled[1]:.3f} | {layer.p:.4f} | "
            f"{above} of {len(layer.by_word)} |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    """Formats with three decimals, or none if the value is whole."""
    return f"{value:.0f}" if value == round(value) else f"{value:.3f}"


def page(found: Mapping[str, Sequence[LayerContextuality]]) -> Figure:
    """Draws both measures by layer, in two panels, with a line for each run.

    Layers of the same name share a place on the axis, whatever layers a run has before them.
    """
    drawn, (left, right) = figure(8.4, 3.4, columns=2)
    # The run with most layers gives their order; an ELMo has no "first input" before layer 0.
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
    left.set_title("one word in different sentences,\nminus different words")
    right.set_title("within a sense minus across senses\n(shaded: 95 % of random senses)")
    for axes in (left, right):
        axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names], fontsize=7)
        axes.set_ylabel("mean cosine")
    left.legend(frameon=False)
    return drawn


def _read_texts(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--text {path}: {error}") from error
    texts = [line.strip() for line in lines if line.strip()][:MAXIMUM_LINES]
    if not texts:
        raise DataError(f"--text {path} has no text")
    return texts


def _short_names(found: Mapping[str, Sequence[LayerContextuality]]) -> dict[str, Sequence[LayerContextuality]]:
    """Replaces the paths of runs by the names of their folders where these are unique."""
    short = [Path(name).name for name in found]
    return {
        name if short.count(last) > 1 else last: layers
        for last, (name, layers) in zip(short, found.items(), strict=True)
    }


def _write_table(found: Mapping[str, Sequence[LayerContextuality]], path: Path) -> None:
    """Writes the measures of all layers, as Markdown or as JSON."""
    records = {
        name: [asdict(layer) | {"adjusted": layer.adjusted} for layer in layers] for name, layers in found.items()
    }
    tables = "\n\n".join(f"{name}\n\n{table(layers)}" for name, layers in found.items())
    try:
        write_atomic(path, (json.dumps(records, indent=2) if path.suffix == ".json" else tables) + "\n")
    except OSError as error:
        raise not_writable(path, error, "--table") from error


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="folders of runs, trained or imported: encoders, decoders, ELMos",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help=f"sentences for self-similarity, one per line, at most {MAXIMUM_LINES} (default: those of the senses)",
    )
    parser.add_argument("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="also write the measures, .md or .json")


def draw(args: argparse.Namespace) -> Figure:
    """Returns the figure; writes the table if one is asked for."""
    if args.table is not None and args.table.suffix not in (".md", ".json"):
        raise ConfigError(f"--table {args.table}: tables are written as .md or .json")
    texts = [] if args.text is None else _read_texts(args.text)
    found = {str(folder): measure_contextuality(folder, texts, args.step) for folder in args.runs}
    if args.table is not None:
        _write_table(found, args.table)
    return page(_short_names(found))


plugin.register_drawing(
    "contextuality",
    plugin.Drawing("dependence of a word's vector on its sentence, layer by layer of runs", draw, add_options),
)
