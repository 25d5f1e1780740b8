"""Embed a folder of images with a trained network, as a Parquet table.

python -m trainables.embed results/studies/mine/networks/cd~0.93720~cd-00014.pt MY/PHOTOS -o vectors.parquet
"""

import argparse
import itertools
import os
import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the imports without a traceback

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tqdm import tqdm

from trainables import trained
from trainables.console import chosen_device, run
from trainables.datasets.cache import check_damage
from trainables.datasets.folder import IMAGES, images_of
from trainables.datasets.source import Source
from trainables.datasets.structure import UndecodableImage, decoded
from trainables.datasets.uri import local_path
from trainables.training.cuda_graphs import open_queues

SCHEMA = pa.schema([("path", pa.string()), ("embedding", pa.list_(pa.float32()))])
BATCH = 64


def main(argv: list[str] | None = None) -> int:
    """Write the table; returns the exit status."""
    open_queues()
    try:
        options = _parser().parse_args(argv)
        device = chosen_device(options.device)
        network = trained.load(options.network, options.own_network).to(device)
        if local_path(options.output, "-o").resolve() == Path(options.network).resolve():
            raise ValueError(f"-o {options.output}: is NETWORK; another file is needed")
        damaged, images = embed(network, options.folder, options.output, options.features)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for name, reason in damaged.items():
        print(f"warning: {name} is left out: {reason}", file=sys.stderr)
    print(f"{images:,} images of {options.folder} in {options.output}")
    return 0


def embed(
    network: trained.TrainedNetwork, place: str | Path, output: str | Path, features: bool = False
) -> tuple[dict[str, str], int]:  # fmt: skip
    """Write the embeddings of all images below a folder, or in a zip archive, to a Parquet file.

    Its columns are path (string, relative to the folder; in the order of the names) and embedding (list<float32>).
    features: those before the projection head instead. Returns ({damaged image that is left out: reason}, number of
    embedded images). Raises ValueError for a network of one channel, a place without images, and if more than one in a
    hundred images are damaged; OSError if a file cannot be read or written. Then no file is written.
    """
    network.check_photos()
    root = local_path(place, "the folder")
    if not root.exists():
        raise ValueError(f"{root}: there is no such folder or zip archive")
    source = Source((root,), IMAGES)
    names = images_of(source)
    damaged: dict[str, str] = {}
    file = local_path(output, "-o")
    if file.exists() and (not file.is_file() or file.resolve() == root.resolve()):
        raise ValueError(f"-o {output}: is a folder, a device or FOLDER; a file is needed, such as vectors.parquet")
    file = file.resolve()  # a link stays one
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")  # takes its place once it is whole
    try:
        with pq.ParquetWriter(partial, SCHEMA) as writer:
            for paths, vectors in _embedded(network, source, names, features, damaged):
                shown = [path if root.is_file() else path.removeprefix(f"{root.name}/") for path in paths]
                # a name that is no UTF-8 keeps its bytes, as escapes
                shown = [path.encode("utf-8", "backslashreplace").decode() for path in shown]
                writer.write_table(pa.table({"path": shown, "embedding": list(vectors)}, SCHEMA))
        os.replace(partial, file)
    finally:
        partial.unlink(missing_ok=True)
    return damaged, len(names) - len(damaged)


def _embedded(
    network: trained.TrainedNetwork, source: Source, names: list[str], features: bool, damaged: dict[str, str]
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Yield (names, float32 [n, d]) of each batch; images that do not decode are added to `damaged`."""
    device, function = next(network.parameters()).device, network.features if features else network
    with source.photographs(network.setup.image_size) as render, torch.inference_mode():
        images = zip(names, tqdm(decoded(render, names), total=len(names), unit=" images", disable=None))
        while batch := dict(itertools.islice(images, BATCH)):
            damaged |= {name: str(image) for name, image in batch.items() if isinstance(image, UndecodableImage)}
            check_damage(damaged, len(names), source.location)
            if whole := [name for name in batch if name not in damaged]:
                pixels = torch.from_numpy(np.stack([batch[name] for name in whole])).to(device)
                yield whole, function(pixels).float().cpu().numpy()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainables.embed",
        description="Embed a folder of images with a trained network. Writes a Parquet table with the columns path and "
        "embedding. Images that do not decode are named and left out, up to one in a hundred.",
    )
    parser.add_argument("network", metavar="NETWORK", help="file in RESULTS/studies/STUDY/networks, or of --save")
    parser.add_argument("folder", metavar="FOLDER", help="folder with images at any depth, or a zip archive")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="Parquet file to write, vectors.parquet")
    parser.add_argument("--features", action="store_true", help="features before the projection head of ssl")
    parser.add_argument("--device", help="default: cuda where there is a GPU, else cpu")
    parser.add_argument(
        "--own-network", metavar="MODULE:FUNCTION", help="needed if the network is your own; is imported"
    )
    return parser


if __name__ == "__main__":
    sys.exit(run(main))
