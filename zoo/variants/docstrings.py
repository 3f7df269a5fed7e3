"""Docstrings of the code that computes variants, read from the source, which is not imported."""

import ast
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zoo

Code = str | Callable[..., Any]


def module_and_name(code: Code) -> tuple[str, str]:
    """Returns the module and the name of a class or function.

    Args:
        code: "zoo.layers.norm:RMSNorm", or the object itself (of a plug-in).
    """
    if isinstance(code, str):
        module, _, name = code.partition(":")
        return module, name
    return code.__module__, code.__qualname__


def docstring(code: Code) -> str:
    """Returns the docstring of a class or function, without the indentation.

    Args:
        code: as for `module_and_name`.
    """
    if not isinstance(code, str):
        return inspect.getdoc(code) or ""
    module, name = module_and_name(code)
    definition = next(node for node in _parsed(module).body if getattr(node, "name", None) == name)
    return ast.get_docstring(definition) or ""


@functools.cache
def _parsed(module: str) -> ast.Module:
    path = Path(zoo.__file__).parents[1] / f"{module.replace('.', '/')}.py"
    return ast.parse(path.read_text(encoding="utf-8"))
