"""Faces to print with: which font files are here, what they look like, and which characters they own.

Faces come from fontconfig (``fc-list`` knows family, weight, slant and coverage without opening a file), or from the
cmap tables of the font files where fontconfig is missing, or, with no font installed at all, from the one face that
PIL carries.  A face that cannot print ASCII letters and digits is left out, and so are symbol, mathematics and
decorative families.  A character outside a face's coverage must never enter a truth, so every caller filters text
with :attr:`Face.characters`.

The list depends on the machine.  :func:`digest` names it, so that a data set can say which faces it was made with.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from fontTools.ttLib import TTCollection, TTFont, TTLibError
from PIL import Image, ImageDraw, ImageFont

from data_pipeline import kept
from docvision.tokens import CHARACTERS

GROUPS = ("serif", "sans", "mono", "typewriter", "ocr", "dotmatrix", "display", "script", "blackletter")

FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts", "/Library/Fonts")

_LAST = 0x2FFF
_PRINTABLE = frozenset(CHARACTERS)
_NEEDED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.,:;-()")

# Families whose letters are no letters, have no lower case, or are drawn too fancifully to be read as text.
_SKIP = re.compile(
    r"symbol|emoji|dingbat|icon|awesome|braille|barcode|music|ornament|initial|inline|outline|sketch|stencil|shadow"
    r"|webdings|wingdings|standardsym|bullets|\bmath\b|\bcaps\b|small ?caps|capitals|\bsc\b|smcp|dseg"
    r"|mathjax|stixsize|stixvar|stixint|nonuni"
    r"|keycaps|signwriting|cuneiform|hieroglyph|isabella|bebas|ubuntu.?title|homestead|train|cmex"
    r"|cmsy|cmmi|msam|msbm|esint|rsfs"
    r"|wasy|stmary|galapogos|swift|lastresort|fallback|upside|rotated|openmoji|segment|chess|cardpip"
    r"|marlett|humor|staypuft|tattoo|akkadian|aegean|aegyptus|anatolian|maya|symbola|unidings|musica"
    r"|analecta|textfonts"
    r"|karla tamil|kufi|nastaliq|fontin|solidemirage|radisnoir|unifont csur|unifont upper|khmer"
    r"|bajaderka|d050000|keyboard"
    r"|penguin attack|junkyard|abogado|because we|klaudia|it wasn|wargames|radis|kimchi|inverted|adf style|titling|quotation|monoisome",
    re.IGNORECASE,
)
_GROUP_PATTERNS = (
    ("blackletter", r"fraktur|gotico|hamlet tertia|jessen|blackletter|textur|schwabach|wallau|gamaliel|blankenburg"),
    ("serif", r"junicode"),
    (
        "script",
        r"script|z003|domestic manners|hand\b|handwriting|kristi|ecolier|breip|femke|rufscript|delphine"
        r"|steve|comic|chancery|chorus|lobster|klaver|cursiv",
    ),
    (
        "dotmatrix",
        r"\bpx\b|dot ?gothic|vt323|3270|dot ?matrix|spleen|terminus|proggy|atari|amiga|perfect ?dos"
        r"|fixedsys|glass ?tty|unifont",
    ),
    ("ocr", r"^ocr"),
    (
        "typewriter",
        r"typewriter(?! text variable)|courier|tlwg ?typo|cmtt|lmtt|lm mono|cursor|nimbus mono|compagnon"
        r"|prestige|elite|latin modern mono(?! prop)|type ?script|freemono",
    ),
    (
        "mono",
        r"mono|(?<!barco)code|hack|inconsolata|hermit|agave|consol|mono(fur|noki|id)|anonymous|terminal"
        r"|fantasque",
    ),
    (
        "display",
        r"display|condensed|narrow|dosis|comfortaa|quicksand|jura|yanone|league|play\b|bold ?cond|dustin"
        r"|eurofurence|levien|lcdd|averia",
    ),
    (
        "serif",
        r"serif|roman|times|garamond|libertin|baskerv|bodoni|didot|artemisia|century|schola|pagella"
        r"|termes|bonum|cmu|lmroman|lm roman"
        r"|gentium|charis|doulos|stix|vollkorn|prociono|linden|caladea|cambria|georgia|slab|oldstyle"
        r"|old ?standard|goudy|caslon"
        r"|cardo|arapey|fanwood|elstob|essays|accanthis|berenis|romande|tribun|oldania|mekanus|palat"
        r"|bookman|c059|p052|tinos|yrsa|rasa|galatia"
        r"|freeserif|quattrocento$|campania|solomos|baskerville|porson|neohellenic|universalis",
    ),
)


@dataclass(frozen=True, slots=True)
class Face:
    """One face of one font file."""

    path: str
    """Font file; empty for the face that PIL carries."""
    index: int
    family: str
    style: str
    group: str
    weight: int
    """On the CSS scale: 400 is regular, 700 is bold."""
    italic: bool
    fixed: bool
    characters: frozenset[str]

    @property
    def name(self) -> str:
        return f"{self.family} {self.style}".strip()


@lru_cache(maxsize=4)
def find_faces(limit: int = 0) -> tuple[Face, ...]:
    """The usable Latin text faces of this machine, in a fixed order; at least one.

    Args:
        limit: look at no more than this many, spread over the list; 0 for all. Checking a thousand faces takes seconds.
    """
    faces: dict[tuple[str, str], Face] = {}
    for face in _from_fontconfig() if shutil.which("fc-list") else _from_folders():
        if face.characters >= _NEEDED:
            # The same face in two formats or folders counts once.
            faces.setdefault((face.family, face.style), face)
    candidates = [faces[key] for key in sorted(faces)]
    if limit and limit < len(candidates):
        candidates = [candidates[number * len(candidates) // limit] for number in range(limit)]
    return tuple(_readable(candidates)) or (_bundled_face(),)


def _readable(candidates: list[Face]) -> list[Face]:
    """The faces that pass :func:`_draws_both_cases`; the answers are kept on disk, for they take seconds."""
    files = {Path(face.path) for face in candidates if face.path}
    key = kept.key_of([*sorted(files), Path(__file__)], "\n".join(f"{face.path}|{face.index}" for face in candidates))
    data = kept.load(f"faces{len(candidates)}", key)
    if data is None:
        data = bytes(_draws_both_cases(face) for face in candidates)
        kept.store(f"faces{len(candidates)}", key, data)
    return [face for face, usable in zip(candidates, data, strict=True) if usable]


def by_group(faces: tuple[Face, ...]) -> dict[str, tuple[Face, ...]]:
    """The faces of each group that has any."""
    grouped = {group: tuple(face for face in faces if face.group == group) for group in GROUPS}
    return {group: members for group, members in grouped.items() if members}


def digest(faces: tuple[Face, ...]) -> str:
    """A short name for a list of faces, equal on machines that have the same ones."""
    joined = "\n".join(f"{face.name}|{Path(face.path).name}|{face.index}|{len(face.characters)}" for face in faces)
    return hashlib.sha256(joined.encode()).hexdigest()[:16]


@lru_cache(maxsize=48)
def load_font(face: Face, size: float) -> ImageFont.FreeTypeFont:
    """The face at ``size`` pixels per em."""
    if not face.path:
        return _pil_font(size)
    return ImageFont.truetype(face.path, size, index=face.index)


def group_of(family: str, style: str, fixed: bool) -> str:
    """Which of :data:`GROUPS` a family belongs to, by its name."""
    name = f"{family} {style}".lower()
    for group, pattern in _GROUP_PATTERNS:
        if re.search(pattern, name):
            return group
    return "mono" if fixed else "sans"


def _draws_both_cases(face: Face) -> bool:
    """Whether the file loads and its small letters are neither blank nor capitals, full-sized or small."""
    try:
        font = load_font(face, 32)
        alike = [_likeness(font, lower, lower.upper()) for lower in "aegr"]
    except (OSError, ValueError):
        return False
    return float(np.median(alike)) < _CAPITAL_LIKENESS and font.getmask("0").getbbox() is not None


_CAPITAL_LIKENESS = 0.72
"""Median overlap of small letters with their capitals, above which a face counts as capitals only; text faces have 0.3-0.6."""


def _likeness(font: ImageFont.FreeTypeFont, first: str, second: str) -> float:
    """Overlap (intersection over union) of two glyphs scaled to the same box; 1 when one of them is blank."""
    shapes = []
    for letter in (first, second):
        image = Image.new("L", (96, 96), 0)
        ImageDraw.Draw(image).text((32, 64), letter, fill=255, font=font, anchor="ls")
        box = image.getbbox()
        if box is None:
            return 1.0
        shapes.append(np.asarray(image.crop(box).resize((32, 32))) > 128)
    return float((shapes[0] & shapes[1]).sum() / max(1, (shapes[0] | shapes[1]).sum()))


def _css_weight(fontconfig_weight: float) -> int:
    """Fontconfig's weights (80 is regular, 200 is bold) on the CSS scale, by linear pieces."""
    points = ((0, 100), (40, 200), (50, 300), (80, 400), (100, 500), (180, 600), (200, 700), (205, 800), (210, 900))
    for (low, css_low), (high, css_high) in pairwise(points):
        if fontconfig_weight <= high:
            return round(css_low + (css_high - css_low) * (fontconfig_weight - low) / (high - low))
    return 900


