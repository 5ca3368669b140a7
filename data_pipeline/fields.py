"""Generated strings: what documents hold besides sentences.

Each maker takes a generator and gives one short string: names, addresses, amounts, dates, references, numbers, units,
codes, e-mail and web addresses, receipt rows, headings.  :data:`MAKERS` lists them with their shares.
"""

# fmt: off


from __future__ import annotations

from collections.abc import Callable

import numpy as np

from data_pipeline import chance

Rng = np.random.Generator

_FIRST = (
    "Anna Élodie François Jürgen Łukasz Zoë José María Søren Åsa Björn Çağla Şükrü Ömer Jiří Věra Žofia Małgorzata "
    "Giulia Nuria Inês João Márta György Đorđe Ivan Siobhán Pierre Hélène Noël Chloé Klaus Günther Käthe Heiðrún "
    "Þór Aino Väinö Tõnu Ināra Jānis Žydrūnė Ștefan Raluca Emma Liam Olivia Noah Grace Peter Mary John Susan"
).split()
_LAST = (
    "Müller Lefèvre Nowak Wiśniewska García Núñez O’Brien O'Neill MacLeod Dvořák Novotná Șerban Yılmaz Öztürk Åkesson "
    "Sørensen Bjørnsen Gonçalves d’Angelo De Luca van den Berg Schäfer Größling Weiß Häkkinen Kovács Szűcs Horvat "
    "Žukauskas Bērziņš Tamm Jónsson Smith Brown Taylor Châtelain Besançon Königs Ibáñez Peña Conceição Brânză Ruiz-Díaz"
).split()
_STREETS = (
    "Rue de l’Église|Avenue du Général-Leclerc|Bd Saint-Michel|Hauptstraße|Königsallee|Bahnhofstr.|Calle Mayor|Paseo de la Castellana|"
    "Via Garibaldi|Piazza Duomo|Rua da Conceição|ul. Świętokrzyska|ul. Długa|Náměstí Míru|Storgatan|Østergade|Atatürk Cad.|"
    "High Street|Main St|Elm Avenue|Kerkstraat|Prinsengracht|Mannerheimintie|Kossuth Lajos utca|Strada Mihai Eminescu"
).split("|")
_TOWNS = (
    "Paris|Lyon|Besançon|Saint-Étienne|Köln|München|Düsseldorf|Zürich|Wien|Málaga|Coruña|Córdoba|São Paulo|Łódź|Gdańsk|Kraków|"
    "Plzeň|Brno|Malmö|Århus|Tromsø|İzmir|Eskişehir|London|New York|Leeds|’s-Hertogenbosch|Jyväskylä|Győr|Brașov|Chișinău|Perugia|Forlì"
).split("|")
_MONTHS = (
    "January February March April May June July August September October November December "
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre "
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember "
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre "
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre "
    "stycznia lutego marca kwietnia czerwca sierpnia września grudnia ledna února března října Ocak Şubat Ağustos Eylül Jan. Feb. Dec. févr. déc."
).split()
_UNITS = "kg g mg µg km m cm mm µm m² m³ cm² cm³ l ml °C °F K kWh W kW MHz GHz Hz dB V mA A Ω kΩ % ‰ bar hPa s ms min h km/h m/s² kg/m³ mol/l mg/dl in ft lb oz pt px dpi MB GB".split()
_ITEMS = (
    "CAFÉ CRÈME|PAIN AU CHOCOLAT|LAIT DEMI-ÉCRÉMÉ 1L|BROT 750G|MÜLLERMILCH|KÄSE GOUDA|ÄPFEL KG|TOMATEN|BANANES BIO|EAU MINÉRALE|BŒUF HACHÉ|"
    "WHOLE MILK|EGGS LARGE 12|CHICKEN BREAST|ORANGE JUICE|Sandwich jambon|Thé vert|Menu du jour|Pilsner 0,5|Wiener Schnitzel|Espresso|"
    "Parking 2 h|Ticket adulte|Shampoo 250 ml|Batteries AA x4|Paper A4|Chleb żytni|Masło|Ser biały|Mléko|Rohlík|Jamón ibérico|Aceite de oliva"
).split("|")
_TOTALS = (
    "TOTAL|SUBTOTAL|Sous-total|TOTAL TTC|TVA 20 %|TVA 5,5 %|MwSt 19%|Summe EUR|Netto|Brutto|Zwischensumme|IVA 21 %|IMPORTE|CASH|CHANGE|VISA ****1234|"
    "CARTE BANCAIRE|RENDU|Rückgeld|BAR|TAX|GST|Balance due|Razem|PTU A 23%|Suma PLN|Celkem|Saldo|Totaal|KDV %18|Toplam|Montant HT|Net à payer"
).split("|")
_HEADINGS = (
    "Introduction|Conclusion|Abstract|Table of Contents|Zusammenfassung|Résumé|Méthodes|Ergebnisse|Discusión|Bibliografía|Spis treści|Obsah|"
    "Invoice|Facture|Rechnung|Quotation|Devis|Bon de commande|Lieferschein|Purchase Order|Delivery note|Contract|Annexe|Anhang|Chapter|Kapitel|"
    "Quantity|Unit price|Amount|Description|Désignation|Quantité|Prix unitaire|Menge|Einzelpreis|Betrag|Cantidad|Ilość|Cena netto|Datum|Date|"
    "Page|Seite|N°|No.|Ref.|Total|Year|Mean|Std. dev.|p-value|n|Yes|No|N/A|Male|Female|Age (years)|Baseline|Control|Treatment"
).split("|")


