"""The layout of the repository: who may import whom, how long things are, how they read.

Every rule walks the files on disk, so a new file is covered on the day it is written.  A failure names the
file, the line and the rule.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("docvision", "data_pipeline", "imagegen", "apps")

# Inside docvision imports go down this list, or stay on a step without forming a cycle.  A file that is not named
# belongs to the second step, "documents": text layers, layout, tables, exports.
LAYERS: tuple[set[str], ...] = (
    {"page", "tokens", "config", "schema"},
    set(),
    {"encoder", "decoder", "checkpoint"},
    {"model", "alignment"},
    {"methods"},
    {"accept", "decode", "table_decode", "batches", "layout_maps"},
    {"objectives", "evaluate", "reader", "steps"},
    {"train"},
    {"parse", "hf_vlm"},
)
DOCUMENTS = 1
# The two lowest steps and these never load torch, so the text-layer route and the data workers start at once.
NO_TORCH = {"layout_maps", "steps", "parse"}

# What the other packages may import from docvision; scale.py alone runs the parser as well.
FOR_DATA_PIPELINE = {"page", "tokens", "tableseq", "images", "export", "pdf", "maps"}
FOR_IMAGEGEN = {"config", "encoder", "decoder", "decode", "accept", "train", "checkpoint", "methods.base"}

# An optional stack has one home in a package, so that everything else works without it.
ONE_HOME = {
    "gradio": {"apps/demo.py"},
    "fastapi": {"apps/serve/app.py"},
    "uvicorn": {"apps/serve/app.py"},
    "ray": {"data_pipeline/scale.py"},
    "transformers": {
        "docvision/hf_vlm/cache.py",
        "docvision/hf_vlm/loading.py",
        "docvision/hf_vlm/request.py",
        "data_pipeline/vlm.py",
    },
    "torch_fidelity": {"imagegen/metrics.py"},
}
FORBIDDEN = {
    "pickle",
    "cPickle",
    "dill",
    "marshal",
    "shelve",
    "joblib",
    "requests",
    "httpx",
    "urllib.request",
    "socket",
}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "manager", "tools"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOKED_AT = (ast.Module, ast.ClassDef, *FUNCTIONS, ast.Import, ast.ImportFrom, ast.Call)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
# "path::function" -> lines, 120 at most: for a training step that is best read top to bottom. May only shrink.
LONGER_FUNCTIONS: dict[str, int] = {}
MAX_FOLDER_DEPTH = 2


@cache
def tracked(pattern: str) -> tuple[Path, ...]:
    """Files that git tracks or would track, else (outside a checkout) all files, as paths below the root."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", f":(glob){pattern}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = listing.stdout.splitlines() if listing.returncode == 0 else []
    paths = [Path(name) for name in names] or [path.relative_to(ROOT) for path in ROOT.glob(pattern)]
    return tuple(sorted(path for path in set(paths) if (ROOT / path).is_file()))


def package_files() -> list[Path]:
    return [path for package in PACKAGES for path in tracked(f"{package}/**/*.py")]


def python_files() -> list[Path]:
    return [*package_files(), *tracked("tests/**/*.py")]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"), filename=str(path))


def module_name(path: Path) -> str:
    """``docvision/methods/ptp.py`` -> ``docvision.methods.ptp``; a package's ``__init__`` is the package."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All of a file's syntax that the rules look at, in the order of ``ast.walk``."""
    return tuple(node for node in ast.walk(tree(path)) if isinstance(node, LOOKED_AT))


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Absolute names of all modules that ``path`` imports, at the top or inside functions, with the line."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    package = path.parent.parts
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            submodules = [f"{module}.{alias.name}" for alias in node.names if exists(f"{module}.{alias.name}")]
            if len(submodules) < len(node.names):
                yield module, node.lineno
            yield from ((name, node.lineno) for name in submodules)


@cache
def exists(module: str) -> bool:
    """Whether ``module`` is a file or a package of this repository."""
    path = ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def inside(module: str, package: str) -> str | None:
    """The part of ``module`` below ``package``, the empty string for the package itself, else None."""
    if module == package:
        return ""
    return module.removeprefix(f"{package}.") if module.startswith(f"{package}.") else None


