"""`zoo draw`: figures of a model's architecture and activations."""

import argparse
import ast
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli import plugin_options
from zoo.config import plugins
from zoo.config.shipped import DRAWINGS as SHIPPED
from zoo.config.shipped import shipped_folder, shipped_names
from zoo.draw.drawing import BUILT_IN, DRAWINGS, file_name, short_name
from zoo.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from zoo.config import ResolvedConfig

EXAMPLES = """examples:
  zoo draw architecture configs/transformer.py configs/llama.py:7b
  zoo draw mask configs/gemma3.py
  zoo draw heads configs/gpt2.py configs/mistral.py configs/gemma3.py
  zoo draw heads llama:7b llama:7b,model.attention.num_kv_heads=8 llama:7b,model.attention.num_kv_heads=1
  zoo draw embeddings bert:tiny --text "my dog is cute" --second "he likes playing"
  zoo draw norms
  zoo draw positions configs/bloom.py
  zoo draw attention runs/bert --text "the bank of the river" --layers 0,5 --out figures
  zoo draw query runs/bert --text "the law will never be perfect , but its application should be just" --token its
  zoo draw sinusoids --length 128 --dim 64 --out figures
  zoo draw online-softmax --length 12 --tile 4
  zoo draw rope configs/llama.py:7b --out figures
  zoo draw rope-bound runs/llama --out figures --format svg
  zoo draw biases runs/t5 --out figures; zoo draw biases --heads 8 --out figures
  zoo draw gradients configs/gpt2.py:tiny
  zoo draw shift runs/layernorm runs/rmsnorm
  zoo draw neighbours runs/bert --text "the law is good"
  zoo draw coordinates gpt2:tiny gpt2:tiny,model.parametrization=mup --widths 32,64,128 --out figures
  zoo draw soft-targets runs/student --text "the cat sat on the mat ." --token sat mat
  zoo draw compare configs/gpt2.py:small configs/llama.py:7b --out figures

A run is a folder that train.py or zoo import created. Each figure is written as PNG and as SVG, by default into
the folder figures, and its path is printed. A plug-in may add figures (docs/your_own_variant.md)."""

HEADS_EXAMPLE = """example: multi-head, grouped-query and multi-query attention in one model
  zoo draw heads llama:7b llama:7b,model.attention.num_kv_heads=8 llama:7b,model.attention.num_kv_heads=1"""

DIAGRAMS = ("architecture", "mask", "heads", "embeddings", "positions")
MAPS = ("attention", "query")
PAIR = "my dog is cute", "he likes playing"
"""The texts of figure 2 of Devlin et al. 2019."""
MAX_TOKENS_READ = 128


def prepare(arguments: Sequence[str]) -> None:
    """Loads the plug-ins that define the figure, whose options are parsed next.

    Args:
        arguments: the words after `zoo draw`.
    """
    plugin_options.load_named(arguments)
    if arguments and arguments[0] not in {**BUILT_IN, **DRAWINGS}:
        plugins.load_shipped(SHIPPED, arguments[0])


def _meanings() -> dict[str, str]:
    """Returns what every figure shows. A plug-in that comes with zoo and is not loaded says so in the
    first line of its docstring, and is not executed.
    """
    found = BUILT_IN | {name: drawing.meaning for name, drawing in DRAWINGS.items()}
    for name in shipped_names(SHIPPED):
        if name not in found:
            text = (shipped_folder(SHIPPED) / f"{name}.py").read_text(encoding="utf-8")
            line = (ast.get_docstring(ast.parse(text)) or name).partition("\n")[0].removesuffix(".")
            found[name] = line[0].lower() + line[1:]
    return found


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand, with a subcommand for each figure."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = subparsers.add_parser(
        "draw",
        help="draw architectures, attention, masks, positions, sizes",
        epilog=EXAMPLES,
        formatter_class=raw,
        description="Draws a figure of a model; zoo draw WHAT --help shows its options.",
    )
    whats = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    made = {name: whats.add_parser(name, help=text, description=f"Draws {text}.") for name, text in _meanings().items()}
    made["heads"].epilog, made["heads"].formatter_class = HEADS_EXAMPLE, raw
    _add_subjects(made)
    _add_options(made)
    for name, drawing in DRAWINGS.items():
        drawing.add_options(made[name])
    for each in made.values():
        each.add_argument(
            "--out", type=Path, default=Path("figures"), metavar="DIR", help="folder to write into (default: figures)"
        )
        each.add_argument(
            "--format", default="png,svg", metavar="KINDS", help="png, svg, pdf, or several (default: %(default)s)"
        )
        each.add_argument("--json", action="store_true", help="print the paths as one JSON list")
        each.set_defaults(handler=run)


