"""Normal forms: equal for layouts of the same tokens, and for nothing else."""

from __future__ import annotations

import ast
import pickle
import random
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name
from tree_sitter import Language, Node, Parser
from tree_sitter_c import language as c_grammar

from tilewright.core.records import KernelLanguage
from tilewright.parts.languages import CUDA, PYTHON, C

DIFFERENT_C = [
    ("x = a++ + b;", "x = a + ++b;"),
    ("x = a - -b;", "x = a-- b;"),
    ('f("a // b");', 'f("a // c");'),
    ('f("a  b");', 'f("a b");'),
    ("c = ' ';", "c = '  ';"),
    ("c = '\"'; // x\n", "c = '\"'; x\n"),
    ("int ab;", "int a b;"),
    ("x = 1.e+5;", "x = 1.e +5;"),
    ("x = .5;", "x = . 5;"),
    ('L"x"', 'L "x"'),
    ("#define F(x) x\n", "#define F (x) x\n"),
    ("#define X 1\nint a;", "#define X 1 int a;"),
    ("#define S(x) #x\ns = S(a+b);", "#define S(x) #x\ns = S(a + b);"),
    ("#include <a//b.h>\n", "#include <a//c.h>\n"),
    ("// a \\\nb();\nc();", "// a\nb();\nc();"),
    ("/* a", "/ * a"),
    ("a /* b */ c", "a /* b * / c"),
    ('R"(// a)"', 'R"(// b)"'),
    ("\nx = __LINE__;", "x = __LINE__;"),
    ("x<::y>", "x< ::y>"),
    ("a :: b", "a : : b"),
    ("#if 1\na\n#endif", "#if 0\na\n#endif"),
    ("a\n#pragma omp simd\nb", "a\nb\n#pragma omp simd"),
    ("x = 'a", "x = ' a"),
    ("x = y; \N{NO-BREAK SPACE}", "x = y;"),
]
DIFFERENT_CUDA = [
    ("k<<<1, 2>>>(x);", "k<< <1, 2>>>(x);"),
    ("x = 1'000;", "x = 1 '000;'"),
    ('"a"_b', '"a" _b'),
    ("a<<<=b", "a<<< =b"),
    ("a<=>=b", "a<=> =b"),
    ("p->*q", "p-> *q"),
]
SAME_C = [
    ("a+b; // x\n/* y\n */ c", "a + b;\nc"),
    ("int a; // é: any text\r\n", "int   a ;"),
    ("# define  F(x)  (x)  // twice\n", "#define F(x) (x)\n"),
    ("in\\\nt a;", "int a;"),
    ('#include "tiles.h" // macros\n', '#include "tiles.h"'),
    ("a = b/ *c;", "a = b / /* by */ *c;"),
]
DIFFERENT_PYTHON = [
    ("x = n // 2\n", "x = n // 4\n"),
    ("if a:\n  b()\nc()\n", "if a:\n  b()\n  c()\n"),
    ("if a:\n  if b:\n    c()\n  d()\n", "if a:\n  if b:\n    c()\n    d()\n"),
    ("f('# a')\n", "f('# b')\n"),
    ("f'{x = }'\n", "f'{x=}'\n"),
    ("'''a\n b'''\n", "'''a\nb'''\n"),
    ("a; b\n", "a\nb\n"),
    ("x = 'a' 'b'\n", "x = 'ab'\n"),
    ("# -*- coding: latin-1 -*-\nx = 'é'\n", "x = 'é'\n"),
    ("x = (a,)\n", "x = (a)\n"),
]
SAME_PYTHON = [
    ("if a:  # why\n\n    b( )\n", "if a:\n  b()\n"),
    ("f(a,\n  b)  # c\n", "f(a, b)\n"),
    ("x = a + \\\n  b\n", "x = a+b"),
]


@pytest.mark.parametrize("language", [C, CUDA], ids=lambda language: language.name)
def test_different_c_has_different_forms(language: KernelLanguage) -> None:
    for one, other in DIFFERENT_C + (DIFFERENT_CUDA if language is CUDA else []):
        assert language.normal_form(one) != language.normal_form(other), one
    for one, other in SAME_C:
        assert language.normal_form(one) == language.normal_form(other), one


def test_different_python_has_different_forms() -> None:
    for one, other in DIFFERENT_PYTHON:
        assert PYTHON.normal_form(one) != PYTHON.normal_form(other), one
    for one, other in SAME_PYTHON:
        assert PYTHON.normal_form(one) == PYTHON.normal_form(other), one


@pytest.mark.parametrize("language", [C, CUDA, PYTHON], ids=lambda language: language.name)
def test_languages_reach_other_processes_and_reports(language: KernelLanguage) -> None:
    assert pickle.loads(pickle.dumps(language)) == language
    assert get_lexer_by_name(language.lexer).name in (language.name, "CUDA")
    assert language.suffix == f".{language.file.partition('.')[2]}"


