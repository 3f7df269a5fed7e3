"""`zoo data`: the batches that the model of a config reads."""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from zoo.cli import data_export

if TYPE_CHECKING:
    from zoo.config import ResolvedConfig
    from zoo.data.tokenizers.tokenizer import Tokenizer

EXAMPLES = """examples:
  zoo data show configs/bert.py:tiny
  zoo data show configs/t5.py:tiny --config.data.source=text:corpus.txt --rows 5
  zoo data show runs/first --held-out --json
  zoo data show runs/bert --text "this teddy bear is so cute" --second "i like it\""""
# Enough rows to estimate padding and lengths at any batch size.
_SAMPLE_ROWS = 512


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = subparsers.add_parser(
        "data",
        help="show the data that a model reads, or write their tokens to files",
        epilog=EXAMPLES,
        formatter_class=raw,
        description="Shows data as a model reads them, or writes their tokens for other programs.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    show = actions.add_parser(
        "show",
        help="print counts, lengths, padding, and the first rows with their masks, segments and targets",
        epilog=EXAMPLES,
        formatter_class=raw,
    )
    show.add_argument("config", metavar="CONFIG", help="FILE[:ARGUMENT], a run's folder, or its config.json")
    show.add_argument("--rows", type=int, metavar="N", help="rows to print (default: 3)")
    show.add_argument("--step", type=int, metavar="N", help="start with the batch of this step (default: 0)")
    show.add_argument("--held-out", action="store_true", help="show rows of the evaluation instead of training")
    show.add_argument(
        "--text",
        metavar="TEXT",
        help="show this text instead, token by token, and with tokens hidden as the objective hides them (--step: "
        "another draw)",
    )
    show.add_argument("--second", metavar="TEXT", help="with --text: the second text of a pair")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(handler=run_show, takes_overrides=True)
    data_export.add_parser(actions)


SAME_EVALUATION = "--step has no effect with --held-out: an evaluation reads the same rows at every step"


def _complete_flags(args: argparse.Namespace) -> None:
    """Refuses flags that have no effect, and sets the numbers that are not given."""
    from zoo.errors import ConfigError

    if negative := [flag for flag in ("rows", "step") if (getattr(args, flag) or 0) < 0]:
        raise ConfigError(f"--{negative[0]}: expected 0 or more")
    if args.text is not None and args.rows is not None:
        raise ConfigError("--rows has no effect with --text, which is shown as a whole")
    if args.text is not None and args.held_out and args.step is not None:
        raise ConfigError(SAME_EVALUATION)
    if args.second is not None and args.text is None:
        raise ConfigError("--second needs --text")
    args.step = args.step or 0
    args.rows = 3 if args.rows is None else args.rows


