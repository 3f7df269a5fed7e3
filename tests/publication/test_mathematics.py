"""Equations of texts as mathematics."""

import re
from xml.etree import ElementTree

import pytest

from publication.mathematics import marked, mathml, set_equations
from zoo.variants import VARIANTS
from zoo.variants.variant_page import computes

TEXTS = {variant.name: computes(variant) for variant in VARIANTS}


def linear(element):
    """Returns MathML as a line in which fractions, roots and scripts have parentheses of their own."""
    parts = [linear(child) for child in element]
    name = element.tag
    if name in ("math", "mrow"):
        return "".join(parts)
    if name == "mfrac":
        return f"frac({parts[0]},{parts[1]})"
    if name in ("msqrt", "munder"):
        return f"{name}({('' if name == 'msqrt' else ',').join(parts)})"
    if name in ("msub", "msup", "msubsup"):
        below = f"_{{{parts[1]}}}" if "sub" in name else ""
        above = f"^{{{parts[-1]}}}" if "sup" in name else ""
        return f"{parts[0]}{below}{above}"
    return " " if name == "mspace" else element.text


def read(equation, displayed=True):
    """Returns an equation, read and written in a line."""
    return linear(ElementTree.fromstring(mathml(equation, displayed)))


@pytest.mark.parametrize(
    ("equation", "line"),
    [
        ("x / sqrt(mean(x^2) + epsilon) * scale", "frac(x,msqrt(mean(x^{2})+ε))∗scale"),
        ("2 F / 3", "frac(2 F,3)"),
        ("x / 2 * (1 + y)", "frac(x,2)∗(1+y)"),
        ("scale * q . k / c", "scale∗q·frac(k,c)"),
        ("(a_h . v) v / |v|^2", "frac((a_{h}·v) v,|v|^{2})"),
        ("(x - y) / (D/2 - 1)", "frac(x−y,frac(D,2)−1)"),
        ("sum_s p(q_t) . k_s v_s / sum_s k_s . q", "frac(munder(∑,s) p(q_{t})·k_{s} v_{s},munder(∑,s) k_{s}·q)"),
        ("exp(s) / (exp(b_h) + sum_r exp(r))", "frac(exp(s),exp(b_{h})+munder(∑,r) exp(r))"),
        ("S_(t-1) + k_t v_t^T", "S_{t−1}+k_{t} v_{t}^{T}"),
        ("10000^(2i/D)", "10000^{2 i/D}"),
        ("theta^(-2i / (f * K))", "θ^{−2 i/(f∗K)}"),
        ("q'_h . k'", "q_{h}^{′}·k^{′}"),
        ("-log p(x_t | x_<t)", "−log p(x_{t}∣x_{<t})"),
        ("W_v,g + x0", "W_{v,g}+x_{0}"),
        ("RMSNorm(y / sqrt(K))_h", "RMSNorm(frac(y,msqrt(K)))_{h}"),
        ("x_t[D / 2 :]", "x_{t}[frac(D,2):]"),
        ("sqrt(v) + 1e-12", "msqrt(v)+10^{−12}"),
        ("b <- b + r sign(n)", "b←b+r sign(n)"),
        ("0 <= i < W", "0≤i<W"),
        ("i, f = x W", "i,f=x W"),
    ],
)  # fmt: skip
def test_equations_are_read_as_they_are_meant(equation, line):
    assert read(equation) == line


def test_within_a_line_a_division_is_a_slash():
    assert read("(a + b) / c", displayed=False) == "(a+b)/c"


@pytest.mark.parametrize("wrong", ["x +", "x = y)", "[0, 1)", "the loss of x", "x ** 2", ""])
def test_what_is_no_equation_is_refused(wrong):
    with pytest.raises(ValueError, match="is no equation from"):
        mathml(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("over the D values of a token (Ba et al. 2016, eq. 4)", "over the `$D$` values of a token (Ba et al. 2016, eq. 4)"),
        ("a window of W = `attention.window` keys", "a window of `$W$` = `attention.window` keys"),
        ("GPT-J, T5, Swin V2, a d-th key, the q/k/v projections", "GPT-J, T5, Swin V2, a d-th key, the q/k/v projections"),
        ("the 2 K elements, V G K parameters", "the `$2 K$` elements, `$V G K$` parameters"),
        ("with unbiased variance (n / (n - 1)), by Yang et al. 2024b", "with unbiased variance `$(n / (n - 1))$`, by Yang et al. 2024b"),
        ("the layer's x, as \"next_loss\"; [CLS]", "the layer's `$x$`, as \"next_loss\"; [CLS]"),
        ("the output concat_h(a_h) W_o", "the output `$concat_h(a_h) W_o$`"),
        ("y = x W + b, where x is wide", "`$y = x W + b$`, where `$x$` is wide"),
        ("y = max(0, x W_up)^2 W_down (So et al. 2021)", "`$$y = max(0, x W_up)^2 W_down$$` (So et al. 2021)"),
        ("First:\n\n    y = x W\n    z = y\n\nthen y = x W_1 W_2 W_3 W_4 W_5", "First:\n\n`$$y = x W$$`\n`$$z = y$$`\n\nthen `$y = x W_1 W_2 W_3 W_4 W_5$`"),
    ],
)  # fmt: skip
def test_equations_are_found_in_sentences(text, expected):
    assert marked(text) == expected


def test_marked_equations_of_a_page_are_set():
    page = "<p><code>$$y = x < 1$$</code>, <code>y = x</code> and <code>$D$</code>.</p>".replace(" < ", " &lt; ")
    shown = set_equations(page)
    assert shown.count("<math") == 2
    assert '<math display="block">' in shown
    # The comma stands in the equation's line, the full stop in the sentence's.
    assert "<mtext>,</mtext></mrow></math></span> <code>y = x</code> and <math>" in shown
    assert shown.endswith("</math>.</p>")
    assert "&lt;" in shown


def test_every_variant_has_an_equation_that_is_set():
    # These variants are described in words: they change frequencies.
    assert {name for name, text in TEXTS.items() if "`$" not in marked(text)} == {
        "rope-yarn",
        "rope-llama3",
        "rope-linear",
    }
    for text in TEXTS.values():
        for equation in re.findall(r"`\${1,2}([^`$]+)\$", marked(text)):
            assert "math" in mathml(equation)


def test_no_sign_is_left_in_front_of_an_equation():
    """A text whose equation is read in parts has an operator between them."""
    cut = re.compile(r"\$` (?:[-+*/^]|\. |<-)|[-+*/^=] ?`\$")
    assert {name: cut.findall(marked(text)) for name, text in TEXTS.items() if cut.search(marked(text))} == {}