def _pick(rng: Rng, items: list[str] | str) -> str:
    return items[int(rng.integers(len(items)))]


def _digits(rng: Rng, count: int) -> str:
    return "".join(str(digit) for digit in rng.integers(0, 10, count))


def grouped(rng: Rng, value: int) -> str:
    """An integer with or without separators of thousands."""
    mark = _pick(rng, ["", "", ",", ".", " ", "'", "’"])
    return f"{value:,}".replace(",", mark)


def amount(rng: Rng) -> str:
    whole = int(10 ** rng.uniform(0, 6.5))
    decimals = _digits(rng, 2)
    text = f"{grouped(rng, whole)}{_pick(rng, [',', '.', '.', ','])}{decimals}"
    style = rng.integers(9)
    if style < 2:
        return f"{text} {_pick(rng, ['€', 'EUR', 'USD', 'zł', 'Kč', 'kr', 'CHF', 'PLN', 'GBP', 'TL', 'Ft', 'lei', '¥'])}"
    if style < 4:
        return f"{_pick(rng, ['$', '£', '€', '¥', 'US$', 'Rs. '])}{text}"
    if style == 4:
        return _pick(rng, [f"({text})", f"-{text}", f"−{text}", f"+{text}"])
    return text


def number(rng: Rng) -> str:
    style = rng.integers(10)
    if style < 3:
        return str(int(10 ** rng.uniform(0, 5)))
    if style < 5:
        return grouped(rng, int(10 ** rng.uniform(3, 8)))
    if style < 7:
        return f"{rng.uniform(0, 100):.{rng.integers(1, 4)}f}".replace(".", _pick(rng, [".", ",", "."]))
    if style == 7:
        return f"{rng.uniform(0, 100):.1f}{_pick(rng, ['%', ' %', '‰', '*', '†', '‡', 'a', '**'])}"
    if style == 8:
        return f"{rng.uniform(0, 50):.2f} {_pick(rng, ['±', '+/-'])} {rng.uniform(0, 5):.2f}"
    return _pick(rng, [f"{_digits(rng, 1)}.{_digits(rng, 2)} × 10{_pick(rng, '²³⁴⁵⁻')}", f"{rng.integers(1, 9)}/{rng.integers(2, 9)}",
                       f"{rng.integers(1, 12)}{_pick(rng, '½¼¾')}", f"p < 0.{_digits(rng, 3)}", f"≥ {rng.integers(1, 99)}", f"≤{rng.integers(1, 99)}",
                       f"≈ {rng.integers(1, 999)}", f"x ≠ {rng.integers(9)}", f"{rng.integers(2, 20)} × {rng.integers(2, 40)}", f"№ {rng.integers(1, 99)}"])


