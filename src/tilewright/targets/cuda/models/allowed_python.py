"""Restricts the Python of an answer, so that parsing gives the same meaning as running it.

An answer is read and never run. Statements that could give one of its names another meaning, or
that could have an effect when the file is imported or the model is constructed, are refused as not
understood.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable

from tilewright.targets.cuda.models.not_checked import NotReadError

MODEL, LOADER = "ModelNew", "load_inline"
_SOURCES = {
    "torch": "torch", "nn": "torch.nn", LOADER: f"torch.utils.cpp_extension.{LOADER}",
    "cpp_extension": "torch.utils.cpp_extension", "math": "math",
}  # fmt: skip
"""Names that must keep their usual meaning, and the modules from which they must be imported."""
_MODULES = frozenset(
    {"torch", "numpy", "math", "os", "sys", "time", "typing", "functools", "__future__"}
)
_MAKER = re.compile(
    r"(?:torch\.)?nn\.[A-Z]\w*"
    r"|torch\.(?:device|empty|zeros|ones|full|tensor|rand|randn|arange|eye|linspace|tril|triu)"
    r"|math\.(?:sqrt|exp|log|log2|floor|ceil)"
    r"|int|float|str|len|super|super\(.*\)\.__init__"
)
"""Functions that may be called to create a value: modules, arrays, and numbers computed from other
values."""
_OF_ARRAYS = frozenset({
    "bool", "float", "half", "int", "long", "double", "t", "view", "reshape", "unsqueeze",
    "squeeze", "expand", "repeat", "contiguous", "clone", "to",
})  # fmt: skip
"""Methods that may be called on an array that was just created."""
_OF_MODULES = frozenset({
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children",
    "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward",
    "half", "ipu", "load_state_dict", "modules", "mtia", "parameters", "requires_grad_",
    "share_memory", "state_dict", "to", "to_empty", "train", "training", "type", "xpu", "zero_grad",
})  # fmt: skip
_OF_MODULES_BEGINS = ("_", "get_", "set_", "named_", "register_")
"""Names of attributes that `nn.Module` itself uses."""
_EFFECTS = (
    ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.Starred,
)  # fmt: skip
_HARMLESS = re.compile(
    r"(?:-O[0-3]|-lineinfo|-std=(?:c|gnu)\+\+\w\w|-arch=\w+|"
    r"-gencode|(?:-gencode=)?arch=compute_\w+,code=[\w,\[\]]+)?",
    re.ASCII,
)
"""Compiler options that do not change results. The compiler would split a text with spaces into
several options, so they contain none."""
_LIBRARIES = re.compile(
    r"(?:-l(?:cuda|cudart|cublas|cublasLt|cudnn|curand|cufft|cusolver|cusparse|nvrtc|m))?"
)
_INITIAL = re.compile(r"(?:torch\.)?nn\.Module\.__init__|self\.register_(?:buffer|parameter)")
"""Functions that `__init__` may call as a statement, in addition to those that create values."""
_ASKS = ("size", "dim", "numel", "is_contiguous", "stride", "element_size")
"""Methods that return properties of a tensor."""
_OPTIONS = {
    "extra_cflags": _HARMLESS, "extra_cuda_cflags": _HARMLESS, "extra_ldflags": _LIBRARIES,
    "extra_include_paths": re.compile(""),
}  # fmt: skip
_WORDS = frozenset({
    "name", "cpp_sources", "cuda_sources", "functions", "verbose", "with_cuda", "extra_cflags",
    "extra_cuda_cflags", "extra_ldflags", "extra_include_paths", "build_directory",
})  # fmt: skip


def require_plain(tree: ast.Module) -> None:
    """Raises `NotReadError` if an answer's file could behave differently from what is parsed."""
    meanings = dict[str, str]()
    for node in tree.body:
        for name, meaning in _bound(node):
            if (
                meanings.setdefault(name, meaning) != meaning
                or name in dir(builtins)
                or name.startswith("__")
                or _SOURCES.get(name, meaning) != meaning
                or (name == MODEL and not isinstance(node, ast.ClassDef))
            ):
                raise NotReadError(f"{name} is redefined", node.lineno)
        _require_statement(node)
    for model in tree.body:
        if isinstance(model, ast.ClassDef) and model.name == MODEL:
            for part in model.body:
                if isinstance(part, ast.FunctionDef):
                    _require_method(part, {*meanings}, _plain_names(tree))


