"""What the operating system says of this process."""

import os
import resource
import time
from pathlib import Path

_STATM = Path("/proc/self/statm")
_FILES = Path("/proc/self/fd")


def process_numbers() -> dict[str, float]:
    """Memory, processor time and open files, as far as this system tells."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    numbers: dict[str, float] = {"cpu_seconds": round(time.process_time(), 3)}
    try:
        pages = int(_STATM.read_text().split()[1])
        numbers["resident_bytes"] = pages * os.sysconf("SC_PAGE_SIZE")
        numbers["open_files"] = len(list(_FILES.iterdir()))
    except OSError:  # no Linux: the most it ever had, which other systems say in bytes
        numbers["resident_bytes"] = used.ru_maxrss
    return numbers