def measure(rng: Rng) -> str:
    return f"{number(rng)}{_pick(rng, [' ', ' ', ''])}{_pick(rng, _UNITS)}"


def date(rng: Rng) -> str:
    day, month, year = int(rng.integers(1, 32)), int(rng.integers(1, 13)), int(rng.integers(1850, 2035))
    style = rng.integers(8)
    if style < 3:
        mark = _pick(rng, [".", "/", "-", " / "])
        return f"{day:02d}{mark}{month:02d}{mark}{_pick(rng, [str(year), str(year)[2:]])}"
    if style == 3:
        return f"{year}-{month:02d}-{day:02d}"
    if style == 4:
        return f"{_pick(rng, _MONTHS)} {day}, {year}"
    if style == 5:
        return f"{day:02d}/{month:02d}/{year} {rng.integers(24):02d}:{rng.integers(60):02d}" + _pick(rng, ["", ":" + _digits(rng, 2)])
    return f"{day}{_pick(rng, ['', '.', '', 'er', 'th'])} {_pick(rng, _MONTHS)} {year}"


def name(rng: Rng) -> str:
    title = _pick(rng, ["", "", "", "", "M. ", "Mme ", "Dr. ", "Herr ", "Frau ", "Prof. ", "Sr. ", "Pani ", "Mr ", "Ms ", "Ing. "])
    first = _pick(rng, _FIRST)
    if rng.random() < 0.2:
        first = first[0] + "."
    last = _pick(rng, _LAST)
    style = rng.integers(5)
    return [f"{title}{first} {last}", f"{last}, {first}", f"{first} {last.upper()}", f"{title}{last}", f"{first} {last}"][style]


def address(rng: Rng) -> str:
    street, house = _pick(rng, _STREETS), str(rng.integers(1, 240)) + _pick(rng, ["", "", "", " bis", "a", "/4", "B"])
    line = _pick(rng, [f"{house}, {street}", f"{street} {house}", f"{house} {street}"])
    town = f"{_pick(rng, ['', 'F-', 'D-', '', 'CH-'])}{_digits(rng, int(rng.integers(4, 6)))} {_pick(rng, _TOWNS)}"
    return _pick(rng, [line, town, f"{line}, {town}", f"{line} – {town}"])


def phone(rng: Rng) -> str:
    groups = " ".join(_digits(rng, 2) for _ in range(int(rng.integers(3, 5))))
    prefix = _pick(rng, ["+33 1 ", "+49 (0)89 ", "0", "+48 22 ", "(0", "Tel. ", "Tél. : ", "T: +44 20 ", "Tel: 0", "Fax: 0"])
    return f"{prefix}{_digits(rng, 2)}{') ' if prefix == '(0' else ' '}{groups.replace(' ', _pick(rng, [' ', '.', '-', '']))}"