def layer(name: str) -> int:
    """Step of a docvision module in LAYERS."""
    return next((step for step, names in enumerate(LAYERS) if name.split(".")[0] in names), DOCUMENTS)


def check(problems: list[str]) -> None:
    assert not problems, "\n" + "\n".join(problems)


def test_packages_are_found():
    """Guards all the other tests: a wrong glob would let every rule pass on no files."""
    assert len(package_files()) >= 20
    for package in PACKAGES:
        assert (ROOT / package / "__init__.py").is_file()


def test_packages_import_only_what_they_may():
    problems = []
    for path in package_files():
        package = path.parts[0]
        for module, line in imports(path):
            target = module.split(".")[0]
            if package == "apps" or target not in PACKAGES or target == package:
                continue
            rest = inside(module, "docvision")
            allowed = FOR_DATA_PIPELINE if package == "data_pipeline" else FOR_IMAGEGEN
            if path == Path("data_pipeline/scale.py"):
                allowed = allowed | {"parse"}
            if package == "docvision" or target != "docvision" or rest not in allowed:
                problems.append(f"{path}:{line}: {package} must not import {module}")
    check(problems)


def test_docvision_imports_go_downhill():
    problems = []
    for path in tracked("docvision/**/*.py"):
        own = inside(module_name(path), "docvision")
        for module, line in imports(path):
            other = inside(module, "docvision")
            if own and other and layer(other) > layer(own):
                problems.append(f"{path}:{line}: {own} must not import {other}, which stands above it")
    check(problems)


def test_no_import_cycles():
    graph = {
        module_name(path): {name for name, _ in imports(path) if exists(name)} - {module_name(path)}
        for path in package_files()
        if path.name != "__init__.py"
    }
    while leaves := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    assert not graph, f"import cycle among {sorted(graph)}"


def test_methods_are_independent():
    """A method is one file: it may look down, at methods.base and at nothing beside or above it."""
    problems = []
    files = [path for path in tracked("docvision/methods/*.py") if path.name != "__init__.py"]
    assert bool(files) == (ROOT / "docvision" / "methods").is_dir()
    for path in files:
        for module, line in imports(path):
            other = inside(module, "docvision")
            if other is None or other == "methods.base":
                continue
            if other.split(".")[0] == "methods" or layer(other) >= layer("methods"):
                problems.append(f"{path}:{line}: a method must not import {module}")
    check(problems)


