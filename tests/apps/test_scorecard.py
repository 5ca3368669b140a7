"""The score card: peers in processes of their own, what is kept between runs, and a page without made-up numbers."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from apps import card_page, cli, scorecard
from apps.bench import Request
from apps.peer_process import PeerProcess
from apps.peers import OURS, PEERS, Peer, sizes_mb
from apps.scorecard import Wish, make_card

FAKES = """
import os
import sys
import time

from apps import peer_process, peers
from apps.bench import Output


def read(request):
    text = request.path.read_text()
    print("noise that is no answer")
    if text == "slow":
        time.sleep(600)
    if text == "deadly":
        os._exit(7)
    if text == "broken":
        raise RuntimeError("a trouble of its own")
    held = bytearray(90_000_000 if text == "large" else 10)
    held[::4096] = bytes(len(held[::4096]))
    return Output(text.upper() if sys.argv[1] == "shouts" else text, 2)


engines = {"line": read}
fakes = [
    peers.Peer("docvision", engines, "numpy", "pip install docvision"),
    peers.Peer("shouts", engines, "numpy", "pip install shouts"),
    peers.Peer("absent", engines, "no-such-package", "pip install absent"),
]
peers.PEERS.clear()
peers.PEERS.update({peer.name: peer for peer in fakes})
peer_process.main(*sys.argv[1:])
"""
LINES = {"one": "Hello line", "two": "Second line"}


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Peer]:
    """Peers that give back what the file holds, run by the real process."""
    (tmp_path / "fake_peers.py").write_text(FAKES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(scorecard, "PeerProcess", functools.partial(PeerProcess, module="fake_peers"))
    return {
        name: Peer(name, {"line": PEERS["tesseract"].engines["line"]}, name, f"pip install {name}")
        for name in (OURS, "shouts", "absent")
    }


def write_bench(folder: Path, lines: dict[str, str], truths: dict[str, str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    rows = []
    for name, text in lines.items():
        (folder / f"{name}.png").write_text(text)
        (folder / f"{name}.txt").write_text((truths or lines)[name])
        rows.append({"id": name, "kind": "line", "file": f"{name}.png", "truth": [f"{name}.txt"], "medium": name})
    (folder / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_card_measures_keeps_and_never_makes_up_a_number(tmp_path: Path, fakes: dict[str, Peer]) -> None:
    wish = Wish(write_bench(tmp_path / "bench", LINES), cache=tmp_path / "cache")
    said: list[str] = []
    ours, shouts, absent = make_card(wish, fakes, said.append)
    assert said == [
        "line: docvision reads one", "line: docvision reads two", "line: shouts reads one", "line: shouts reads two",
        "line: absent is not installed: pip install absent",
    ]  # fmt: skip
    assert ours.figures["cer"]["value"] == 0.0 and ours.figures["exact"] == {
        "value": 1.0, "low": 1.0, "high": 1.0, "documents": 2
    }  # fmt: skip
    assert shouts.figures["exact"]["value"] == 0.0 and shouts.groups == {"one": 0.8, "two": 9 / 11}
    assert (ours.documents, ours.unread, ours.pages, ours.times_ours) == (2, 0, 4, 1.0)
    assert shouts.peak_mb and shouts.hello.base_mb and shouts.peak_mb >= shouts.hello.base_mb
    assert not absent.figures and absent.seconds_a_page is None and absent.peak_mb is None

    page = card_page.tables([ours, shouts, absent])
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert [row.split("|")[1].split()[0] for row in rows[2:]] == ["docvision", "shouts", "absent"]
    assert not any(char.isdigit() for char in rows[-1]) and rows[-1].endswith("| not installed |")
    assert len({row.count("|") for row in rows}) == 1

    (tmp_path / "bench/two.png").write_text("Second lime")  # another file under the old name is another file
    said.clear()
    again = make_card(wish, fakes, said.append)
    assert said[:2] == ["line: docvision reads two", "line: shouts reads two"]
    assert again[0].figures["exact"]["value"] == 0.5


def test_trouble_of_a_peer_costs_that_document(tmp_path: Path, fakes: dict[str, Peer]) -> None:
    lines = {"a": "broken", "b": "fine", "c": "deadly", "d": "slow", "e": "fine"}
    folder = write_bench(tmp_path / "bench", lines, dict.fromkeys(lines, "fine"))
    (ours,) = make_card(Wish(folder, cache=tmp_path / "cache", time_limit=3), {OURS: fakes[OURS]})
    kept = {path.name[0]: json.loads(path.read_text())["reading"] for path in (tmp_path / "cache").rglob("*.json")}
    assert {name: reading["status"] for name, reading in kept.items()} == {
        "a": "failed", "b": "ok", "c": "died", "d": "late", "e": "ok"
    }  # fmt: skip
    assert kept["a"]["error"] == "RuntimeError: a trouble of its own" and "(7)" in kept["c"]["error"]
    assert kept["d"]["error"] == "stopped after 3 s" and 3 <= kept["d"]["wall"] < 60
    assert (ours.documents, ours.unread, ours.figures["exact"]["value"]) == (5, 3, 0.4)


def test_memory_is_that_of_the_peer(tmp_path: Path, fakes: dict[str, Peer]) -> None:
    folder = write_bench(tmp_path, {"small": "x", "big": "large"})
    with PeerProcess("shouts", "line", module="fake_peers") as process:
        small, big = (process.read(Request(folder / f"{name}.png", "line"), 60) for name in ("small", "big"))
    assert small.peak_mb and big.peak_mb and big.peak_mb - small.peak_mb > 80
    assert big.seconds > 0 and big.status == "ok" and big.text == "LARGE"


def test_limit_takes_documents_from_all_over(tmp_path: Path) -> None:
    folder = write_bench(tmp_path, {str(number): "x" for number in range(10)})
    assert [row["id"] for row in scorecard._chosen(Wish(folder, limit=3))] == ["1", "5", "8"]
    assert len(scorecard._chosen(Wish(folder, limit=99))) == 10


def test_what_is_not_there_to_measure_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--bench names the folder"):
        make_card(Wish(tmp_path))
    folder = write_bench(tmp_path, LINES)
    with pytest.raises(ValueError, match="no rows of kind 'pages' to score: use some of line"):
        make_card(Wish(folder, kinds=["pages"]))


def test_the_tables_go_between_their_marks(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    fresh = card_page.placed("old\n", path)
    path.write_text(f"before\n{fresh}after\n")
    text = card_page.placed("new\n", path)
    assert text == f"before\n{fresh.replace('old', 'new')}after\n"
    path.write_text("no marks")
    with pytest.raises(ValueError, match="add them"):
        card_page.placed("new\n", path)


def test_an_interval_holds_its_figure_and_shrinks_with_documents() -> None:
    few: Sequence[tuple[float, float]] = [(1.0, 10.0), (3.0, 10.0)]
    small, large = scorecard.estimate(few), scorecard.estimate(list(few) * 20)
    assert small["value"] == large["value"] == pytest.approx(0.2)
    assert small["low"] == pytest.approx(0.1) and small["high"] == pytest.approx(0.3)
    assert small["low"] < large["low"] < 0.2 < large["high"] < small["high"]


def test_every_peer_says_how_to_get_it_and_reads_kinds_that_are_scored() -> None:
    assert next(iter(PEERS)) == OURS
    for name, peer in PEERS.items():
        assert name == peer.name and peer.install.split()[1] == "install"
        assert peer.engines and set(peer.engines) <= set(card_page.TITLES)
        assert peer.command or peer.name == OURS or not peer.debian


def test_sizes_are_those_of_the_files_and_of_all_that_is_needed() -> None:
    """What docvision weighs with its models is some of what it weighs with torch."""
    own, everything = sizes_mb(PEERS[OURS]) or (0.0, 0.0)
    assert 1 < own < everything - 100
    assert sizes_mb(Peer("none", {}, "no-such-package", "pip install none")) is None


def test_command_line_writes_json_and_markdown(
    tmp_path: Path, fakes: dict[str, Peer], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("apps.peers.PEERS", fakes)
    monkeypatch.setattr(scorecard.make_card, "__defaults__", (fakes, *scorecard.make_card.__defaults__[1:]))
    folder = write_bench(tmp_path / "bench", {"one": "Hello"})
    out = tmp_path / "card.md"
    arguments = ["bench", "scorecard", "--bench", str(folder), "--cache", str(tmp_path / "cache"), "--peers", "absent"]
    code = cli.main([*arguments, "--json", str(tmp_path / "card.json"), "--markdown", str(out)])
    assert code == 0 and capsys.readouterr().out.startswith("| Text lines (1) |")
    assert out.read_text().startswith("# Score card\n\n<!-- scorecard -->\n| Text lines (1) |")
    report = json.loads((tmp_path / "card.json").read_text())
    assert [row["peer"] for row in report["rows"]] == [OURS, "absent"] and report["machine"]["cores"]
    assert cli.main([*arguments[:-1], "tesserakt"]) == 2
