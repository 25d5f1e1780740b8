"""That this machine will be taken away soon, told by whoever watches for it to the trainings that run on it.

A file that names this start of the machine, so that one left over from an earlier start says nothing.
"""

import tempfile
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


def notice_file() -> Path:
    """Where the notice lies when there is one; every user of the machine can read it."""
    boot = BOOT.read_text().strip() if BOOT.exists() else "unknown"
    return Path(tempfile.gettempdir(), f"tune_cd-notice-{boot}")


def noticed() -> bool:
    """Whether this machine will be taken away: what is to be saved must be saved now."""
    return notice_file().exists()