def _plain_names(tree: ast.Module) -> set[str]:
    """Names of numbers and texts, which a function's arguments may hide, as in Python."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and not any(isinstance(n, ast.Call) for n in ast.walk(node))
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def stored_names(function: ast.FunctionDef) -> set[str]:
    """Names to which a function assigns a value."""
    names = (n for n in ast.walk(function) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def _bound(node: ast.stmt) -> Iterable[tuple[str, str]]:
    """The names that a statement defines: what is imported, or what is assigned."""
    match node:
        case ast.Import():
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                _require_known(alias.name, node)
                yield name, alias.name if alias.asname else name
        case ast.ImportFrom():
            for alias in node.names:
                if node.level or alias.name == "*":
                    raise NotReadError("only names of known modules are imported", node.lineno)
                _require_known(node.module or "", node)
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        case ast.FunctionDef() | ast.ClassDef():
            yield node.name, f"{node.lineno}:{node.col_offset}"
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield name, f"{node.lineno}:{node.col_offset}"


def _require_known(module: str, node: ast.stmt) -> None:
    if module.partition(".")[0] not in _MODULES:
        reason = f"the module {module} is not known here"
        if module.partition(".")[0] == "triton":
            reason = (
                "kernels in Triton are not read in this form (for a kernel without a class, use "
                "`tilewright init NAME --target triton`)"
            )
        raise NotReadError(reason, node.lineno)


def _require_statement(node: ast.stmt) -> None:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
            pass
        case ast.Assign(targets=[ast.Name()]):
            require_plain_value(node.value)
        case ast.Assign(targets=[target], value=ast.Constant()) if _is_switch(target):
            pass
        case ast.FunctionDef():
            _require_definition(node)
        case ast.ClassDef():
            _require_class(node)
        case ast.If(test=ast.Compare(), orelse=[]) if _is_start(node.test):
            pass
        case _:
            raise NotReadError(
                "at the top level, only imports, definitions and assignments to names are "
                "understood", node.lineno,
            )  # fmt: skip


def _is_start(test: ast.expr) -> bool:
    """Whether this tests if the file is run as a program, which it is not here."""
    return ast.unparse(test) == "__name__ == '__main__'"


def _is_switch(target: ast.expr) -> bool:
    """Whether this sets an option of PyTorch that does not affect the kernels of an extension."""
    return ast.unparse(target).startswith("torch.backends.")


def _require_class(node: ast.ClassDef) -> None:
    if node.decorator_list or node.keywords or not _is_module(node):
        raise NotReadError(f"{node.name} is not a plain subclass of nn.Module", node.lineno)
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            own = part.name.startswith("__") and part.name != "__init__"
            if own or part.name in _ASKS:
                raise NotReadError(f"{node.name} redefines {part.name}", part.lineno)
            _require_definition(part)
        elif not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)):
            raise NotReadError(
                f"in {node.name}, only __init__, forward and plain methods are understood",
                part.lineno,
            )


def _is_module(node: ast.ClassDef) -> bool:
    return [ast.unparse(base) for base in node.bases] in (["nn.Module"], ["torch.nn.Module"])


def _require_definition(function: ast.FunctionDef) -> None:
    """Evaluating the definition of a function must have no other effect."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    written = [*given.defaults, *(d for d in given.kw_defaults if d is not None)]
    written += [a.annotation for a in arguments if a.annotation is not None]
    written += [function.returns] if function.returns is not None else []
    for node in written:
        if any(isinstance(part, (ast.Call, *_EFFECTS)) for part in ast.walk(node)):
            raise NotReadError("a default or an annotation is computed", node.lineno)
    if function.decorator_list:
        raise NotReadError(f"{function.name} has a decorator", function.lineno)


