"""The notice that this machine will be taken away soon, left by the cloud's watcher for the trainings on it.

It is a file whose name holds the machine's boot id, so that the file of an earlier boot does not count.
"""

import tempfile
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


def notice_file() -> Path:
    """The path of the notice; every user of the machine can read it."""
    boot = BOOT.read_text().strip() if BOOT.exists() else "unknown"
    return Path(tempfile.gettempdir(), f"tune_cd-notice-{boot}")


def noticed() -> bool:
    """Whether this machine will be taken away, so that states must be saved now."""
    return notice_file().exists()
