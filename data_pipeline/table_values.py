"""What stands in the cells of scientific tables: measured values, tests, counts, codes, headings and row labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from data_pipeline import chance, fields
from data_pipeline.table_plans import Rng, Words

COLUMN_KINDS = {
    "integer": 0.17, "decimal": 0.24, "spread": 0.11, "bracket": 0.10, "share": 0.08, "interval": 0.06, "test": 0.06,
    "signed": 0.05, "thousands": 0.04, "percent": 0.05, "range": 0.03, "power": 0.02, "mark": 0.06, "name": 0.10,
    "code": 0.05, "text": 0.07, "reference": 0.03, "measure": 0.03, "date": 0.02,
}  # fmt: skip
"""Kinds of columns, with shares."""

NUMERIC = frozenset(
    ("integer", "decimal", "spread", "bracket", "share", "interval", "test", "signed", "thousands", "percent", "range")
)

_UNITS = (
    "mg", "kg", "g/L", "mg/dL", "mmol/L", "ng/ml", "\u03bcg/g", "%", "n", "years", "days", "h", "min", "s", "\u00b0C",
    "cm", "mm", "\u03bcm", "nm", "kPa", "MPa", "Hz", "kHz", "ms", "kDa", "bp", "U/L", "IU", "cm/s", "kcal", "W/m", "dB",
    "mV", "t/ha", "ppm", "$", "\u20ac", "ha", "km", "m/s",
)  # fmt: skip
_HEADINGS = (
    "Mean", "SD", "Median", "n", "N", "No.", "n (%)", "No. (%)", "Mean \u00b1 SD", "Mean (SD)", "95% CI", "OR (95% CI)",
    "HR (95% CI)", "P", "p", "P value", "p-value", "t", "F", "df", "\u03c72", "\u03b2", "SE", "r", "R2", "Total", "Min",
    "Max", "Range", "IQR", "Control", "Treatment", "Placebo", "Baseline", "Follow-up", "Before", "After", "Group",
    "Group 1", "Group 2", "Group A", "Group B", "Variable", "Variables", "Characteristic", "Parameter", "Model 1",
    "Model 2", "Study", "Year", "Country", "Gene", "Sample", "Method", "Accuracy", "Precision", "Recall", "F1",
    "Sensitivity", "Specificity", "AUC", "Males", "Females", "Men", "Women", "All", "Cases", "Controls", "Age", "Sex",
    "Type", "Reference", "Source", "Site", "Species", "Locus", "Forward primer", "Dose", "Time", "Day 1", "Day 7",
    "Week 4", "Week 12", "Outcome", "Score", "Unadjusted", "Adjusted", "Effect", "Estimate", "Number of patients",
    "Strain", "Description", "Category", "Item", "Value", "Yes", "No", "Low", "Medium", "High", "Test", "Training",
)  # fmt: skip
_LABELS = (
    "Age (years)", "Age, mean (SD)", "Sex", "Male", "Female", "Body mass index", "BMI (kg/m2)", "Weight (kg)",
    "Height (cm)", "Smoking", "Current smoker", "Never", "Former", "Education", "Primary", "Secondary", "Hypertension",
    "Diabetes mellitus", "Systolic blood pressure", "Diastolic blood pressure", "Heart rate", "Total cholesterol",
    "HDL", "LDL", "Triglycerides", "Glucose", "Creatinine", "Albumin", "Hemoglobin", "Platelets", "CRP", "IL-6",
    "TNF-\u03b1", "Control", "Treatment", "Placebo", "Baseline", "Total", "Yes", "No", "Unknown", "Other", "Missing",
    "Urban", "Rural", "Stage I", "Stage II", "Stage III", "Grade 1", "Grade 2", "Tumor size", "Lymph node", "Wild type",
    "Mutant", "pH", "Temperature", "Nitrogen", "Phosphorus", "Potassium", "Organic carbon", "Dry matter", "Protein",
    "Fat", "Fiber", "Ash", "Energy", "Income", "Employment", "Married", "Single", "White", "Black", "Asian", "Hispanic",
    "Intercept", "Constant", "Residual", "Observations", "R-squared", "Adjusted R2", "Pain", "Quality of life",
    "Depression", "Anxiety", "Physical activity", "Alcohol", "Surgery", "Chemotherapy", "Radiotherapy", "Mortality",
    "Time (min)", "Volume (mL)", "Length (bp)", "CPU time", "Baseline model", "Proposed method", "Random forest", "SVM",
    "Linear regression", "E. coli", "S. aureus", "Mean", "SD", "Minimum", "Maximum", "< 18", "18\u201364", "\u2265 65",
    "0\u20135", "6\u201310", "> 10", "Left", "Right", "Bilateral", "Positive", "Negative", "Mild", "Moderate", "Severe",
)  # fmt: skip
_GENES = "ABCDEFGHIKLMNPRSTVX"
_MARKS = (
    "+", "\u2013", "-", "+", "\u2212", "x", "\u00d7", "Yes", "No", "yes", "no", "NA", "N/A", "n.a.", "ND", "ns", "NS",
    "\u2713", "++", "+++", "+/\u2212", "\u2217", "0", "1", "A", "B", "\u2014", "...",
)  # fmt: skip
NOTES = (
    "a",
    "b",
    "c",
    "d",
    "e",
    "*",
    "**",
    "***",
    "\u2020",
    "\u2021",
    "\u00a7",
    "1",
    "2",
    "3",
    "#",
    "a,b",
    "\u00b6",
    "i",
    "ii",
)
"""Marks of notes, printed raised."""


@dataclass(frozen=True, slots=True)
class Column:
    """What the values of one column have in common."""

    kind: str
    decimals: int
    size: float
    """Digits before the decimal point, about."""
    style: int
    """Picks one of several ways to write the same thing, 0 to 5."""


def draw_column(rng: Rng, kind: str) -> Column:
    """A column of this kind."""
    decimals = int(chance.weighted(rng, {0: 0.1, 1: 0.3, 2: 0.35, 3: 0.2, 4: 0.05}))
    return Column(kind, decimals, float(rng.uniform(0.2, 3.4)), int(rng.integers(6)))


def number(rng: Rng, column: Column, scale: float = 1.0) -> str:
    """A positive number with the column's decimals."""
    return f"{scale * 10 ** (column.size * rng.uniform(0.55, 1.0)) * rng.uniform(0.3, 1.0):.{column.decimals}f}"


