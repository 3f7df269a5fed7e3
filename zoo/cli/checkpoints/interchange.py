"""`zoo import` and `zoo export`: conversion from and to checkpoints of other libraries."""

import argparse
import json
from pathlib import Path

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.interop.checkpoint_source import KINDS, find_checkpoint

IMPORT_EXAMPLES = """examples:
  zoo import hf:downloads/bert-base --out runs/bert
  zoo import hf:openai-community/gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e --out runs/gpt2
  zoo import elmo:downloads/elmo --out runs/elmo
  zoo config show runs/bert; python eval.py runs/bert --text FILE
  python train.py --config=runs/gpt2/config.json --config.training.start_from=runs/gpt2 --workdir=runs/tuned

sources:
  {sources}

Safetensors are read. Pickles are not opened, except pytorch_model.bin of a folder by torch, where that is installed,
whose weights-only loading runs no code; code of a repository is not fetched. A name is looked up on the hub, or in its
cache if the hub cannot be reached; a folder needs no network. Settings of a config.json that zoo
does not support are rejected by name."""

EXPORT_EXAMPLES = """examples:
  zoo export runs/tuned --out exports/tuned
  zoo export runs/first --class LlamaForCausalLM --step best --out exports/first
  python -c "import transformers; transformers.AutoModelForCausalLM.from_pretrained('exports/first')"

The exported settings are read back before anything is written and must describe the same model: a field that the
class cannot express is rejected by name. Dropout only acts in training: use --config.model.dropout=0 if the class
has none."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers both subcommands."""
    raw = argparse.RawDescriptionHelpFormatter
    taken = subparsers.add_parser(
        "import",
        help="convert a checkpoint of another library into a run",
        formatter_class=raw,
        epilog=IMPORT_EXAMPLES.format(sources="\n  ".join(KINDS.values())),
        description="Converts a checkpoint of another library into the folder of a run.",
    )
    taken.add_argument("source", metavar="SOURCE", help="hf:DIR, hf:NAME[@REVISION], elmo:DIR or fairseq:DIR")
    taken.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the run; new or empty")
    taken.add_argument(
        "--class", dest="class_name", metavar="NAME", help="class of the checkpoint (default: the one in config.json)"
    )
    taken.add_argument(
        "--tokenizer",
        type=Path,
        metavar="PATH",
        help="tokenizer.json, vocab.txt, or a folder with one, instead of the checkpoint's",
    )
    taken.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="SETTING",
        help="import although the class does not know this setting of config.json (or argument of fairseq), as if it "
        "changed nothing; may be repeated; the run records it",
    )
    taken.add_argument("--json", action="store_true", help="print one JSON object")
    taken.set_defaults(handler=run_import, takes_overrides=True)
    given = subparsers.add_parser(
        "export",
        help="convert a run into a checkpoint of another library",
        formatter_class=raw,
        epilog=EXPORT_EXAMPLES,
        description="Converts a run into a checkpoint of another library.",
    )
    given.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    given.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to write; new or empty")
    given.add_argument(
        "--class",
        dest="class_name",
        metavar="NAME",
        help="class to write (default: the one it was imported from, or the first that can express the model)",
    )
    given.add_argument("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    given.add_argument("--json", action="store_true", help="print one JSON object")
    given.set_defaults(handler=run_export, takes_overrides=True)


def run_import(args: argparse.Namespace) -> int:
    """Imports a checkpoint and prints a summary."""
    changes = configs.parse_overrides(args.overrides)
    if args.class_name is not None and not args.source.startswith("hf:"):
        raise ConfigError(f"--class {args.class_name} is for hf: sources; {args.source} has only one")
    source = find_checkpoint(args.source)
    from zoo.interop.importing import import_report, import_run

    found, config, count = import_run(source, args.out, args.class_name, args.tokenizer, changes, args.ignore)
    lines = import_report(found, config, count, args.out)
    if args.json:
        print(json.dumps({"run": str(args.out), "source": args.source, "parameters": count, "report": lines}, indent=2))
    else:
        print("\n".join(lines))
    return 0


def run_export(args: argparse.Namespace) -> int:
    """Exports a run and prints a summary."""
    from zoo.interop import importer_of
    from zoo.interop.exporting import export_run

    changes = configs.parse_overrides(args.overrides)
    run, expressed, tokenizer = export_run(args.run, args.out, args.class_name, args.step, changes)
    notes = importer_of(expressed.class_name).deviations(expressed.settings)
    if args.json:
        record = {"folder": str(args.out), "class": expressed.class_name, "parameters": run.parameters}
        record |= {"step": run.step, "tokenizer": bool(tokenizer)} | ({"notes": list(notes)} if notes else {})
        print(json.dumps(record, indent=2))
        return 0
    print(f"{args.out}: {expressed.class_name}, {run.parameters:,} parameters of step {run.step}")
    for line in notes:
        print(line)
    if not tokenizer:
        print(f"no tokenizer.json: a tokenizer of kind {run.tokenizer.kind} cannot be written for another library")
    return 0
