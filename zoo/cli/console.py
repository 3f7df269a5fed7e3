"""The console of commands that print tables and progress."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from zoo.terminal import escape


class EscapedConsole(Console):
    """A console that escapes control characters in what it prints, but not its own."""

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        """Yields the segments of what is printed."""
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else segment._replace(text=escape(segment.text))


def make_console(width: int = 160, **options: Any) -> Console:
    """Returns a console that is `width` columns wide if the output is not a terminal.

    Args:
        width: `zoo.lab.launch.fitted_table.UNLIMITED` where a table must not be cut.
        options: of `rich.console.Console`.
    """
    # The stream inside: what escapes all output would also escape the console's colours.
    console = EscapedConsole(highlight=False, file=getattr(sys.stdout, "unescaped", sys.stdout), **options)
    if not console.is_terminal:
        console.width = width
    return console