def code(rng: Rng) -> str:
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    style = rng.integers(8)
    if style == 0:
        return "".join(_pick(rng, letters + "0123456789") for _ in range(int(rng.integers(4, 14))))
    if style == 1:
        return f"{_pick(rng, letters)}{_pick(rng, letters)}-{_digits(rng, int(rng.integers(3, 7)))}/{_digits(rng, 2)}"
    if style == 2:
        return f"{_pick(rng, ['FR', 'DE', 'PL', 'ES'])}{_digits(rng, 2)} " + " ".join(_digits(rng, 4) for _ in range(5))
    if style == 3:
        return f"{_pick(rng, ['ISBN', 'ISSN', 'SIRET', 'NIP', 'USt-IdNr.', 'VAT', 'Réf.', 'Ref:', 'Order #', 'N°', 'Nr.', 'Az.'])} {_digits(rng, int(rng.integers(4, 13)))}"
    if style == 4:
        return f"[{rng.integers(1, 200)}]" if rng.random() < 0.5 else f"({rng.integers(1, 40)})"
    if style == 5:
        return f"§ {rng.integers(1, 400)} {_pick(rng, ['Abs.', 'al.', 'ust.', 'odst.'])} {rng.integers(1, 9)} {_pick(rng, ['BGB', 'C. civ.', 'k.c.', 'StGB', 'HGB'])}"
    if style == 6:
        return "".join(_pick(rng, "0123456789abcdef") for _ in range(int(rng.integers(6, 20))))
    return f"{rng.integers(1, 20)}.{rng.integers(1, 20)}" + (f".{rng.integers(1, 9)}" if rng.random() < 0.5 else "")


def web(rng: Rng) -> str:
    host = "".join(_pick(rng, "abcdefghijklmnoprstuvwz") for _ in range(int(rng.integers(3, 10))))
    tail = _pick(rng, ["com", "org", "fr", "de", "eu", "co.uk", "pl", "es", "it", "net", "gov"])
    style = rng.integers(5)
    if style < 2:
        first = _pick(rng, ["info", "contact", "j.smith", "anna_nowak", "office", "no-reply", "m.dupont", f"user{_digits(rng, 2)}"])
        return f"{_pick(rng, ['', '', 'E-mail: ', 'Mail: '])}{first}@{host}.{tail}"
    path = _pick(rng, ["", "/", "/index.html", f"/doc/{_digits(rng, 4)}", "/en/about-us", f"?id={_digits(rng, 5)}&p=2", "/~user/paper.pdf", "#sec-3"])
    start = _pick(rng, ["www.", "https://", "http://www.", "https://www.", ""])
    if style == 4:
        return f"{_pick(rng, ['doi:', 'https://doi.org/', 'DOI '])}10.{_digits(rng, 4)}/{host}.{_digits(rng, 4)}.{_digits(rng, 3)}"
    return f"{start}{host}.{tail}{path}"


def receipt(rng: Rng) -> str:
    style = rng.integers(6)
    price = f"{rng.integers(0, 100)}{_pick(rng, [',', '.'])}{_digits(rng, 2)}"
    if style < 3:
        item = _pick(rng, _ITEMS)
        start = _pick(rng, ["", "", f"{rng.integers(1, 9)} x ", f"{rng.integers(1, 9)}× ", f"{rng.integers(1, 9)} "])
        return f"{start}{item} {price}{_pick(rng, ['', '', ' A', ' B', ' €', ' *', ' 1'])}"
    if style < 5:
        return f"{_pick(rng, _TOTALS)}{_pick(rng, ['', ':', ' :', ''])} {_pick(rng, ['', '', 'EUR ', '€ ', '$'])}{price}"
    return _pick(rng, ["*** MERCI DE VOTRE VISITE ***", "Vielen Dank für Ihren Einkauf!", "THANK YOU", "Dziękujemy, zapraszamy ponownie", "*** COPIE CLIENT ***",
                       f"Ticket n° {_digits(rng, 5)} Caisse {rng.integers(1, 20)}", f"Bon-Nr. {_digits(rng, 6)}", f"Op: {_digits(rng, 3)} Trn: {_digits(rng, 4)}",
                       "=" * int(rng.integers(4, 24)), "-" * int(rng.integers(4, 24)), "*" * int(rng.integers(3, 20)), f"AUTH CODE {_digits(rng, 6)}"])


