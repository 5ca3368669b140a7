"""Program listings and formulas, made up: what no running text holds."""

from __future__ import annotations

import numpy as np

from data_pipeline import text

Rng = np.random.Generator


def code_lines(rng: Rng, characters: frozenset[str]) -> str:
    """Something that looks like a listing: indented lines of names, calls and operators."""
    names = [
        "value",
        "index",
        "count",
        "result",
        "x",
        "data",
        "n",
        "self.size",
        "buffer",
        "item",
        "key",
        "total",
        "path",
    ]
    lines, depth = [], 0

    def name() -> str:
        return names[int(rng.integers(len(names)))]

    for _ in range(int(rng.integers(3, 18))):
        draw = rng.random()
        if draw < 0.15 and depth < 3:
            words = [
                f"if {name()} > {rng.integers(100)}:",
                f"for {name()} in {name()}:",
                f"def {name()}_{name()[:3]}({name()}, {name()}):",
                f"while {name()} {{",
            ]
            lines.append("    " * depth + words[int(rng.integers(4))])
            depth += 1
            continue
        if draw < 0.3 and depth:
            depth -= 1
        words = [
            f"{name()} = {name()} + {rng.integers(1000)}", f"{name()} = {name()}[{name()}]", f"return {name()}",
            f'print({name()}, "{name()}")', f"# {name()} {name()} {name()}", f"{name()}({name()}, n=1)",
            f"$ make {name()} --{name()[:4]}", f'<{name()[:4]} id="{rng.integers(99)}">',
        ]  # fmt: skip
        lines.append("    " * depth + words[int(rng.integers(len(words)))])
    return "\n".join(text.fit(line.strip(), characters).rjust(len(line)) for line in lines)


def formula(rng: Rng) -> str:
    """Typst mathematics of one display line."""
    a, b, c, k = rng.choice(list("abcdfghknpqrstuvxyz"), 4, replace=False)
    g, h = rng.choice(
        ["alpha", "beta", "gamma", "lambda", "mu", "sigma", "theta", "omega", "phi", "epsilon"], 2, replace=False
    )
    n = int(rng.integers(2, 10))
    left = [f"{a}({b})", f"{a}_{k}", f"hat({a})", f"{g}", f"partial {a} / (partial {b})", f"{a}^{n}", f"cal(L)({g})"]
    right = [
        f"sum_({k}=1)^{c} {a}_{k} {b}^{k}", f"integral_0^infinity {a}({b}) dif {b}", f"sqrt({a}^2 + {b}^2)",
        f"({a} + {b})/({c} - {n})", f"{g} {a} + {h} {b} + {c}", f"1/{n} product_({k} in {c.upper()}) {a}_{k}",
        f"exp(-{a}^2/(2 {g}^2))", f"mat({a}, {b}; {c}, {n})",
        f"log {a} - {h} norm({b})^2", f"max_({b}) {a}({b})", f"{n} {a} {b}",
    ]  # fmt: skip
    parts = [right[int(i)] for i in rng.choice(len(right), int(rng.integers(1, 4)), replace=False)]
    relation = ("=", "=", "<=", "approx", ">=")[int(rng.integers(5))]
    return f"{left[int(rng.integers(len(left)))]} {relation} {' + '.join(parts)}"
