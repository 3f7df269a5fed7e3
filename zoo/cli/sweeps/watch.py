"""`zoo watch`: the report of a sweep while it goes on, in a browser or in the terminal."""

import argparse
from pathlib import Path

EPILOG = """examples:
  zoo watch runs/norm_placement
  zoo watch runs/norm_placement --port 0
  zoo watch runs/norm_placement --terminal

The page is served to this machine alone. From elsewhere: ssh -L 8765:127.0.0.1:8765 HOST. Ctrl-C ends it; runs are not touched."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "watch",
        help="follow runs that go on",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        description="Serves the report of a sweep, or of a single run, on 127.0.0.1 and keeps it new while runs go on.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder of a sweep or of a run")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--port",
        metavar="N",
        type=_port,
        default=8765,
        help="port to serve on; 0: any that is free (default: %(default)s)",
    )
    how.add_argument("--terminal", action="store_true", help="show the runs in this terminal instead")
    parser.set_defaults(handler=run)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serves, or shows, until all runs have ended or Ctrl-C."""
    try:
        return _terminal(args.folder) if args.terminal else _serve(args.folder, args.port)
    except KeyboardInterrupt:
        return 0


def _terminal(folder: Path) -> int:
    from rich.console import Console

    from zoo.lab.launch.watch_display import follow

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    follow(folder, console)
    return 0


def _serve(folder: Path, port: int) -> int:
    from zoo.lab.report.server import Pages, Server

    with Server(Pages(folder), port) as server:
        print(f"{folder} is at {server.address} (Ctrl-C ends this)", flush=True)
        server.serve_forever()
    return 0
