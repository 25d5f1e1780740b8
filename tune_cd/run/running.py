"""What a study trains at the moment, as a file beside its tables: a study that is cut off goes on with it.

The table has a row of every training that has ended or paused. Of those that run, it knows nothing.
"""

import json
import logging
import threading
from collections.abc import Sequence
from typing import Any

from tune_cd.results.study_files import json_of, text_of
from tune_cd.run.study import Study

RUNNING = "running.json"

log = logging.getLogger(__name__)


def running_of(study: Study) -> list[dict[str, Any]]:
    """What the study trained when it was cut off, as `Portfolio.unrecorded`; [] if nothing is known."""
    text = text_of(study.store, study.name, RUNNING)
    try:
        return [] if text is None else list(json_of(text))
    except (ValueError, TypeError) as error:
        log.warning("%s cannot be read (%s); what ran is asked for anew", study.store.where(study.file(RUNNING)), error)
        return []


class RunningFile:
    """Writes the file from a thread, so that nobody waits for the store. While that does not answer, the next call
    tries again."""

    def __init__(self, study: Study):
        self._study, self._changed, self._latest = study, threading.Event(), "[]"
        threading.Thread(target=self._work, name="running", daemon=True).start()

    def __call__(self, running: Sequence[dict[str, Any]]) -> None:
        """Note what runs now."""
        text = json.dumps(list(running))
        if text != self._latest:
            self._latest = text
            self._changed.set()

    def _work(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            try:
                self._study.store.write(self._study.file(RUNNING), self._latest.encode())
            except OSError as error:
                log.info("what runs is not noted: %s", error)