def heading(rng: Rng) -> str:
    text = _pick(rng, _HEADINGS)
    style = rng.integers(5)
    if style == 0:
        return f"{rng.integers(1, 15)}{_pick(rng, ['.', ')', '', f'.{rng.integers(1, 9)}'])} {text}"
    return [text, text.upper(), f"{text}:", f"{text} {rng.integers(1, 60)}"][style - 1]


def reference(rng: Rng) -> str:
    authors = ", ".join(f"{_pick(rng, _LAST)} {_pick(rng, _FIRST)[0]}." for _ in range(int(rng.integers(1, 4))))
    year, first = int(rng.integers(1950, 2030)), int(rng.integers(1, 900))
    return _pick(rng, [f"{authors} ({year}).", f"[{rng.integers(1, 90)}] {authors} et al., {year}, {rng.integers(1, 90)}({rng.integers(1, 12)}):{first}–{first + 12}.",
                       f"Fig. {rng.integers(1, 20)}", f"Table {rng.integers(1, 20)}.", f"cf. p. {first}–{first + 3}", f"vol. {rng.integers(1, 90)}, pp. {first}-{first + 9}",
                       f"© {year} {authors}", f"{authors} {year}, S. {first} ff."])


def mark(rng: Rng) -> str:
    """One to four characters: what narrow table cells hold."""
    return _pick(rng, ["•", "–", "—", "-", "×", "✓", "*", "…", "N°", "x", "X", "A", "B", "I", "II", "III", "IV", "a)", "1.", "2)", "(a)", "(iv)", "§", "%", "€", "°C",
                       "&", "+", "=", "<", ">", "n.a.", "k.A.", "s.d.", "ns", "H₂O", "CO₂", "m²", "10³", "½", "→", "☐", "☑", "■", "−1", "±", "α", "β", "µ", "Σ", "Δ", "λ", "π",
                       str(rng.integers(10)), str(rng.integers(100)), str(rng.integers(1000)), f"{rng.integers(10)}.{rng.integers(10)}", f"-{rng.integers(10)}",
                       f"{rng.integers(100)}%", _pick(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") + _pick(rng, ["", ".", "1", ")"])])


def scramble(rng: Rng) -> str:
    """Characters in no order, so that no character is read only by guessing from its neighbours."""
    pools = ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz0123456789", "ÀÂÄÇÉÈÊËÎÏÔÖÙÛÜŸÆŒàâäçéèêëîïôöùûüÿæœßñáíóúãõåøğışżźćńłśąęěščřžýťďňőűțșāēīņļģķ",
             ".,:;!?…()[]{}<>«»‹›„“”‚‘’\"'/\\|&@#%‰*+−=±×÷~^_-–—•·§¶†‡©®™°€£$¥¢¿¡", "αβγδεζηθλμνξπρστφχψωΓΔΘΛΞΠΣΦΨΩ≤≥≠≈∞∑√∂∫→←↑↓∈∅⁰¹²³⁴₀₁₂½¼¾⅓")
    words = []
    for _ in range(int(rng.integers(1, 6))):
        pool = pools[int(rng.choice(5, p=[0.2, 0.25, 0.27, 0.18, 0.10]))]
        words.append("".join(_pick(rng, pool) for _ in range(int(rng.integers(1, 8)))))
    return " ".join(words)


Maker = Callable[[Rng], str]

MAKERS: dict[str, tuple[Maker, float]] = {
    "amount": (amount, 12), "number": (number, 16), "measure": (measure, 7), "date": (date, 10), "name": (name, 12),
    "address": (address, 9), "phone": (phone, 4), "code": (code, 9), "web": (web, 6), "receipt": (receipt, 7),
    "heading": (heading, 8), "reference": (reference, 6), "scramble": (scramble, 8),
}
"""Makers of generated strings with their shares; :func:`mark` is used by itself for the shortest lines."""


def make(rng: Rng) -> str:
    """One generated string of any sort."""
    return chance.weighted(rng, _SHARES)(rng)


_SHARES = {maker: share for maker, share in MAKERS.values()}
