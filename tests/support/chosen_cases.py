"""Cases of tests that share one expensive computation, in which only the chosen ones take part."""

import pytest


def cases_of(names, few, reason):
    """Returns the names as parameters; those that are not in `few` are slow, for this reason."""
    assert set(few) <= set(names)
    return [pytest.param(name, marks=() if name in few else pytest.mark.slow(reason=reason)) for name in names]


def chosen_cases(request):
    """Returns the values of the parameter `name` of the tests of the same module that this session
    runs, in their order.
    """
    items = [item for item in request.session.items if item.path == request.node.path and hasattr(item, "callspec")]
    return list(dict.fromkeys(item.callspec.params["name"] for item in items if "name" in item.callspec.params))