def _require_method(function: ast.FunctionDef, bound: set[str], plain: set[str]) -> None:
    if function.name not in ("__init__", "forward"):
        raise NotReadError(f"{MODEL} has the additional method {function.name}", function.lineno)
    if not function.args.args or function.args.args[0].arg != "self":
        raise NotReadError(f"{function.name} does not begin with self", function.lineno)
    arguments = {a.arg for a in function.args.args} - plain
    hidden = sorted((arguments | stored_names(function)) & (bound | {*_SOURCES, "super"}))
    if hidden:
        raise NotReadError(f"{hidden[0]} means something else in {function.name}", function.lineno)
    for statement in function.body:
        if function.name == "__init__" and isinstance(statement, ast.Expr):
            require_plain_value(statement.value, _INITIAL)
    for node in (node for statement in function.body for node in ast.walk(statement)):
        if isinstance(node, (*_EFFECTS, ast.FunctionDef, ast.ClassDef, ast.Global, ast.Import)):
            raise NotReadError("an expression with side effects", getattr(node, "lineno", None))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr.startswith(_OF_MODULES_BEGINS) or node.attr in _OF_MODULES:
                raise NotReadError(f"{node.attr} has a meaning for nn.Module", node.lineno)
        elif isinstance(node, ast.Assert) and not _is_pure(node.test):
            raise NotReadError("an assertion with side effects", node.lineno)
        elif isinstance(node, ast.Assign) and function.name == "__init__":
            require_plain_value(node.value)


def _is_pure(node: ast.expr) -> bool:
    """Whether an expression has no effects: its only calls are queries of tensors."""
    for part in ast.walk(node):
        if isinstance(part, _EFFECTS):
            return False
        if isinstance(part, ast.Call) and not (
            isinstance(part.func, ast.Attribute) and part.func.attr in _ASKS
        ):
            return False
    return True


def require_plain_value(node: ast.expr, more: re.Pattern[str] | None = None) -> None:
    """The value of a name must be a constant, or one call that creates a module or an extension.

    `more` are further functions that may be called.
    """
    for part in ast.walk(node):
        if isinstance(part, _EFFECTS):
            raise NotReadError("a value that is computed with side effects", node.lineno)
        if isinstance(part, ast.Call):
            called = ast.unparse(part.func)
            if is_loader(part.func):
                _require_flags(part)
            elif (
                not _MAKER.fullmatch(called)
                and not (more and more.fullmatch(called))
                and not _is_of_new_array(part.func)
            ):
                raise NotReadError(f"a value of {called[:60]}, which is not known", node.lineno)


def _is_of_new_array(function: ast.expr) -> bool:
    """Whether this is a method of an array that the same expression creates, such as
    `torch.ones(4).bool`."""
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _OF_ARRAYS
        and isinstance(function.value, ast.Call)
        and ast.unparse(function.value.func).startswith("torch.")
    )


def is_loader(function: ast.expr) -> bool:
    """Whether this is PyTorch's `load_inline`."""
    return ast.unparse(function) in (
        LOADER, f"cpp_extension.{LOADER}", f"torch.utils.cpp_extension.{LOADER}",
    )  # fmt: skip


def _require_flags(call: ast.Call) -> None:
    """The compiler options of the answer are not used here, so they must be options that do not
    change results."""
    for word in call.keywords:
        if word.arg not in _WORDS:
            raise NotReadError(f"{word.arg or '**'} of {LOADER} is not understood", call.lineno)
        allowed = _OPTIONS.get(word.arg)
        if allowed is not None:
            listed = word.value.elts if isinstance(word.value, (ast.List, ast.Tuple)) else [None]
            for flag in listed:
                text = flag.value if isinstance(flag, ast.Constant) else None
                if not isinstance(text, str) or not allowed.fullmatch(text):
                    what = "an option" if text is None else repr(text)
                    raise NotReadError(f"{what} of the compiler may change results", call.lineno)
    if len(call.args) > 4:
        raise NotReadError(f"this number of arguments of {LOADER} is not supported", call.lineno)