def run_show(args: argparse.Namespace) -> int:
    """Prints the data that the model of a config reads."""
    from zoo import data
    from zoo.cli.config import resolved_config
    from zoo.config.kinds import OBJECTIVE_KINDS
    from zoo.data.pipeline.show import BatchFormatter, RowStatistics, histogram
    from zoo.data.sources.documents import Documents
    from zoo.data.sources.overlap import verbatim_overlap
    from zoo.errors import ConfigError

    given_step = args.step
    _complete_flags(args)
    config = resolved_config(args.config, args.overrides)
    if args.text is not None:
        return _show_text(config, args)
    dataset = data.load(config)
    if isinstance(dataset, data.LabelledDataset):
        return _show_task(dataset, args)
    if args.held_out and given_step is not None:
        raise ConfigError(SAME_EVALUATION)
    if isinstance(dataset, data.TranslationDataset):
        return _show_pairs(dataset, args)
    size = config.data.batch_size
    wanted = max(1, -(-max(args.rows, _SAMPLE_ROWS) // size))
    if args.held_out:
        batches = list(itertools.islice(dataset.evaluation_batches(), wanted))
    else:
        with dataset.training_batches(args.step) as endless:
            batches = list(itertools.islice(endless, wanted))
    corrupted = dataset.batching.corruption is not None
    measured = RowStatistics.of(batches, next_token=not corrupted)
    objective = config.objective
    spans = objective.kind in OBJECTIVE_KINDS.having("spans")
    swapped = config.data.row_format == "swapped_pairs"
    ends = config.data.row_format != "packed"
    formatter = BatchFormatter(dataset.tokenizer, ends, objective.sentinels if spans else 0, swapped)
    rows = [(batch, number) for batch in batches for number in range(len(next(iter(batch.values()))))][: args.rows]
    trained, held_out = [part.train for part in dataset.parts], [text.documents for text in dataset.held_out_texts]
    texts = [text for text in trained if isinstance(text, Documents)]
    sizes = [int(size) for text in texts for size in text.index.bytes.tolist()]
    counts = dataset.batching.row_count([part.train_stream for part in dataset.parts])
    # Of stored tokens there is no text to compare.
    all_text = all(isinstance(text, Documents) for text in (*trained, *held_out))
    overlap = verbatim_overlap(Documents.joined(texts), Documents.joined(held_out)) if all_text else None
    if args.json:
        print(
            json.dumps(
                {
                    "data": dataset.summary(),
                    "overlap": overlap and dataclasses.asdict(overlap),
                    "rows_per_epoch": counts,
                    "padding": measured.padding,
                    "tokens_per_row": float(measured.lengths.mean()),
                    "predicted_per_row": measured.predicted,
                    "positions_per_row": measured.slots,
                    "rows": [{name: array[number].tolist() for name, array in batch.items()} for batch, number in rows],
                },
                indent=2,
            )
        )
        return 0
    _print_counts(dataset, counts, size, measured, overlap)
    import numpy as np

    if sizes:
        _print_histogram("document bytes", histogram(np.array(sizes), 10))
    _print_histogram("tokens of a row", histogram(measured.lengths, 6))
    _print_rows(dataset, args, ((place, formatter.row(*row)) for place, row in enumerate(rows)))
    return 0


def text_tokenizer(config: "ResolvedConfig", spec: str) -> "Tokenizer":
    """Returns the tokenizer of a run, whose folder `spec` is, or of a config."""
    from pathlib import Path

    from zoo import data
    from zoo.data.tokenizers.tokenizer import TOKENIZER_FILE

    own = (Path(spec) / TOKENIZER_FILE).is_file()
    return data.load_tokenizer(Path(spec)) if own else data.load(config).tokenizer


def _show_text(config: "ResolvedConfig", args: argparse.Namespace) -> int:
    """Prints the tokens of a text, or of a pair of texts, with their ids and segments, and what an
    objective that hides tokens makes of them.
    """
    import numpy as np

    from zoo import data
    from zoo.data.pipeline.show import BatchFormatter, TextRow
    from zoo.data.rows.corruption import make_corruption
    from zoo.data.rows.packed_rows import PADDING

    tokenizer = text_tokenizer(config, args.config)
    ids, segments, names, ends, sentinels = TextRow.of(config, tokenizer, args.text, args.second)
    hidden = {}
    if (corruption := make_corruption(config, tokenizer)) is not None:
        if config.objective.rare_token_exponent and not args.held_out:
            # Training counts its tokens.
            dataset = data.load(config)
            corruption = dataset.batching.training_corruption([part.train_stream for part in dataset.parts])
        rows, number = {"tokens": np.array([ids], np.int32)}, np.zeros(1, np.int64)
        if args.held_out:
            hidden = corruption.evaluation_batch(rows, number)
        else:
            hidden = corruption.training_batch(rows, number, number + args.step, config.seed)
    if args.json:
        record = {"tokens": names, "ids": ids, "segments": segments}
        read = {name: [id for id in array[0].tolist() if id != PADDING] for name, array in hidden.items()}
        print(json.dumps(record | ({"read": read} if read else {}), indent=2, ensure_ascii=False))
        return 0
    print(f"tokenizer   {tokenizer.kind}, {tokenizer.vocab_size:,} ids")
    print(f"a row       {len(ids)} tokens")
    width = max(map(len, names))
    for place, (name, id, segment) in enumerate(zip(names, ids, segments, strict=True)):
        suffix = f"  segment {segment}" if args.second is not None else ""
        print(f"{place:5d}  {name:{width}s}  {id:7d}{suffix}")
    if hidden:
        print("\nas in the evaluation" if args.held_out else f"\nas in training, draw {args.step} (--step: another)")
        for name, tokens in BatchFormatter(tokenizer, ends, sentinels).row(hidden, 0):
            _print_tokens(name, tokens, "" if tokenizer.kind in ("bytes", "characters") else "|")
    return 0


def _show_task(dataset, args: argparse.Namespace) -> int:
    """Prints the examples of a task with their labels."""
    import numpy as np

    from zoo.data.labelled.labelled_dataset import HELD_OUT, TRAINING
    from zoo.data.pipeline.show import BatchFormatter, histogram
    from zoo.data.rows.packed_rows import PADDING

    size, summary = dataset.config.data.batch_size, dataset.summary()
    part = HELD_OUT if args.held_out else TRAINING
    arrays, count = dataset.encoded(part).arrays, len(dataset.part(part))
    lengths = {name: (dataset.encoded(name).arrays["tokens"] != PADDING).sum(axis=1) for name in (TRAINING, HELD_OUT)}
    # Rows are shown without the padding of their batch.
    if args.held_out:
        numbers = np.arange(count)[(args.step * size) % count :][: args.rows].tolist()
        rows = [(number, {name: array[number] for name, array in arrays.items()}) for number in numbers]
    else:
        with dataset.training_batches(args.step) as batches:
            drawn = itertools.islice(batches, max(1, -(-args.rows // size)))
            rows = [{name: array[place] for name, array in batch.items()} for batch in drawn for place in range(size)]
        rows = list(enumerate([row for row in rows if row["tokens"][0] != PADDING][: args.rows]))
    if args.json:
        print(
            json.dumps(
                {"data": summary, "rows": [{name: array.tolist() for name, array in row.items()} for _, row in rows]},
                indent=2,
            )
        )
        return 0
    _print_source(dataset, summary)
    print(f"tokenizer   {dataset.tokenizer.kind}, {dataset.tokenizer.vocab_size:,} ids")
    if dataset.labels:
        print(f"labels      {len(dataset.labels)}: {', '.join(dataset.labels)}")
    for name, label in ((TRAINING, "training"), (HELD_OUT, "held out")):
        cut = ", ".join(f"{number:,} {what}" for what, number in dataset.encoded(name).cut.items())
        print(
            f"{label:11s} {len(dataset.part(name)):,} examples, {len(lengths[name]):,} rows, "
            f"{int(lengths[name].sum()):,} tokens; {cut}"
        )
    for what, number in summary["left_out"].items():
        print(f"left out    {number:,} {what}")
    batches = dataset.batches(part)
    print(f"epoch       {len(lengths[TRAINING]) / size:,.1f} steps of {size} rows")
    print(
        f"a row       up to {arrays['tokens'].shape[1]} tokens, {lengths[part].mean():.1f} on average; "
        f"{batches.padding():.1%} of the positions in batches are padding"
    )
    _print_histogram("tokens of a row", histogram(lengths[part], 6))
    formatter = BatchFormatter(dataset.tokenizer, ends_rows=True)
    _print_rows(dataset, args, ((number, dataset.task.format_row(row, formatter)) for number, row in rows))
    return 0


def _show_pairs(dataset, args: argparse.Namespace) -> int:
    """Prints pairs of texts as a model reads and writes them."""
    from zoo.data.pipeline.show import BatchFormatter

    if args.held_out:
        batches = dataset.evaluation_batches(limit_batches=0)
        found = list(itertools.islice(batches, 1 + args.rows))
    else:
        with dataset.training_batches(args.step) as endless:
            found = list(itertools.islice(endless, 1 + args.rows))
    summary, training = dataset.summary(), dataset.training
    rows = [(batch, number) for batch in found for number in range(len(batch["source"]))][: args.rows]
    shapes = [
        {"width": bucket.width, "rows": bucket.rows, "batches": count}
        for bucket, count in training.batches_per_bucket()
    ]
    if args.json:
        print(
            json.dumps(
                {
                    "data": summary,
                    "shapes": shapes,
                    "padding": summary["padding"],
                    "rows": [{name: array[number].tolist() for name, array in batch.items()} for batch, number in rows],
                },
                indent=2,
            )
        )
        return 0
    _print_source(dataset, summary)
    print(f"tokenizer   {dataset.tokenizer.kind}, {dataset.tokenizer.vocab_size:,} ids, for both sides")
    for label, name in (("training", "train"), ("held out", "validation")):
        tokens, size = summary[f"{name}_tokens"], summary[f"{name}_bytes"]
        print(f"{label:11s} {summary[f'{name}_pairs']:,} pairs, {size:,} bytes, {tokens:,} tokens")
    print(
        f"epoch       {training.per_epoch:,} steps; {summary['padding']:.1%} of the positions in its batches are "
        "padding"
    )
    for shape in shapes:
        print(
            f"            {shape['batches']:6,} batches of {shape['rows']:5,} pairs of up to {shape['width']} tokens "
            "per side"
        )
    formatter = BatchFormatter(dataset.tokenizer, ends_rows=False)
    _print_rows(dataset, args, ((place, formatter.row(*row)) for place, row in enumerate(rows)))
    return 0


def _print_source(dataset, summary) -> None:
    print(f"source      {dataset.description}")
    for line in summary.get("warnings", []):
        print(f"warning     {line}")


def _print_counts(dataset, rows: int, batch_size: int, measured, overlap) -> None:
    _print_source(dataset, dataset.summary())
    tokenizer = dataset.tokenizer
    print(f"tokenizer   {tokenizer.kind}, {tokenizer.vocab_size:,} ids")
    held_out = dataset.held_out_texts
    for label, documents, tokens in (
        ("training", [part.train for part in dataset.parts], dataset.train_tokens),
        ("held out", [text.documents for text in held_out], dataset.validation_tokens),
    ):
        known = {"documents": [part.count for part in documents], "bytes": [part.bytes for part in documents]}
        sums = {name: None if None in values else sum(values) for name, values in known.items()}
        shown = "".join(f"{number:,} {name}, " for name, number in sums.items() if number is not None)
        ratio = f", {sums['bytes'] / tokens:.2f} bytes per token" if sums["bytes"] is not None else ""
        print(f"{label:11s} {shown}{tokens:,} tokens{ratio}")
    if overlap is not None:
        print(
            f"copied      {overlap.windows:.1%} of the held-out windows of 64 bytes and {overlap.lines:.1%} of the "
            "lines of 20 characters or more occur in the training text"
        )
    for line in dataset.changed_text:
        print(f"tokens      {line}")
    print(f"rows        {rows:,} in training, {rows / batch_size:,.1f} steps of {batch_size} rows per epoch")
    print(
        f"a row       {measured.slots} positions, {measured.padding:.1%} padding; {measured.predicted:.1f} tokens "
        f"predicted (mean of {measured.rows:,} rows)"
    )


def _print_rows(dataset, args: argparse.Namespace, rows: Iterable[tuple[int, Iterable[tuple[str, list]]]]) -> None:
    """Prints rows, given as (number, lines of tokens)."""
    which = "held out" if args.held_out else f"of the batch of step {args.step}"
    for place, lines in rows:
        print(f"\nrow {place} {which}")
        for name, tokens in lines:
            _print_tokens(name, tokens, "" if dataset.tokenizer.kind in ("bytes", "characters") else "|")


def _print_histogram(title: str, bins: list[tuple[int, int, int]]) -> None:
    max_count = max(count for _, _, count in bins)
    print(f"\n{title}")
    width = max(len(f"{low:,} .. {high:,}") for low, high, _ in bins)
    for low, high, count in bins:
        span = f"{low:,}" if low == high else f"{low:,} .. {high:,}"
        print(f"  {span:>{width}s} {'█' * -(-40 * count // max_count):40s} {count:,}")


def _print_tokens(name: str, tokens: list, between: str) -> None:
    from rich.text import Text

    from zoo.cli.console import make_console

    line = Text(f"  {name}: ", style="bold")
    for place, token in enumerate(tokens):
        if place and between:
            line.append(between, style="dim")
        style = "bold green" if token.target is not None else "cyan" if token.special else ""
        line.append(str(token), style=style or "default")
    make_console(soft_wrap=True).print(line)