# Tokens, of which a text is made with as little between them as its lexer needs.
WORDS = """a kernel x1 int 0 17 0x1F 1.5f 1e+3 .5 'a' '\\'' '//' + ++ - -- -> * *= / /= % & && | ||
    ^ << <<= >> >= < = == ! != ( ) [ ] { } ; , . ... ? : <: %>"""
C_TOKENS = st.sampled_from([*WORDS.split(), '"s"', '"/* s */"', '"a b"', '"a  b"', "' '"])
SPACES = st.sampled_from([" ", "\n", "\t ", " /* a */ ", " /* b\n */", " // c\n", "\\\n ", " \r\n"])


def laid_out(tokens: list[str], spaces: list[str]) -> str:
    return "".join(t + s for t, s in zip(tokens, spaces, strict=True))


@given(st.lists(st.tuples(C_TOKENS, SPACES, SPACES), max_size=12))
def test_layout_does_not_matter(drawn: list[tuple[str, str, str]]) -> None:
    tokens = [token for token, _, _ in drawn]
    one = laid_out(tokens, [space for _, space, _ in drawn])
    other = laid_out(tokens, [space for _, _, space in drawn])
    assert C.normal_form(one) == C.normal_form(other) == " ".join(tokens)


@given(st.lists(C_TOKENS, max_size=8), st.lists(C_TOKENS, max_size=8))
def test_other_tokens_have_another_form(one: list[str], other: list[str]) -> None:
    assert (C.normal_form(" ".join(one)) == C.normal_form("\n".join(other))) == (one == other)


PIECES = """a b 1 .5 0x1p "s" 'c' L" + ++ - -- > >> < << = == & | * / // /* */ \\ # ## : :: . ...
    ( ) %: <<< é -> ->* ' " """
BLANKS = ["\n", " ", "\\\n", "#define A(x) ", "\t"]
TEXTS = st.lists(st.sampled_from([*PIECES.split(), *BLANKS]), max_size=10).map("".join)


def spaced(text: str, seed: int) -> str:
    """The text with a space or line end somewhere more or less: often the same tokens."""
    rng = random.Random(seed)
    at = rng.randrange(len(text) + 1)
    rest = text[at + 1 :] if text[at : at + 1] in (" ", "\n") and rng.random() < 0.5 else text[at:]
    return text[:at] + rng.choice(["", " ", "\n", "/**/"]) + rest


def leaves(source: str) -> list[str] | None:
    """The tokens of C by another reader; None where that is unsure what they are."""
    tree = Parser(Language(c_grammar())).parse(source.encode())
    found: list[str] = []

    def walk(node: Node) -> None:
        if node.type == "comment":
            return
        if node.child_count == 0 or node.type in ("string_literal", "char_literal"):
            found.append((node.text or b"").decode())
        else:
            for child in node.children:
                walk(child)

    walk(tree.root_node)
    return None if tree.root_node.has_error else found


@given(TEXTS, st.integers())
@example("a+ +b;", 3)
@example("a// \\\nb;", 3)
def test_c_of_equal_form_has_the_same_tokens_to_another_reader(text: str, seed: int) -> None:
    other = spaced(text, seed)
    for language in (C, CUDA):
        assert language.normal_form(language.normal_form(text)) == language.normal_form(text)
    one, two = leaves(text), leaves(other)
    if C.normal_form(text) == C.normal_form(other) and one is not None and two is not None:
        assert [t for t in one if t.strip()] == [t for t in two if t.strip()]


PYTHON_PIECES = [
    "if a:\n", "  b = 1\n", "    c()\n", "x = a", " + ", "+", "1", "'s'", '"""\n', "'", "# c\n",
    "\n", " ", "  ", "\\\n", "(", ")", "f'{a = }'", "r", "for i in b: ", "//", "/", ";", "\t", "\f",
    "lambda: 0", "é", "[", "]", ":=", "=", "0", "_", "e",
]  # fmt: skip
PYTHON_TEXTS = st.lists(st.sampled_from(PYTHON_PIECES), max_size=10).map("".join)


def syntax(source: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return None


@given(PYTHON_TEXTS, st.integers())
@example("if a:\n  b = 1\nc()\n", 12)
@example("if a:\n\\\n# c\n", 0)
def test_python_of_equal_form_means_the_same(text: str, seed: int) -> None:
    other = spaced(text, seed)
    form = PYTHON.normal_form(text)
    assert PYTHON.normal_form(form) == form
    if PYTHON.normal_form(other) == form:
        assert syntax(text) == syntax(other)
