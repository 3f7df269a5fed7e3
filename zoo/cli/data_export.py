"""`zoo data export`: writes the tokens of a config as files of other programs."""

import argparse
from pathlib import Path
from typing import Any

EXAMPLES = """examples:
  zoo data export configs/gpt2.py:tiny --output tokens --config.data.source=text:corpus.txt
  zoo data export runs/first --output shards --format llmc --shard-tokens 100000000"""
FORMATS = ("nanogpt", "llmc", "megatron", "npy")
SHARD_TOKENS = 100_000_000


def add_parser(actions: Any) -> None:
    """Registers the subcommand."""
    parser = actions.add_parser(
        "export",
        help="write the training and held-out tokens as files of nanoGPT, llm.c, Megatron or NumPy",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("config", metavar="CONFIG", help="FILE[:ARGUMENT], a run's folder, or its config.json")
    add("--output", type=Path, required=True, metavar="DIR", help="new or empty folder for the files")
    add("--format", choices=FORMATS, default="nanogpt", help="format of the files (default: %(default)s)")
    add(
        "--shard-tokens",
        type=int,
        metavar="N",
        help=f"with --format llmc: largest number of tokens of a file (default: {SHARD_TOKENS:,})",
    )
    parser.set_defaults(handler=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Writes the files, the tokenizer and a record of the data, and prints how to train on them."""
    from zoo import data
    from zoo.cli.config import resolved_config
    from zoo.data.sources.token_writers import LARGEST_SHARD, WRITERS, Tokens
    from zoo.errors import ConfigError, not_writable
    from zoo.files import write_json
    from zoo.terminal import shell_line

    if args.shard_tokens is not None and args.format != "llmc":
        raise ConfigError(f"--shard-tokens has no effect with --format {args.format}; it is for llmc")
    args.shard_tokens = SHARD_TOKENS if args.shard_tokens is None else args.shard_tokens
    if not 1 <= args.shard_tokens <= LARGEST_SHARD:
        raise ConfigError(f"--shard-tokens {args.shard_tokens} must be from 1 to {LARGEST_SHARD:,}")
    if args.output.exists() and (not args.output.is_dir() or any(args.output.iterdir())):
        raise ConfigError(f"--output {args.output} exists already; name a new or empty folder")
    config = resolved_config(args.config, args.overrides)
    dataset = data.load(config)
    if not isinstance(dataset, data.TextDataset):
        raise ConfigError(f"objective.kind={config.objective.kind} reads examples, not running text, which is exported")
    if len(dataset.parts) > 1:
        raise ConfigError(
            "data.source=mixture has several sources, whose shares no file can hold; export each by its data.source"
        )
    if dataset.batching.with_sentences:
        raise ConfigError(
            f"data.row_format={config.data.row_format} needs sentences, which the formats do not hold; set packed"
        )
    tokenizer, streams = dataset.tokenizer, {"train": dataset.parts[0].train_stream}
    streams["val"] = dataset.held_out_texts[0].stream
    document_id = tokenizer.bos_id if tokenizer.opens_documents else None
    written = {}
    try:
        args.output.mkdir(parents=True, exist_ok=True)
        for name, stream in streams.items():
            tokens = Tokens(stream.tokens, tokenizer.vocab_size, document_id)
            written[name] = WRITERS[args.format](args.output, name, tokens, args.shard_tokens)
        tokenizer.save(args.output)
        write_json(args.output / "data.json", dataset.summary())
    except OSError as error:
        raise not_writable(args.output, error) from error
    for name, paths in written.items():
        files = f"{len(paths)} files" if len(paths) > 1 else str(paths[0])
        print(f"{name:6s} {len(streams[name]):,} tokens in {files}")
    print("train on them with\n" + shell_line(_flags(args.output, written, tokenizer)))
    return 0


def _flags(folder: Path, written: dict[str, list[Path]], tokenizer: Any) -> list[str]:
    """Returns the flags of a config that reads the files."""

    def source(name: str) -> str:
        paths = written[name]
        return f"tokens:{paths[0] if len(paths) == 1 else folder / f'tokens_{name}_*.bin'}"

    found = {"source": source("train"), "held_out": source("val")}
    if tokenizer.reads_text:
        found |= {"tokenizer.kind": "file", "tokenizer.path": folder}
    else:
        found |= {"tokenizer.kind": "unknown", "tokenizer.ids": tokenizer.vocab_size}
        found |= {"tokenizer.document_id": tokenizer.bos_id} if tokenizer.opens_documents else {}
    return [f"--config.data.{name}={value}" for name, value in found.items()]