def _add_subjects(made: dict[str, argparse.ArgumentParser]) -> None:
    """Adds what each figure is of."""
    for name in (*MAPS, "learned-positions", "residual", "experts", "soft-targets"):
        made[name].add_argument("run", metavar="RUN", type=Path, help="a run's folder")
    made["experts"].add_argument(
        "other", metavar="RUN2", type=Path, nargs="?", help="a run with another seed: how far they agree in the routing"
    )
    made["gradients"].add_argument(
        "subjects",
        metavar="CONFIG|RUN",
        nargs="*",
        default=["configs/gpt2.py:tiny"],
        help="a config, of which one update is taken with pre-norm and one with post-norm, or folders of runs "
        "with dynamics.jsonl (default: configs/gpt2.py:tiny)",
    )
    made["biases"].add_argument("run", metavar="RUN", type=Path, nargs="?", help="a run's folder (default: ALiBi)")
    made["rope"].add_argument(
        "config",
        metavar="CONFIG",
        nargs="?",
        default="configs/llama.py:7b",
        help="a config with RoPE, or a run's folder (default: %(default)s)",
    )
    made["rope-bound"].add_argument(
        "config",
        metavar="CONFIG",
        nargs="?",
        default="configs/llama.py:7b",
        help="a config with RoPE, or a run's folder, whose scores are drawn too (default: %(default)s)",
    )
    spec = "FILE[:ARGUMENT], a run's folder, or its config.json"
    for name in DIAGRAMS:
        made[name].add_argument("config", metavar="CONFIG", help=spec)
    made["architecture"].add_argument("others", metavar="CONFIG2", nargs="*", help="another one, drawn beside it")
    made["heads"].add_argument("others", metavar="CONFIG", nargs="*", help="others, drawn below it")
    made["norms"].add_argument(
        "kinds", metavar="KIND", nargs="*", help="values of model.norm.kind (default: layernorm batchnorm rmsnorm)"
    )
    for name in ("one", "other"):
        made["compare"].add_argument(name, metavar="CONFIG", help=spec)


def _add_options(made: dict[str, argparse.ArgumentParser]) -> None:
    """Adds the options of each figure."""
    for name in MAPS:
        made[name].add_argument(
            "--target", default="", metavar="TEXT", help="text of the decoder, for an encoder-decoder"
        )
        made[name].add_argument("--layers", default="", metavar="N,N", help="layers (default: all)")
        made[name].add_argument("--heads", default="", metavar="N,N", help="heads (default: all)")
    made["attention"].add_argument(
        "--initial", action="store_true", help="also the map of each head at the run's initial values"
    )
    made["embeddings"].add_argument("--text", default="", metavar="TEXT", help=f'the text (default: "{PAIR[0]}")')
    made["embeddings"].add_argument(
        "--second", metavar="TEXT", help=f'the second text of a pair (default: "{PAIR[1]}", if there are segments)'
    )
    made["online-softmax"].add_argument("--length", type=int, default=12, metavar="N", help="keys (default: 12)")
    made["online-softmax"].add_argument("--tile", type=int, default=4, metavar="N", help="keys of a tile (default: 4)")
    made["query"].add_argument("--token", default="", metavar="TEXT", help="the query (default: the last token)")
    made["biases"].add_argument(
        "--heads", type=int, metavar="H", help="number of heads for ALiBi, without a run (default: 8)"
    )
    made["sinusoids"].add_argument("--dim", type=int, default=64, metavar="D", help="dimensions (default: %(default)s)")
    made["sinusoids"].add_argument(
        "--layout", default="interleaved", choices=("interleaved", "half"), help="(default: %(default)s)"
    )
    made["experts"].add_argument(
        "--text", default="", metavar="TEXT", help="text of which the experts of each token are drawn"
    )
    for name in (*MAPS, "rope-bound", "residual", "soft-targets"):
        made[name].add_argument(
            "--text", default="", metavar="TEXT", help="text that the run reads (default: built-in sentences)"
        )
    for name in ("positions", "sinusoids", "rope", "rope-bound", "biases"):
        made[name].add_argument("--length", type=int, default=128, metavar="N", help="positions (default: %(default)s)")
    made["mask"].add_argument(
        "--length",
        type=int,
        default=0,
        metavar="N",
        help="tokens of a row (default: a row of training, if it shows the windows)",
    )
    made["learned-positions"].add_argument(
        "--length", type=int, default=0, metavar="N", help="positions (default: all)"
    )
    for name in (*MAPS, "rope-bound", "biases", "learned-positions", "residual", "experts", "soft-targets"):
        made[name].add_argument(
            "--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)"
        )
    _add_options_of_soft_targets(made["soft-targets"])