def _from_fontconfig() -> list[Face]:
    """Every scalable face that fontconfig knows, unfiltered."""
    form = "%{file}\t%{index}\t%{family[0]}\t%{style[0]}\t%{weight}\t%{slant}\t%{spacing}\t%{variable}\t%{charset}\n"
    listing = subprocess.run(["fc-list", "--format", form], capture_output=True, text=True, check=True).stdout
    faces = []
    for row in sorted(listing.splitlines()):
        fields = row.split("\t")
        if len(fields) != 9 or not fields[0].lower().endswith((".ttf", ".otf", ".ttc")) or fields[7] == "True":
            continue
        path, index, family, style, weight, slant, spacing, _, charset = fields
        fixed = spacing in ("90", "100", "110")
        try:
            css_weight, italic = _css_weight(float(weight)), float(slant or 0) > 0
        except ValueError:
            continue
        if _SKIP.search(f"{family} {style}"):
            continue
        group = group_of(family, style, fixed)
        faces.append(Face(path, int(index), family, style, group, css_weight, italic, fixed, _expand(charset)))
    return faces


def _expand(charset: str) -> frozenset[str]:
    """Fontconfig's ``20-7e a0-131 ...`` as characters of the vocabulary."""
    characters: set[str] = set()
    for span in charset.split():
        low, _, high = span.partition("-")
        first, last = int(low, 16), int(high or low, 16)
        if first <= _LAST:
            characters.update(map(chr, range(first, min(last, _LAST) + 1)))
    # A thousand faces share few sets; the vocabulary alone keeps them small.
    return frozenset(characters & _PRINTABLE)


