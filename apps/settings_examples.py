"""Examples at the end of each command's help; a test runs them all."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, tuple[str, ...]] = {
    "parse": (
        "docvision parse report.pdf",
        "docvision parse report.pdf letter.pdf -o out/ -f md,json",
        "docvision parse report.pdf --pages 1,r1 --tables html -o report.md",
    ),
    "retry": ("docvision retry out/",),
    "show": ("docvision show out/report.json page 2", "docvision show out/report.json -o report.html"),
    "diff": ("docvision diff out/report.json out/letter.json",),
    "demo": ("docvision demo --max-pages 20",),
    "serve": ("docvision serve --workers 2 --max-pages 100", "docvision serve --port 8080 --layout rules"),
    "doctor": ("docvision doctor", "docvision doctor --json"),
    "models list": ("docvision models list",),
    "models verify": ("docvision models verify", "docvision models verify docvision-tiny"),
    "models seal": ("docvision models seal my-model",),
    "models language": ("docvision models language my-model letter.txt",),
    "models fetch": ("docvision models fetch user/model",),
    "config show": ("docvision config show", "docvision config show parse --text layer"),
    "completion": ("docvision completion bash > ~/.local/share/bash-completion/completions/docvision",),
    "schema": ("docvision schema > document.schema.json",),
    "make": ("docvision make lines --preview 3 -o preview", "docvision make lines --count 20 -o data"),
    "train": ("docvision train lines optim.steps=100",),
}
"""Words of a command -> lines as people would write them, in a folder with report.pdf and letter.pdf."""


def with_examples(command: Any, path: tuple[str, ...] = ()) -> Any:
    """``command`` and all below it, with their examples in the help."""
    lines = EXAMPLES.get(" ".join(path))
    if lines:
        # Click keeps the lines of a paragraph that begins with a backspace as they are.
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
    for name, below in getattr(command, "commands", {}).items():
        with_examples(below, (*path, name))
    return command