def value(rng: Rng, words: Words, column: Column) -> tuple[str, str]:
    """Text of a body cell, and what is printed raised behind it."""
    if column.kind in _MAKERS:
        return _MAKERS[column.kind](rng, column), ""
    if column.kind == "power":
        return f"{rng.uniform(1, 10):.{column.decimals}f} \u00d7 10", f"\u2212{rng.integers(2, 12)}"
    if column.kind == "text":
        return words(int(rng.integers(15, 110))), ""
    return (words(int(rng.integers(4, 24))) if rng.random() < 0.5 else chance.pick(rng, _LABELS)), ""


def _decimal(rng: Rng, column: Column) -> str:
    return number(rng, column)


def _integer(rng: Rng, column: Column) -> str:
    return str(int(10 ** (column.size * rng.uniform(0.4, 1.0))))


def _spread(rng: Rng, column: Column) -> str:
    sign = " \u00b1 " if column.style else "\u00b1"
    return f"{number(rng, column)}{sign}{number(rng, column, 0.2)}"


def _bracket(rng: Rng, column: Column) -> str:
    if column.style < 4:
        return f"{number(rng, column)} ({number(rng, column, 0.25)})"
    low = number(rng, column)
    return f"{low} ({number(rng, column, 0.5)}{('-', chr(0x2013))[column.style - 4]}{number(rng, column, 1.6)})"


def _share(rng: Rng, column: Column) -> str:
    percent = f"{rng.uniform(0, 100):.{min(1, column.decimals)}f}"
    return f"{_integer(rng, column)} ({percent}{'%' if column.style % 2 else ''})"


def _interval(rng: Rng, column: Column) -> str:
    decimals = max(1, column.decimals)
    middle = rng.uniform(0.2, 4.0)
    low, high = f"{middle * rng.uniform(0.4, 0.95):.{decimals}f}", f"{middle * rng.uniform(1.05, 2.5):.{decimals}f}"
    center = f"{middle:.{decimals}f}"
    forms = (
        f"{center} ({low}, {high})",
        f"{center} ({low}\u2013{high})",
        f"{center} [{low}; {high}]",
        f"{low}-{high}",
        f"({low}, {high})",
        f"{center} ({low} to {high})",
    )
    return forms[column.style]


