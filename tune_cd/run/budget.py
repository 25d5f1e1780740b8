"""`--budget`: a limit in time or GPU-hours, as full trainings' worth that a run may still ask for."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from statistics import median

UNITS = {"s": 1, "min": 60, "h": 3600, "gpu-hours": 3600}
MOST = 3.6e12  # seconds
RECENT = 15  # latest processes, from which a training's time is estimated: nodes come and go


def parse_budget(text: str) -> tuple[float, bool]:
    """(seconds, whether of all GPUs together) of `2h`, `90min`, `20gpu-hours`. Raises ValueError naming the forms."""
    match = re.fullmatch(rf"\s*(\d+\.?\d*)\s*({'|'.join(UNITS)})\s*", text)
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not 0 < seconds <= MOST:
        said = "a number above 0 and s, min, h or gpu-hours, such as 90min, 2h or 20gpu-hours"
        raise ValueError(f"--budget {text!r}: {said}")
    return seconds, "gpu" in text


@dataclass
class Meter:
    """Measures the time that a run's processes take, and what is left of its --budget, None for no limit, from now on.

    processes: at a time. gpus: of each process. Raises ValueError for a budget of GPU-hours if processes have no GPU.
    """

    budget: str | None
    processes: int
    gpus: float
    clock: Callable[[], float] = time.monotonic
    _running: dict[str, tuple[float, float]] = field(default_factory=dict)  # its start or inf, full trainings' worth
    _ended: list[tuple[float, float]] = field(default_factory=list)  # seconds that it took, the same

    def __post_init__(self):
        self._seconds, self._of_gpus = parse_budget(self.budget) if self.budget else (inf, False)
        if self._of_gpus and not self.gpus:
            raise ValueError(f"--budget {self.budget!r}: trials have no GPU here; give a time, such as 2h")
        self._started = self.clock()

    def begin(self, trial: str, worth: float) -> None:
        """Report that a process is asked for. worth: full trainings' worth, in turn or together."""
        self._running[trial] = inf, worth

    def start(self, trial: str) -> None:
        """Report that a process has its place: before, as while a node starts, it takes no time of one."""
        if trial in self._running:
            self._running[trial] = min(self._running[trial][0], self.clock()), self._running[trial][1]

    def end(self, trial: str) -> None:
        """Report that a process has ended."""
        if (run := self._running.pop(trial, (inf, 0.0)))[0] < inf:
            self._ended.append((self.clock() - run[0], run[1]))

    @property
    def left(self) -> float:
        """Full trainings' worth that may still be asked for; inf before the first process has ended."""
        if self.budget is None or not self._ended:
            return inf
        rate, now = median(seconds / worth for seconds, worth in self._ended[-RECENT:]), self.clock()
        running = [(max(0.0, now - began), worth) for began, worth in self._running.values()]
        under_way = sum(max(0.0, worth * rate - taken) for taken, worth in running)
        seconds = (self._started + self._seconds - now) * self.processes
        if self._of_gpus:
            seconds = self._seconds / self.gpus - sum(taken for taken, _ in running + self._ended)
        return max(0.0, (seconds - under_way) / rate)
