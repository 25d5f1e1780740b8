"""`python -m trainables.embed`: a folder's vectors are those of one image at a time, whatever the batch."""

import os
from functools import cache

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datafiles import photo, photos, write_folder, write_zip
from trainings import DATA, SETUP, SSL_DATA, SSL_SETUP, finished

from trainables import embed, trained


@cache
def saved(kind):
    setup, data = {"photos": (SSL_SETUP, SSL_DATA), "one channel": (SETUP, DATA)}[kind]
    return trained.dumps(finished(setup, data))


@pytest.fixture
def network(tmp_path):
    (tmp_path / "n.pt").write_bytes(saved("photos"))
    return tmp_path / "n.pt"


def embedded(network, folder, output, *options):
    status = embed.main([str(network), str(folder), "-o", str(output), *options])
    table = pq.read_table(output)
    assert status == 0 and table.schema.equals(embed.SCHEMA)
    return table["path"].to_pylist(), np.stack(table["embedding"].to_pylist())


def test_vectors_are_those_of_one_image_at_a_time(tmp_path, network, capsys):
    folder = photos(tmp_path)
    paths, vectors = embedded(network, folder, tmp_path / "v.parquet")
    assert paths == sorted(f"class {label}/{number}.jpg" for label in range(12) for number in range(10))
    assert f"120 images of {folder} in {tmp_path / 'v.parquet'}" in capsys.readouterr().out
    loaded = trained.load(network)
    with torch.inference_mode():
        alone = torch.cat([loaded(loaded.photo(folder / path)[None]) for path in paths]).numpy()
    assert np.abs(vectors - alone).max() < 1e-6
    assert np.abs(vectors[0] - vectors[-1]).max() > 1e-3
    features = embedded(network, folder, tmp_path / "features.parquet", "--features")[1]
    assert features.shape == (120, 512)


def test_an_archive_is_embedded_as_its_folder(tmp_path, network):
    files = {f"deep/{n}.jpg": photo(n, 0) for n in range(3)} | {"notes.txt": b"no image", "deep/3.heic": b""}
    folder, archive = write_folder(tmp_path / "folder", files), write_zip(tmp_path / "some.zip", files)
    with pytest.warns(UserWarning, match="1 .heic files are not read") as warned:
        one, other = (embedded(network, place, tmp_path / "v.parquet") for place in (folder, archive))
    assert len(warned) == 2
    assert one[0] == other[0] == [f"deep/{n}.jpg" for n in range(3)] and np.array_equal(one[1], other[1])


def test_a_damaged_image_is_named_and_left_out_up_to_one_in_a_hundred(tmp_path, network, capsys):
    folder, output = photos(tmp_path), tmp_path / "v.parquet"
    (folder / "class 3" / "4.jpg").write_bytes(b"no image")
    paths, vectors = embedded(network, folder, output)
    assert len(paths) == len(vectors) == 119 and "class 3/4.jpg" not in paths
    said = capsys.readouterr()
    assert "warning: mine/class 3/4.jpg is left out: " in said.err and "119 images" in said.out
    before = output.read_bytes()
    (folder / "class 3" / "55.jpg").symlink_to("absent")
    assert embed.main([str(network), str(folder), "-o", str(output)]) == 2
    said = capsys.readouterr().err
    assert "at most 1 % may: mine/class 3/4.jpg" in said and "mine/class 3/55.jpg" in said
    assert output.read_bytes() == before and not list(tmp_path.glob("*.partial"))


def test_what_cannot_be_embedded_is_refused_in_a_sentence(tmp_path, network, capsys):
    (tmp_path / "one.pt").write_bytes(saved("one channel"))
    (tmp_path / "empty").mkdir()
    folder, pipe, archive = photos(tmp_path), tmp_path / "pipe", write_zip(tmp_path / "a.zip", {"a.jpg": photo(0, 0)})
    os.mkfifo(pipe)
    kept = [file.read_bytes() for file in (network, archive)]
    for options, message in {
        (tmp_path / "one.pt", folder): "trained on blobs, images of 1 channel",
        (network, tmp_path / "empty"): "empty: no images found",
        (network, tmp_path / "absent"): "there is no such folder",
        (tmp_path / "absent.pt", folder): "No such file",
        (network, folder, "--device", "tpu"): "--device 'tpu'",
        (network, folder, "-o", tmp_path): f"-o {tmp_path}: is a folder, a device or FOLDER; a file is needed",
        (network, folder, "-o", pipe): f"-o {pipe}: is a folder, a device or FOLDER; a file is needed",
        (network, archive, "-o", archive): f"-o {archive}: is a folder, a device or FOLDER; a file is needed",
        (network, folder, "-o", network): f"-o {network}: is NETWORK; another file is needed",
        (network, folder, "-o", "s3://bucket/v.parquet"): "-o is a URI",
    }.items():
        assert embed.main(["-o", str(tmp_path / "v.parquet"), *map(str, options)]) == 2
        said = capsys.readouterr().err
        assert message in said and said.count("\n") == 1
    assert not (tmp_path / "v.parquet").exists() and pipe.is_fifo()
    assert kept == [file.read_bytes() for file in (network, archive)]


def test_a_linked_table_stays_linked(tmp_path, network):
    (tmp_path / "link").symlink_to("v.parquet")
    assert len(embedded(network, photos(tmp_path), tmp_path / "link")[0]) == 120
    assert (tmp_path / "link").is_symlink() and (tmp_path / "v.parquet").is_file()