def _from_folders() -> list[Face]:
    """Faces of the usual font folders, read with fontTools."""
    files = [path for folder in FONT_FOLDERS for path in Path(folder).expanduser().rglob("*")]
    faces: list[Face] = []
    for path in sorted(files):
        if path.suffix.lower() not in (".ttf", ".otf", ".ttc"):
            continue
        try:
            fonts = TTCollection(path, lazy=True).fonts if path.suffix.lower() == ".ttc" else [TTFont(path, lazy=True)]
            found = [_face_of(font, str(path), index) for index, font in enumerate(fonts)]
        except (TTLibError, OSError, KeyError, ValueError):
            continue
        faces.extend(face for face in found if not _SKIP.search(face.name))
    return faces


def _face_of(font: TTFont, path: str, index: int) -> Face:
    names = font["name"]
    family = str(names.getBestFamilyName() or Path(path).stem)
    style = str(names.getBestSubFamilyName() or "")
    weight = int(font["OS/2"].usWeightClass) if "OS/2" in font else 400
    fixed = bool(font["post"].isFixedPitch) if "post" in font else False
    characters = frozenset(chr(code) for code in font.getBestCmap() if code <= _LAST) & _PRINTABLE
    italic = bool(re.search(r"italic|oblique|slanted", style, re.IGNORECASE))
    return Face(path, index, family, style, group_of(family, style, fixed), weight, italic, fixed, characters)


def _bundled_face() -> Face:
    """The face inside PIL, for machines that have no fonts."""
    return _face_of(TTFont(io.BytesIO(_pil_font(16).font_bytes), lazy=True), "", 0)


def _pil_font(size: float) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "PIL has an outline face of its own for every size"
    return font
