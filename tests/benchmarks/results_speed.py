"""What rows cost: python tests/benchmarks/results_speed.py [--files 1000 10000]

Printed for so many files of one row in a folder: CPU and wall-clock time of one `write_trial` (medians of 50), of
`results.read`, and of `results.read` once they are compacted. Then the requests to an S3 server (moto's) for one row:
by `write_trial`, by the callback with its learning curve, and for reading 20 rows.
"""

import argparse
import os
import tempfile
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread

from pyarrow import fs
from rows import evaluation, full
from s3 import Faulty

from tune_cd import results
from tune_cd.tune.callback.writer import Entry, RowWriter


def timed(call) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def in_a_folder(files: int, folder: Path) -> None:
    paths = (results.write_trial(folder, full(trial_id=f"t{n:05d}", trial_index=n)) for n in range(files + 50))
    write = [
        median(times) for times in zip(*[timed(lambda: next(paths)) for _ in range(files + 50)][files:], strict=True)
    ]
    times = [write, timed(lambda: results.read(folder)), timed(lambda: results.compact(folder))]
    times.append(timed(lambda: results.read(folder)))
    for what, (cpu, wall) in zip(("write one", "read all", "compact", "read compacted"), times, strict=True):
        print(f"{files:>6} files, {what:<15} {1000 * cpu:9.1f} ms CPU {1000 * wall:9.1f} ms", flush=True)


def in_a_bucket() -> None:
    from moto.server import ThreadedMotoServer

    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "key", "AWS_EC2_METADATA_DISABLED": "true"}
    moto, asked = ThreadedMotoServer("127.0.0.1", 0, verbose=False), []
    moto.start()
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    proxy.behind, proxy.fault, proxy.after = moto.get_host_and_port()[1], lambda how, _: asked.append(how), lambda *_: 0
    Thread(target=proxy.serve_forever, daemon=True).start()
    at = {"endpoint_override": f"http://127.0.0.1:{proxy.server_port}", "region": "us-east-1"}
    fs.S3FileSystem(**at, allow_bucket_creation=True).create_dir("bucket")
    place = "s3://bucket/some/where?" + "&".join(f"{name}={value}" for name, value in at.items())
    callback = RowWriter(place)
    for n in range(20):
        asked.clear()
        (results.write_trial(place, full(trial_id=f"t{n}", trial_index=n)) if n < 10 else
         callback(Entry(full(trial_id=f"t{n}", trial_index=n), full()["started_at"], curve=[evaluation()])))  # fmt: skip
        if n in (0, 9, 10, 19):
            print(f"row {n}, {'write_trial' if n < 10 else 'callback, with curve'}: {' '.join(asked)}", flush=True)
    asked.clear()
    results.read(place)
    print("read 20 rows:", ", ".join(f"{asked.count(how)} {how}" for how in sorted(set(asked))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=[1000, 10000], help="default: %(default)s")
    for files in parser.parse_args().files:
        with tempfile.TemporaryDirectory() as folder:
            in_a_folder(files, Path(folder))
    in_a_bucket()
