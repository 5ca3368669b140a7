"""When drafting pays, by the clock: what a plain step takes here, what a drafting cycle takes and wins.

The answer depends on the machine, the batch and the documents, so it is measured while decoding.  It can change how
fast tokens come, never which: exact decoding writes the same tokens with any draft and with none.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Collection


class Arm:
    """Timings of steps with like numbers of rows."""

    def __init__(self) -> None:
        self.plain: deque[float] = deque(maxlen=16)
        self.drafted: deque[tuple[float, float, int]] = deque(maxlen=16)
        """Seconds, tokens a row, nodes."""
        self.steps = 0

    def plain_time(self) -> float:
        return steady_mean(self.plain)

    def drafted_time(self) -> float:
        return steady_mean([seconds for seconds, _, _ in self.drafted])


def steady_mean(values: Collection[float]) -> float:
    """Mean with what exceeds three medians cut off: a busy machine now and then holds a step up; 0 for no values."""
    if not values:
        return 0.0
    cap = 3 * statistics.median(values)
    return statistics.fmean(min(value, cap) for value in values)


def clock(device: str) -> Callable[[], float]:
    """What to time steps on a device with: on a CPU the thread's own time, which other programs do not disturb."""
    return time.thread_time if device == "cpu" else time.perf_counter


class Pace:
    """Says by the clock whether drafting pays, and what a drafted token may cost.

    Each number of rows (by powers of two) learns the seconds of a plain step and of a drafting cycle.  Drafting goes
    on while it saves time; where it does not, a draft is tried again only as far as ``ALLOWANCE`` of the time spent
    in plain steps covers the expected loss, so that a batch is never slower than plain decoding by more than that.
    """

    ALLOWANCE = 0.03
    TRIAL = 4
    """Cycles in a row that a decision for drafting holds: some drafters need one to get going."""
    PATIENCE = 2.0
    """Plain steps' worth of time that a decision for drafting may lose before it is taken back."""
    SAMPLES = 3
    REFRESH = 64
    """Decisions after which the plain step is timed again."""

    def __init__(self) -> None:
        self.arms: dict[tuple[int, bool], Arm] = {}
        self.credit = 0.0
        self.hold = 0
        """Cycles for which the last decision to draft still holds."""
        self.lost = 0.0
        """Seconds lost since that decision; negative where drafting saves."""

    def arm(self, rows: int, first: bool) -> Arm:
        return self.arms.setdefault((rows.bit_length(), first), Arm())

    def wants_draft(self, rows: int, first: bool) -> bool:
        """Whether the next step, the first of its batch or a later one, should draft."""
        if self.hold > 0 and not first:
            self.hold -= 1
            return True
        arm = self.arm(rows, first)
        arm.steps += 1
        wanted = self._decide(arm, rows, first)
        if wanted and not first:
            self.hold, self.lost = self.TRIAL - 1, 0.0
        return wanted

    def _decide(self, arm: Arm, rows: int, first: bool) -> bool:
        if first and not arm.drafted:
            # Nothing was ever drafted this early: riders may come along if later drafts pay or were never tried.
            return self.loss(rows, False) <= 0
        if len(arm.plain) < self.SAMPLES:
            return False
        if arm.drafted:
            loss = self.loss(rows, first)
        else:
            # Never tried with so few or so many rows: expect what the nearest number of rows saw.
            known = [(abs(size - rows.bit_length()), size) for (size, early), other in self.arms.items()
                     if early == first and other.drafted and other.plain]  # fmt: skip
            loss = self.loss((1 << min(known)[1]) - 1, first) if known else 0.0
        if loss <= 0:
            return not arm.drafted or arm.steps % self.REFRESH != 0
        trial = loss if first else loss * self.TRIAL
        if trial <= self.credit:
            self.credit -= trial
            return True
        return False

    def loss(self, rows: int, first: bool) -> float:
        """Mean seconds that a drafting cycle costs beyond plain steps for the same tokens; negative where it saves."""
        arm = self.arm(rows, first)
        if not arm.drafted:
            return 0.0
        step = self.arm(rows, False).plain_time() or arm.plain_time()
        start = arm.plain_time() or step
        won = statistics.fmean(tokens for _, tokens, _ in arm.drafted)
        return arm.drafted_time() - start - (won - 1) * step

    def record(self, rows: int, first: bool, seconds: float, tokens: float, nodes: int, drafting: bool) -> None:
        """One step is over: ``tokens`` a row were won with ``nodes`` drafted ones a row."""
        arm = self.arm(rows, first)
        if not drafting:
            arm.plain.append(seconds)
            self.credit = min(self.credit + self.ALLOWANCE * seconds, 20 * arm.plain_time())
        elif nodes or not first:
            arm.drafted.append((seconds, tokens, nodes))
            self.lost += seconds - tokens * arm.plain_time()
            hopeless = nodes and seconds > (nodes + 1) * arm.plain_time()  # even had the draft been kept whole
            if arm.plain and (hopeless or self.lost > self.PATIENCE * arm.plain_time()):
                self.hold = 0

    def threshold(self, rows: int, draft_seconds: float = 0.0) -> float:
        """Least path probability at which one more drafted token is worth its cost (2.6 of the P-MTP reading).

        A token that is kept with probability p saves p / rate seconds and costs its draft and its slot.
        """
        arm = self.arm(rows, False)
        if not arm.drafted or not arm.plain:
            return 0.3
        seconds = arm.drafted_time()
        rate = statistics.fmean(tokens for _, tokens, _ in arm.drafted) / max(seconds, 1e-9)
        nodes = max(1.0, statistics.fmean(count for _, _, count in arm.drafted))
        slot = max(0.0, (seconds - arm.plain_time()) / nodes - draft_seconds)
        return min(0.95, max(0.02, (draft_seconds + slot) * rate))