def test_torch_free_modules_import_without_torch():
    modules = [inside(module_name(path), "docvision") for path in tracked("docvision/*.py")]
    names = [f"docvision.{name}" for name in modules if name and (layer(name) <= DOCUMENTS or name in NO_TORCH)]
    assert len(names) >= 10
    code = f"""
import sys, importlib
sys.modules["torch"] = None
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{{name}}: {{error}}")
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert not run.stdout, f"these modules need torch:\n{run.stdout}"


def test_optional_stacks_have_one_home():
    problems = [
        f"{path}:{line}: {module} belongs in {' or '.join(ONE_HOME[module.split('.')[0]])} alone"
        for path in package_files()
        for module, line in imports(path)
        if str(path) not in ONE_HOME.get(module.split(".")[0], {str(path)})
    ]
    check(problems)


def test_nothing_is_unpickled_and_nothing_calls_out():
    problems = []
    for path in package_files():
        problems += [f"{path}:{line}: {module} is not for us" for module, line in imports(path) if module in FORBIDDEN]
        for node in nodes(path):
            call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if call in {"torch.load", "eval", "exec", "np.load", "numpy.load"}:
                problems.append(f"{path}:{node.lineno}: {call}() can run code from a file; use safetensors or JSON")
            if any(word.arg == "trust_remote_code" for word in getattr(node, "keywords", [])):
                problems.append(f"{path}:{node.lineno}: remote code is never trusted, so never name the option")
    check(problems)


def test_files_and_functions_are_short():
    problems = []
    for path in python_files():
        lines = len((ROOT / path).read_text("utf-8").splitlines())
        if lines > MAX_FILE_LINES:
            problems.append(f"{path}: {lines} lines, more than {MAX_FILE_LINES}: split it")
        for node in nodes(path):
            if not isinstance(node, FUNCTIONS):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            limit = LONGER_FUNCTIONS.get(f"{path}::{node.name}", MAX_FUNCTION_LINES)
            if length > limit:
                problems.append(f"{path}:{node.lineno}: {node.name} has {length} lines, more than {limit}")
    check(problems)


def test_no_stubs():
    """A function without a body is a promise nobody kept; a base class says so with @abstractmethod or Protocol."""
    problems = []
    for path in package_files():
        for owner in nodes(path):
            if any("Protocol" in ast.unparse(base) for base in getattr(owner, "bases", [])):
                continue
            for node in getattr(owner, "body", []) if isinstance(owner, ast.Module | ast.ClassDef) else []:
                if not isinstance(node, ast.FunctionDef) or {"abstractmethod", "overload"} & decorators(node):
                    continue
                body = [ast.unparse(line) for line in node.body if not is_docstring(line)]
                if body and (body[-1] in {"pass", "..."} or body[-1].startswith("raise NotImplementedError")):
                    problems.append(f"{path}:{node.lineno}: {node.name} is a stub")
    check(problems)


def decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_exemptions_are_still_needed():
    for key, limit in LONGER_FUNCTIONS.items():
        path, name = key.split("::")
        lengths = [
            node.end_lineno - node.lineno + 1
            for node in nodes(Path(path))
            if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        assert lengths and MAX_FUNCTION_LINES < max(lengths) <= limit, f"remove or correct the exemption of {key}"


def test_names_and_depth():
    problems = []
    for path in python_files():
        vague = VAGUE_NAMES & {part.removesuffix(".py") for part in path.parts}
        problems += [f"{path}: {name} says nothing; name it after what it holds" for name in vague]
    for package in (*PACKAGES, "tests"):
        # A model that is a pair (tokenizer and generator) has one folder more below weights/.
        deep = [
            path
            for path in tracked(f"{package}/**")
            if len(path.parts) - 2 - (path.parts[1] == "weights") > MAX_FOLDER_DEPTH
        ]
        problems += [f"{path}: more than {MAX_FOLDER_DEPTH} folders below {package}" for path in deep]
    check(problems)


def test_modules_have_a_title():
    """A module docstring opens with one sentence of at most one line that says what the file is."""
    problems = []
    for path in package_files():
        docstring = ast.get_docstring(tree(path)) or ""
        first = docstring.splitlines()[0] if docstring else ""
        if not first.endswith((".", ":", "?")):
            problems.append(f"{path}: the module docstring must open with a sentence on a line of its own")
    check(problems)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and docstrings with their lines; string literals may hold any script."""
    source = (ROOT / path).read_text("utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in nodes(path):
        if isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node, clean=False) or ""


def test_comments_are_plain():
    problems = []
    for path in python_files():
        for line, text in prose(path):
            if not text.isascii():
                odd = "".join(sorted({char for char in text if not char.isascii()}))
                problems.append(f"{path}:{line}: {odd!r} in a comment or docstring: plain ASCII, please")
            if re.search(r"[-=*#~_]{5,}", text):
                problems.append(f"{path}:{line}: no banners of signs")
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text):
                problems.append(f"{path}:{line}: an open end belongs in the issue tracker")
    check(problems)


def test_version_stands_in_the_changelog():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest and newest[1] == version


@pytest.mark.parametrize("package", PACKAGES)
def test_every_import_is_declared(package):
    """What a package imports is in the standard library, in this repository or in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    declared = {re.split(r"[\[>=<; ]", line)[0].lower().replace("-", "_") for line in listed}
    declared |= {"pil", "yaml", "cv2"}  # import names of pillow, pyyaml and opencv-python-headless
    known = set(sys.stdlib_module_names) | set(PACKAGES) | declared
    problems = [
        f"{path}:{line}: {module} is not declared in pyproject.toml"
        for path in tracked(f"{package}/**/*.py")
        for module, line in imports(path)
        if not {module.split(".")[0], module.split(".")[0].lower()} & known
    ]
    check(problems)
