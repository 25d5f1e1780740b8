"""What rows cost: python tests/benchmarks/results_speed.py [--files 1000 10000]

For so many files of one row in a folder: CPU and wall-clock time of a `write_trial` (medians of 50), of reading all, of
compacting, and of reading after it. Then the requests to an S3 server (moto's): for a process's first row, for a later
one, for rows with a learning curve by Tune's callback, and for reading 20 rows. tests/helpers is to be on PYTHONPATH.
"""

import argparse
import os
import tempfile
import time
from http.server import ThreadingHTTPServer
from statistics import median
from threading import Thread

from moto.server import ThreadedMotoServer
from pyarrow import fs
from rows import evaluation, full
from s3 import Faulty

from tune_cd import results
from tune_cd.tune.callback.writer import RowWriter


def timed(call) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--files", type=int, nargs="*", default=[1000, 10000], help="default: %(default)s")
for files in parser.parse_args().files:
    with tempfile.TemporaryDirectory() as folder:
        writes = [timed(lambda n=n: results.write_trial(folder, full(trial_id=f"t{n}"))) for n in range(files + 50)]
        took = {"write one": [median(times) for times in zip(*writes[files:], strict=True)]}
        for what, call in (("read", results.read), ("compact", results.compact), ("read compacted", results.read)):
            took[what] = timed(lambda call=call: call(folder))
        for what, (cpu, wall) in took.items():
            print(f"{files:>6} files, {what:<15} {1000 * cpu:9.1f} ms CPU {1000 * wall:9.1f} ms", flush=True)

os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "key", "AWS_EC2_METADATA_DISABLED": "true"}
moto, proxy, asked = ThreadedMotoServer("127.0.0.1", 0), ThreadingHTTPServer(("127.0.0.1", 0), Faulty), []
moto.start()
proxy.behind, proxy.fault, proxy.after = moto.get_host_and_port()[1], lambda how, _: asked.append(how), lambda *_: False
Thread(target=proxy.serve_forever, daemon=True).start()
endpoint = f"http://127.0.0.1:{proxy.server_port}"
fs.S3FileSystem(endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True).create_dir("bucket")
place = f"s3://bucket/some/where?endpoint_override={endpoint}&region=us-east-1"
rows = [full(trial_id=f"t{n}", trial_index=n) for n in range(20)]
callback = RowWriter(place, rows[0]["started_at"])
calls = {f"write_trial {n}": lambda n=n: results.write_trial(place, rows[n]) for n in range(18)} | {
    f"callback, curve {n}": lambda n=n: callback(rows[n], [evaluation()])
    for n in (18, 19)
}  # fmt: skip
for what, call in (calls | {"read 20 rows": lambda: results.read(place)}).items():
    asked.clear()
    call()
    print(f"{what:<20}", ", ".join(f"{asked.count(how)} {how}" for how in sorted(set(asked))))
