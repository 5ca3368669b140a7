"""The rules of a batch without processes: what is read again, what is left out, what is given up."""

from __future__ import annotations

import json
from itertools import count

import pytest

from apps import jobs
from apps.jobs import Loss, Outcome, Task, WorkList


def crash(page: int | None) -> Loss:
    return Loss("crash", page, "the reader crashed (SIGSEGV)")


def test_tasks_come_in_order_and_once() -> None:
    work = WorkList([Task("a", "a"), Task("b", "b")])
    assert [work.next(), work.next(), work.next()] == [Task("a", "a"), Task("b", "b"), None] and len(work) == 0


def test_a_document_whose_reader_died_is_read_again_after_all_others() -> None:
    work = WorkList([Task("a", "a"), Task("b", "b")])
    first = work.next()
    assert first is not None and work.lost(first, crash(None)) is None
    assert [work.next(), work.next(), work.next()] == [Task("b", "b"), first, None] and work.retried == 1


def test_a_document_that_cannot_be_opened_alive_is_given_up_after_its_retry() -> None:
    work = WorkList([Task("in/a.pdf", "a")])
    outcomes = []
    while task := work.next():
        outcomes.append(work.lost(task, crash(None)))
    assert len(outcomes) == 1 + jobs.RETRIES and outcomes[0] is None
    (failure,) = outcomes[-1].failures  # type: ignore[union-attr]
    assert (failure.input, failure.code, failure.page, failure.retryable) == ("in/a.pdf", "crash", None, True)


def test_a_page_that_kills_twice_is_left_out_and_the_rest_is_read() -> None:
    work = WorkList([Task("a", "a")])
    for _ in range(1 + jobs.RETRIES):
        task = work.next()
        assert task is not None and not task.skip and work.lost(task, crash(3)) is None
    assert work.next() == Task("a", "a", (crash(3),))


@pytest.mark.parametrize("code", ["timeout", "memory"])
def test_a_page_beyond_a_limit_is_left_out_at_once(code: str) -> None:
    """It would be the same the second time, and cost the same."""
    work = WorkList([Task("a", "a")])
    task = work.next()
    assert task is not None and work.lost(task, Loss(code, 2, "too long")) is None
    again = work.next()
    assert again is not None and again.skip == (Loss(code, 2, "too long"),)


def test_a_document_of_many_bad_pages_ends() -> None:
    work = WorkList([Task("a", "a")])
    for page in count(1):
        task = work.next()
        assert task is not None
        outcome = work.lost(task, Loss("timeout", page, "took longer than 5 seconds"))
        if outcome is not None:
            break
    assert page == jobs.MAX_BAD_PAGES and work.next() is None
    assert outcome.status == "failed" and "page 1: took longer than 5 seconds" in outcome.failures[0].message


def test_tasks_and_outcomes_survive_json() -> None:
    """Whatever engine carries them: names that are no UTF-8 come out as they went in."""
    task = Task("in/\udcff.pdf", "\udcff", (crash(2), crash(5)))
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task
    failures = (jobs.failure("a", "corrupt", "it is damaged"), jobs.failure("a", "timeout", "too long", 4))
    outcome = Outcome("partial", 3, "ab12", {"a.md": 7}, failures, ("note",), 1, ("out/a.md",))
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))) == outcome
    with pytest.raises((TypeError, KeyError)):
        Outcome.from_json({"status": "ok"})


def test_every_code_that_a_source_knows_has_a_hint() -> None:
    from typing import get_args

    from docvision.source import ErrorCode

    for code in get_args(ErrorCode):
        assert jobs.failure("a", code, "x").hint != jobs.failure("a", "unheard-of", "x").hint, code
    assert not jobs.failure("a", "corrupt", "x").retryable and jobs.failure("a", "disk-full", "x").retryable
