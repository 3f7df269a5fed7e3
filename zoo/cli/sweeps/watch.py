"""`zoo watch`: the live report of a sweep, in a browser or in the terminal."""

import argparse
from pathlib import Path

from zoo.errors import shortened

EPILOG = """examples:
  zoo watch runs/norm_placement
  zoo watch runs/norm_placement --port 0
  zoo watch runs/norm_placement --terminal
  zoo watch runs

The page is served to this machine only; from another one, forward the port: ssh -L 8765:127.0.0.1:8765 HOST. Ctrl-C
ends the server and leaves the runs alone."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "watch",
        help="follow active runs in a browser or in the terminal",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Serves the report of a sweep, of a single run, or of all sweeps in a folder, on 127.0.0.1 and "
        "updates it while runs are active.",
    )
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="folder of a sweep or of a run, or one that holds sweeps"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--port",
        metavar="N",
        type=_port,
        default=8765,
        help="port of the server; 0 for any free one (default: %(default)s)",
    )
    how.add_argument("--terminal", action="store_true", help="show the runs in this terminal instead")
    parser.set_defaults(handler=run)


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{shortened(repr(text))} is not a port: expected an integer from 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serves the report until Ctrl-C, or shows the runs until all have ended."""
    try:
        return _terminal(args.folder) if args.terminal else _serve(args.folder, args.port)
    except KeyboardInterrupt:
        return 0


def _terminal(folder: Path) -> int:
    from zoo.cli.console import make_console
    from zoo.lab.launch.watch_display import follow

    follow(folder, make_console())
    return 0


def _serve(folder: Path, port: int) -> int:
    from zoo.lab.report.index_page import sweep_folders
    from zoo.lab.report.server import Pages, Server, Site

    single = (folder / "experiment.json").exists() or not sweep_folders(folder)
    with Server(Pages(folder) if single else Site(folder), port) as server:
        print(f"{folder} is served at {server.address} (Ctrl-C ends the server)", flush=True)
        server.serve_forever()
    return 0
