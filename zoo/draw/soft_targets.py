"""A teacher's probabilities of a token beside the label and a student's: soft targets.

After Hinton et al. 2015, section 2: what a teacher predicts besides the label, and how the temperature
shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import special

from zoo import config as configs
from zoo.analysis.activations import encode_texts
from zoo.analysis.token_scores import token_scores
from zoo.data.pipeline.show import token_name
from zoo.data.tokenizers.run_frame import ends_rows
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.draw.query_lines import find_token
from zoo.draw.run_activations import beginning, default_text
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError, did_you_mean, shown
from zoo.training.trained_run import TrainedRun, load_trained

AROUND = 45
"""Characters of the text that a title shows on either side of the token."""


@dataclass(frozen=True)
class SoftTargets:
    """Predictions of one token by a teacher and its student.

    Attributes:
        text: the text with the token in square brackets.
        label: index of the true token among those that are shown.
        names: the tokens that are shown: the teacher's most probable ones first, and the label.
        probabilities: by column of the figure, the probability of each of them, and of all others
            together, [names + 1].
        losses: by column, what a model loses against the label or the teacher, in nats.
        source: the two runs, for the title.
    """

    text: str
    label: int
    names: list[str]
    probabilities: dict[str, Float[np.ndarray, " N"]]
    losses: dict[str, str]
    source: str = ""


def compare(
    text: str,
    teacher: Float[np.ndarray, " V"],
    student: Float[np.ndarray, " V"],
    label: int,
    temperature: float,
    count: int,
    names: Sequence[str],
) -> SoftTargets:
    """Returns what the figure shows of a token.

    Args:
        text: as in `SoftTargets`.
        teacher, student: their scores of all ids.
        label: id of the true token.
        temperature: T of the distillation.
        count: number of the teacher's most probable tokens that are shown.
        names: the text of each id, [V].
    """
    best = np.argsort(-teacher, kind="stable")[:count].tolist()
    chosen = best if label in best else [*best, label]

    def parts(probabilities: np.ndarray) -> np.ndarray:
        return np.append(probabilities[chosen], max(0.0, 1 - probabilities[chosen].sum()))

    teacher, student = teacher.astype(np.float64), student.astype(np.float64)
    p, q = special.softmax(teacher), special.softmax(student)
    columns = {"label": parts(np.eye(len(teacher))[label]), "teacher": parts(p), "student": parts(q)}
    losses = {"teacher": f"cross-entropy {-np.log(p[label]):.2f}", "student": f"cross-entropy {-np.log(q[label]):.2f}"}
    soft_p, soft_q = special.softmax(teacher / temperature), special.softmax(student / temperature)
    last = "student"
    if temperature != 1:
        last = f"student, T = {temperature:g}"
        columns |= {f"teacher, T = {temperature:g}": parts(soft_p), last: parts(soft_q)}
    # In logarithms: at a low temperature a probability is rounded to 0.
    difference = special.log_softmax(teacher / temperature) - special.log_softmax(student / temperature)
    divergence = temperature**2 * (soft_p * difference).sum()
    losses[last] = "\n".join([*([losses[last]] if last in losses else []), f"T² KL {divergence:.2f}"])
    return SoftTargets(text, chosen.index(label), [names[id] for id in chosen], columns, losses)


def read_soft_targets(
    folder: Path,
    teacher: Path | None = None,
    text: str = "",
    tokens: Sequence[str] = ("",),
    temperature: float | None = None,
    count: int = 8,
    step: str = "latest",
) -> list[SoftTargets]:
    """Lets a student and its teacher predict tokens of a text: an encoder from a row in which the
    token is [MASK], a decoder from the tokens before it.

    Args:
        folder: the student's folder.
        teacher: the teacher's folder; None for that of `objective.distillation.teacher`.
        text: "" for a built-in sentence, as much of it as a row of the student's training holds.
        tokens: those that are predicted, as for `find_token`; of "" the last with a letter or digit.
        temperature: T; None for the student's.
        count: number of tokens that are shown.
        step: checkpoint of the student, as for `load_trained`.

    Raises:
        ConfigError: there is no such run or no teacher; the two predict other tokens; the text has no
            such token, or is too long.
        DataError: the tokenizer cannot encode the text.
    """
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is not a run: it has no config.json")
    distillation = configs.load(str(folder)).objective.distillation
    its_folder = teacher or (Path(distillation.teacher) if distillation.teacher else None)
    if its_folder is None:
        raise ConfigError(f"{folder} learnt from no teacher; name a run to compare it with by --teacher RUN")
    if teacher is None and not (its_folder / "config.json").is_file():
        raise ConfigError(f"the teacher of {folder}, {its_folder}, is not there; name its folder by --teacher RUN")
    run, other = load_trained(folder, step), load_trained(its_folder)
    _check_pair(folder, run, its_folder, other)
    length = run.config.data.sequence_length
    around = len(run.frame.before) + len(run.frame.after)
    text, ends = text or beginning(default_text(), run.tokenizer, length - around), ends_rows(run.config)
    encoded = encode_texts([text], run.tokenizer, run.frame)
    offsets, found = encoded.offsets[0], []
    labels = [text[start:stop].strip() for start, stop in zip(offsets.starts, offsets.stops, strict=True)]
    names = [_name(run.tokenizer, id, ends) for id in range(run.config.model.vocab_size)]
    for token in tokens:
        place = _place(labels, token)
        begin, end = offsets.starts[place], offsets.stops[place]
        # A token may begin with the space before a word.
        begin = end - len(text[begin:end].lstrip())
        before, after = text[:begin][-AROUND:], text[end:][:AROUND]
        scores = _scores((other, run), encoded.tokens, encoded.first + place, len(names), token or labels[place])
        shown_text = f"{before}[{text[begin:end]}]{after}"
        label = int(encoded.tokens[0, encoded.first + place])
        each = compare(shown_text, *scores, label, temperature or distillation.temperature, count, names)
        found.append(replace(each, source=f"{folder}, step {run.step:,}; teacher: {its_folder}"))
    return found


def _name(tokenizer: Tokenizer, id: int, ends_rows: bool) -> str:
    """Returns the text of a token; bytes that are no text in hexadecimal digits."""
    name = token_name(tokenizer, id, ends_rows)
    if "\ufffd" in name:
        return "".join(f"<0x{byte:02X}>" for byte in tokenizer.pieces[id])
    return (name.strip(" ") or "␣") if name.isprintable() else repr(name)[1:-1]


def _check_pair(folder: Path, run: TrainedRun, its_folder: Path, other: TrainedRun) -> None:
    """Checks that two runs predict tokens of the same tokenizer in the same way."""
    kind, its_kind = run.config.objective.kind, other.config.objective.kind
    if kind not in (allowed := configs.BY_PATH["objective.distillation.teacher"].when[1]):
        raise ConfigError(f"{folder} has objective.kind={kind}; soft targets are of {' or '.join(allowed)}")
    if kind != its_kind:
        raise ConfigError(f"{folder} has objective.kind={kind}, and {its_folder} {its_kind}; they need the same")
    if run.tokenizer.fingerprint != other.tokenizer.fingerprint:
        raise ConfigError(f"{folder} and {its_folder} have different tokenizers, so their predictions do not compare")


def _place(labels: Sequence[str], token: str) -> int:
    if not token:
        named = [place for place, label in enumerate(labels) if any(map(str.isalnum, label))]
        return named[-1] if named else len(labels) - 1
    place = find_token(labels, token)
    if place is None:
        raise ConfigError(f"--token {shown(token)}: the text has no such token{did_you_mean(token, labels)}")
    return place


def _scores(runs: Sequence[TrainedRun], row: np.ndarray, place: int, ids: int, token: str) -> list[np.ndarray]:
    """Returns the scores of all ids by each run for the token at a place of a row, [V]."""
    causal = runs[0].config.model.architecture == "decoder"
    if causal and place == 0:
        raise ConfigError(f"--token {shown(token)} is the first token of the row, which is predicted from none")
    read = row[:, :place].copy() if causal else row.copy()
    if not causal:
        read[0, place] = runs[0].tokenizer.mask_id
    return [
        token_scores(run.config, run.model, run.params, run.stats, read)[0, -1 if causal else place, :ids]
        for run in runs
    ]


def page(found: Sequence[SoftTargets]) -> Figure:
    """Draws a row of panels for each token: the label, and probabilities of teacher and student. Those
    of both models at one temperature have the same scale.
    """
    columns = list(found[0].probabilities)
    heights = [0.75 + 0.21 * (len(each.names) + 1) for each in found]
    drawn, panels = figure(
        1.9 * len(columns) + 1, sum(heights) + 0.4, len(found), len(columns), gridspec_kw={"height_ratios": heights}
    )
    for number, each in enumerate(found):
        row = panels[number * len(columns) : (number + 1) * len(columns)]
        largest: dict[str, float] = {}
        for name, values in each.probabilities.items():
            largest[_scale(name)] = max(largest.get(_scale(name), 0), values[:-1].max())
        for axes, name in zip(row, columns, strict=True):
            _bars(axes, each, name, largest[_scale(name)])
        row[0].set_yticks(range(len(each.names) + 1), [*each.names, "all others"], parse_math=False)
        row[0].get_yticklabels()[each.label].set_weight("bold")
        row[0].set_title(f"{each.text}\n\nlabel", loc="left", parse_math=False, fontsize=8)
    drawn.suptitle(found[0].source, fontsize=9, parse_math=False)
    return drawn


def _scale(column: str) -> str:
    """Returns the columns that a column is compared with: the label alone, or a temperature."""
    return column if column == "label" else column.partition(",")[2]


def _bars(axes: Axes, found: SoftTargets, name: str, largest: float) -> None:
    """Draws a column: a bar for each token, with its probability; that of all others is a number."""
    values, colour = found.probabilities[name], COLOURS[("label", "teacher", "student").index(name.partition(",")[0])]
    axes.barh(range(len(values) - 1), values[:-1], color=colour, height=0.7)
    for place, value in enumerate(values):
        others = place == len(values) - 1
        if value >= 0.0005:
            axes.text(
                0.02 * largest + (0 if others else value), place, f"{value:.3f}", va="center", fontsize=7,
                color="0.5" if others else "black",
            )  # fmt: skip
    axes.set(xlim=(0, 1.3 * largest), ylim=(len(values) - 0.5, -0.5), xticks=[], yticks=[])
    if name != "label":
        axes.set_title(name, loc="left", fontsize=8)
    axes.set_xlabel(found.losses.get(name, ""), fontsize=7.5)
    for edge in ("top", "right", "bottom"):
        axes.spines[edge].set_visible(False)
