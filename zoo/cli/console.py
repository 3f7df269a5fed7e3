"""The console of commands that print tables and progress."""

from rich.console import Console


def make_console() -> Console:
    """Returns a console that is 160 columns wide if the output is not a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    return console