def _add_options_of_soft_targets(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a student's figure."""
    parser.add_argument(
        "--teacher", type=Path, metavar="RUN", help="the teacher's folder (default: the one that RUN learnt from)"
    )
    parser.add_argument(
        "--token",
        nargs="+",
        default=[""],
        metavar="TEXT",
        help="the tokens that are predicted (default: the last word)",
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="divides the logits of both models (default: that of RUN)"
    )
    parser.add_argument(
        "--count", type=int, default=8, metavar="N", help="most probable tokens of the teacher (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Draws the figure and prints the paths of its files."""
    from zoo.draw.style import IMAGE_FORMATS, drawing

    kinds = args.format.split(",")
    for kind in kinds:
        if kind not in IMAGE_FORMATS:
            raise ConfigError(
                f"--format {kind}: figures are written as png, svg or pdf{did_you_mean(kind, IMAGE_FORMATS)}"
            )
    for name in ("length", "dim", "heads", "count", "tile"):
        value = getattr(args, name, None)
        if (
            isinstance(value, int)
            and value < 1
            and not (name == "length" and args.what in ("learned-positions", "mask") and value == 0)
        ):
            raise ConfigError(f"--{name} {value} must be at least 1")
    if args.out.exists() and not args.out.is_dir():
        raise ConfigError(f"--out {args.out} is a file, not a folder")
    with drawing():
        written = _written(args, kinds)
    paths = list(map(str, written))
    print(json.dumps(paths) if args.json else "\n".join(paths))
    return 0


def _written(args: argparse.Namespace, kinds: list[str]) -> list[Path]:
    """Draws the figure in every format; returns the paths."""
    if args.what in MAPS:
        from zoo.draw import attention_maps, query_lines
        from zoo.draw.run_activations import read_text

        found = read_text(args.run, args.text, args.target, args.step)
        which = args.layers, args.heads
        if args.what == "attention":
            return attention_maps.draw(found, args.out, kinds, *which, args.initial)
        return query_lines.draw(found, args.out, kinds, args.token, *which)
    from zoo.draw.style import save

    if args.what in DRAWINGS:
        pages = _pages(args)
    else:
        pages = {"-".join([args.what, *_aspect(args), *map(short_name, _specs(args))]): _page(args)}
    return [save(page, args.out / f"{file_name(name)}.{kind}") for name, page in pages.items() for kind in kinds]


def _pages(args: argparse.Namespace):
    """Returns the figures of a plug-in, by the names of their files.

    Raises:
        ConfigError: it returns something else.
    """
    from matplotlib.figure import Figure

    found = DRAWINGS[args.what].draw(args)
    pages = found if isinstance(found, Mapping) else {"": found}
    if wrong := [type(page).__name__ for page in pages.values() if not isinstance(page, Figure)]:
        raise ConfigError(f"drawing {args.what} returned {wrong[0]}, expected a matplotlib.figure.Figure")
    return {"-".join(filter(None, (args.what, name))): page for name, page in pages.items()}


def _specs(args: argparse.Namespace) -> list[str]:
    """Returns the configs that a diagram is of; the names of other figures do not depend on them."""
    return [args.config, *getattr(args, "others", [])] if args.what in DIAGRAMS else []


def _aspect(args: argparse.Namespace) -> list[str]:
    """Returns the word that tells figures of experts apart, in the names of their files."""
    if args.what != "experts":
        return []
    return ["agreement"] if args.other else ["text"] if args.text else []


def _page(args: argparse.Namespace):
    """Returns the figure, unless it is of attention. Imports Matplotlib and JAX only here."""
    if args.what == "sinusoids":
        from zoo.draw import sinusoids

        if args.dim % 2:
            raise ConfigError(f"--dim {args.dim}: sinusoids need an even number of dimensions")
        return sinusoids.page(args.length, args.dim, args.layout)
    if args.what == "norms":
        from zoo.draw import norm_axes

        return norm_axes.page(args.kinds or norm_axes.DRAWN)
    if args.what == "online-softmax":
        from zoo.draw import online_softmax

        return online_softmax.page(args.length, args.tile)
    if args.what in ("rope", "rope-bound"):
        return _rope(args)
    if args.what == "biases":
        from zoo.draw import position_biases

        if args.run is None:
            if args.step != "latest":
                raise ConfigError(f"--step {args.step} has no effect without a run")
            return position_biases.alibi_page(8 if args.heads is None else args.heads, args.length)
        if args.heads is not None:
            raise ConfigError("--heads has no effect with a run, which has its own heads")
        return position_biases.page(position_biases.load_biases(args.run, args.length, args.step))
    if args.what == "learned-positions":
        from zoo.draw import learned_positions

        return learned_positions.page(learned_positions.load_cosines(args.run, args.length, args.step))
    if args.what == "residual":
        from zoo.draw import residual
        from zoo.draw.run_activations import read_text

        return residual.page(read_text(args.run, args.text, step=args.step, max_tokens=MAX_TOKENS_READ, sentences=8))
    if args.what == "soft-targets":
        return _soft_targets(args)
    if args.what == "experts":
        from zoo.draw import expert_loads, router_maps

        if args.other:
            return router_maps.agreement_page((args.run, args.other), args.text, args.step)
        if args.text:
            return router_maps.map_page(args.run, args.text, args.step)
        if args.step != "latest":
            raise ConfigError(
                f"--step {args.step} has no effect without --text: loads are drawn at all steps of the run"
            )
        return expert_loads.page(expert_loads.read_loads(args.run), args.run.name)
    if args.what == "gradients":
        return _gradients(args.subjects)
    return _diagram(args)


def _soft_targets(args: argparse.Namespace):
    from zoo.draw import soft_targets

    if args.temperature is not None and not 0 < args.temperature < math.inf:
        raise ConfigError(f"--temperature {args.temperature:g} must be above 0")
    found = soft_targets.read_soft_targets(
        args.run, args.teacher, args.text, args.token, args.temperature, args.count, args.step
    )
    return soft_targets.page(found)


def _gradients(subjects: list[str]):
    from zoo import config as configs
    from zoo.draw import depth_profiles

    if all((Path(subject) / "config.json").is_file() for subject in subjects):
        folders = [Path(subject) for subject in subjects]
        found = [profile for folder in folders for profile in depth_profiles.profiles(folder, folder.name)]
        return depth_profiles.page(found, "as recorded in training")
    if len(subjects) > 1:
        raise ConfigError("zoo draw gradients takes one config, or folders of runs")
    return depth_profiles.page(depth_profiles.at_the_start(configs.load(subjects[0])), subjects[0])


def _diagram(args: argparse.Namespace):
    """Returns the figure of a config, or of two."""
    from zoo.cli.config import resolved_config

    if args.what == "architecture":
        from zoo.draw.diagrams import architecture_diagram

        if len(_specs(args)) > 2:
            raise ConfigError(f"zoo draw architecture draws one config or two, not {len(_specs(args))}")
        return architecture_diagram.page([resolved_config(spec, []) for spec in _specs(args)], _specs(args))
    if args.what == "heads":
        from zoo.draw.diagrams import head_sharing

        return head_sharing.page([resolved_config(spec, []) for spec in _specs(args)], _specs(args))
    if args.what == "embeddings":
        return _embeddings(resolved_config(args.config, []), args)
    if args.what == "positions":
        from zoo.draw import position_tables

        return position_tables.page(resolved_config(args.config, []), args.config, args.length)
    if args.what == "mask":
        from zoo.draw.diagrams import attention_masks

        return attention_masks.page(resolved_config(args.config, []), args.config, args.length)
    from zoo.draw import compare

    return compare.page(resolved_config(args.one, []), resolved_config(args.other, []), (args.one, args.other))


def _embeddings(config: "ResolvedConfig", args: argparse.Namespace):
    """Returns the figure of a text's embeddings."""
    from zoo.cli.data import text_tokenizer
    from zoo.data.pipeline.show import TextRow
    from zoo.draw.diagrams import embedding_rows

    if args.second is not None and not args.text:
        raise ConfigError("--second needs --text")
    pair = config.model.architecture == "encoder" and config.model.embedding.segments > 1
    text, second = (args.text, args.second) if args.text else (PAIR[0], PAIR[1] if pair else None)
    embedding_rows.embedding_sum(config, (), ())
    row = TextRow.of(config, text_tokenizer(config, args.config), text, second)
    return embedding_rows.page(config, args.config, row.names, row.ids, row.segments)


def _rope(args: argparse.Namespace):
    from zoo.cli.config import resolved_config
    from zoo.draw import rope_pictures
    from zoo.draw.position_tables import own_positions
    from zoo.draw.run_activations import read_text

    whole = resolved_config(args.config, [])
    # Kinds of layers may have bases of their own, or no RoPE: the first that has it is drawn.
    rotated = {name: model for name, model in own_positions(whole).items() if model.position.kind == "rope"}
    name, config = next(iter(rotated.items()), ("", whole.model))
    title = (
        f"{name}: RoPE with base {config.position.theta:,.0f}" + ", one of several" * (len(rotated) > 1) if name else ""
    )
    if args.what == "rope":
        return rope_pictures.angles_page(config, args.length, title)
    rope_pictures.pair_rotations(config, 1)
    trained = Path(args.config) if (Path(args.config) / "checkpoints").is_dir() else None
    if trained is None:
        if given := [flag for flag, value in (("--text", args.text), ("--step", args.step != "latest")) if value]:
            raise ConfigError(f"{' and '.join(given)}: no effect, as {args.config} is not a trained run")
        return rope_pictures.bound_page(config, args.length, title=title)
    found = read_text(trained, args.text, step=args.step, max_tokens=args.length, sentences=8)
    return rope_pictures.bound_page(config, args.length, found, next(iter(found.labels)), title)