def _test(rng: Rng, column: Column) -> str:
    draw, decimals = rng.random(), max(2, column.decimals)
    if draw < 0.3:
        return ("<0.001", "< 0.001", "<.001", "< 0.01", "<0.0001", "<0.05")[column.style]
    if draw < 0.36:
        return ("NS", "ns", "n.s.", "\u2013", "-", "")[column.style]
    found = f"{rng.random() ** 2:.{decimals}f}"
    return found[1:] if column.style == 2 else found


def _signed(rng: Rng, column: Column) -> str:
    minus = "\u2212" if column.style < 4 else "-"
    plus = "+" if column.style == 0 else ""
    return (minus if rng.random() < 0.45 else plus) + number(rng, column)


def _thousands(rng: Rng, column: Column) -> str:
    mark = (",", ",", " ", ",", "\u2009", ".")[column.style]
    return f"{int(10 ** rng.uniform(2.5, 7)):,}".replace(",", " " if mark == "\u2009" else mark)


def _percent(rng: Rng, column: Column) -> str:
    return f"{rng.uniform(0, 100):.{min(2, column.decimals)}f}" + ("%", "%", " %", "", "", "%")[column.style]


def _range(rng: Rng, column: Column) -> str:
    mark = ("-", " - ", "\u2013", "\u2013", " to ", "/")[column.style]
    return f"{number(rng, column, 0.5)}{mark}{number(rng, column, 2)}"


def _mark(rng: Rng, column: Column) -> str:
    return _MARKS[(column.style * 5 + int(rng.integers(3))) % len(_MARKS)]


def _code(rng: Rng, column: Column) -> str:
    letters = "".join(_GENES[int(i)] for i in rng.integers(0, len(_GENES), int(rng.integers(2, 5))))
    if column.style == 0:
        return "".join("ACGT"[int(i)] for i in rng.integers(0, 4, int(rng.integers(12, 26))))
    number = rng.integers(10000, 99999)
    forms = (f"{letters}{number % 20}", f"{letters}-{number % 99}", letters, f"{letters}_{number}", f"rs{number * 7}")
    return forms[column.style - 1]


def _reference(rng: Rng, column: Column) -> str:
    mark, year = f"[{rng.integers(1, 90)}]", rng.integers(1985, 2025)
    last = fields.name(rng).split()[-1].rstrip(".,")
    first = f"{last} et al."
    return (mark, f"{first} {mark}", f"{first}, {year}", f"{last} ({year})", str(year), f"{first} ({year})")[
        column.style
    ]


def _measure(rng: Rng, column: Column) -> str:
    return f"{number(rng, column)} {_UNITS[column.style * 5]}"


def _date(rng: Rng, column: Column) -> str:
    day, month, year = rng.integers(1, 29), rng.integers(1, 13), rng.integers(1950, 2026)
    name = ("Jan", "Mar", "Apr", "May", "Sep", "Dec")[int(rng.integers(6))]
    forms = (f"{day:02d}.{month:02d}.{year}", f"{year}-{month:02d}-{day:02d}", f"{day} {name} {year}", f"{name} {year}",
             f"{year}\u2013{year % 100 + 1:02d}", f"{month}/{day}/{year}")  # fmt: skip
    return forms[column.style]


_MAKERS: dict[str, Callable[[Rng, Column], str]] = {
    "integer": _integer, "decimal": _decimal, "spread": _spread, "bracket": _bracket, "share": _share,
    "interval": _interval, "test": _test, "signed": _signed, "thousands": _thousands, "percent": _percent,
    "range": _range, "mark": _mark, "code": _code, "reference": _reference, "measure": _measure, "date": _date,
}  # fmt: skip


def heading(rng: Rng, words: Words, length: int) -> str:
    """A column's heading, sometimes with a unit."""
    draw = rng.random()
    if draw < 0.55:
        found = chance.pick(rng, _HEADINGS)
    else:
        found = words(length)
        found = found[:1].upper() + found[1:] if rng.random() < 0.85 else found
    if rng.random() < 0.16:
        unit = chance.pick(rng, _UNITS) if rng.random() < 0.7 else f"n = {rng.integers(5, 900)}"
        found += f" ({unit})" if rng.random() < 0.8 else f", {unit}"
    return found


def label(rng: Rng, words: Words, length: int) -> str:
    """A row's label."""
    if rng.random() < 0.5:
        return chance.pick(rng, _LABELS)
    found = words(length)
    return found[:1].upper() + found[1:] if rng.random() < 0.85 else found
