"""`main(argv)`: `tune_cd.run` whose trainings are scored on few images, write a diary and can be told to go wrong.

$DIARY: a file that gets a line "begin|end <trial_id> <images seen> <pid>" for every training that begins or has its
outcome. $FAULTS: JSON, {trial_index: kind}; see `FAULTS`. "reset": a process that is used again for it is lost. {"all":
"setup"}: no trial can be made. $DRAWN: the study's picture and report are made, which takes as long as a small study.
"""

import json
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import torch

from trainables import trial
from trainables.data.resident import DeviceData
from trainables.trial import TrainTrial

if "torch._dynamo" not in sys.modules:
    uncompiled = ModuleType("torch._dynamo", "torch.compile's side of optimisers: 2 s of imports in every process")
    uncompiled.disable, uncompiled.graph_break = lambda function, *arguments, **named: function, lambda: None
    sys.modules["torch._dynamo"] = torch._dynamo = uncompiled

trial.SLACK = 0
SCORED = 400
"""Images of the validation and of the test split: scoring all of them takes nine tenths of a training of eight
iterations."""


def write_diary(word: str, config: dict, images_seen: int) -> None:
    if "DIARY" not in os.environ:
        return
    origin = config["origin"]
    line = f"{word} {origin['search']}-{origin['trial_index']:05d} {images_seen} {os.getpid()}\n"
    descriptor = os.open(os.environ["DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())  # one write, so lines of several processes do not mix
    os.close(descriptor)


def fail(error: BaseException):
    raise error


def fill(training, value) -> None:
    with torch.no_grad():
        for parameter in training.model.parameters():
            parameter.fill_(value)


def meet(training) -> None:
    """Wait until another training has begun, which only one beside this one can."""
    while Path(os.environ["DIARY"]).read_text().count("begin ") < 2:
        time.sleep(0.02)


FAULTS = {
    "meet": meet,
    "exception": lambda training: fail(RuntimeError("too hot")),
    "exit": lambda training: sys.exit(1),
    "_exit": lambda training: os._exit(1),
    "hang": lambda training: time.sleep(3600),
    "memory": lambda training: fail(RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")),
    "disk": lambda training: fail(OSError(5, "Input/output error")),
    "NaN": lambda training: fill(training, math.nan),
    "inf": lambda training: fill(training, math.inf),
}
"""What may go wrong in a training before its second look."""


def fault_of(config: dict) -> str | None:
    return json.loads(os.environ.get("FAULTS", "{}")).get(str(config["origin"]["trial_index"]))


class FewScored(DeviceData):
    """A dataset whose splits for scores are their first classes."""

    @classmethod
    def load(cls, *arguments) -> DeviceData:
        data = DeviceData.load(*arguments)
        few = {name: tuple(part[:SCORED] for part in getattr(data, name)) for name in ("validation", "test")}
        assert all(len(labels.unique()) >= 10 for _, labels in few.values())
        return replace(data, **few)


trial.DeviceData = FewScored


class FaultyTrial(TrainTrial):
    def setup(self, config, **fixed):
        if json.loads(os.environ.get("FAULTS", "{}")).get("all") == "setup":
            fail(RuntimeError("this node has no data"))
        super().setup(config, **fixed)

    def reset_config(self, new_config):
        if "reset" in map(fault_of, new_config["pack"]):
            os._exit(1)
        return super().reset_config(new_config)

    def _resume(self, index, training):
        super()._resume(index, training)
        write_diary("begin", self._members[index].config, training.images_seen)

    def _advance(self):
        advance = self._pack.advance

        def faulty_advance(**given):
            for index, training in self._pack.running.items():
                kind = fault_of(self._members[index].config)
                if kind in FAULTS and training.iteration:
                    FAULTS[kind](training)
            return advance(**given)

        self._pack.advance = faulty_advance
        try:
            super()._advance()
        finally:
            del self._pack.advance

    def _conclude(self, index, outcome):
        super()._conclude(index, outcome)
        write_diary("end", self._members[index].config, outcome.images_seen)


def main(argv: list[str]) -> int:
    from tune_cd.report import writing
    from tune_cd.run import summary, trials
    from tune_cd.run.__main__ import main as run
    from tune_cd.run.connection import WORKERS

    if "DRAWN" not in os.environ:
        summary.draw = writing.write_report = lambda *_: "none"

    WORKERS["env_vars"] |= {name: os.environ[name] for name in ("DIARY", "FAULTS") if name in os.environ}
    trials.TrainTrial = FaultyTrial
    return run(argv)
