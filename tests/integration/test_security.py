"""What comes from elsewhere (archives, images, pickles, tables, names) harms nothing, and what is secret is neither
stored nor said."""

import ast
import json
import os
import pickle
import random
import re
import struct
import tracemalloc
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from benchmark_files import write_truth
from datafiles import encoded, load_omniglot, omniglot_files, write_zip
from pickled import Calls
from rows import evaluation, full
from webserver import Page, serve

from trainables.datasets import cache, data_roots, download, landmarks
from trainables.datasets.ground_truth import load_ground_truth
from trainables.datasets.source import Source, decode_image
from trainables.datasets.structure import UndecodableImage
from trainables.training import checkpoint
from trainables.training.outcome import Evaluation, Outcome
from tune_cd import results
from tune_cd.results import rows as result_rows
from tune_cd.results.__main__ import main as results_command
from tune_cd.run import __main__ as run
from tune_cd.run.announcement import announce
from tune_cd.run.lock import StudyLock
from tune_cd.run.options import parse
from tune_cd.run.recorder import Recorder
from tune_cd.run.resources import Resources
from tune_cd.run.study import check_study, store_config, with_form
from tune_cd.run.summary import summarise

pytestmark = pytest.mark.usefixtures("own_cache")

ROOT = Path(__file__).parents[2]
MB = 2**20
SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


@contextmanager
def memory_below(limit: int):
    """What runs in it takes no more bytes of Python's memory at any moment."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak / MB:.0f} MB"


# --- no loader of code


CALLS = re.compile(  # that run, or write to a place of its own choice, what a file says
    r"eval|exec|compile|__import__|_?pickle\.(load|loads|Unpickler)|yaml\.load"
    r"|.+\.(extractall|extract|unpack_archive|read_pickle|unsafe_load|system|popen|literal_eval)"
)
MODULES = {"joblib", "dill", "cloudpickle", "shelve", "marshal"}


def loaders(path: Path) -> list[str]:
    """Calls and imports in a source file that load code."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in MODULES]
        if isinstance(node, ast.Call):
            name, options = ast.unparse(node.func), {option.arg: ast.unparse(option.value) for option in node.keywords}
            safe = name != "torch.load" or options.get("weights_only") == "True"
            safe = safe and {options.get("allow_pickle", "False"), options.get("shell", "False")} == {"False"}
            found += [] if safe and not CALLS.fullmatch(name) else [f"{node.lineno}: {name}"]
    return found


def test_no_file_of_the_packages_loads_code():
    sources = [path for package in ("tune_cd", "trainables") for path in (ROOT / package).rglob("*.py")]
    assert len(sources) > 60
    assert {str(path): found for path in sources if (found := loaders(path))} == {}


LINES = [
    "torch.load(f)", "torch.load(f, weights_only=False)", "np.load(f, allow_pickle=True)", "pickle.loads(b)",
    "pickle.Unpickler(f).load()", "pd.read_pickle(f)", "yaml.load(f)", "eval(text)", "archive.extractall(folder)",
    "subprocess.run(c, shell=True)", "import joblib",
]  # fmt: skip


def test_the_search_for_loaders_of_code_finds_them(tmp_path):
    (tmp_path / "a.py").write_text("\n".join(LINES))
    found = sorted(int(one.split(":")[0]) for one in loaders(tmp_path / "a.py"))
    assert found == list(range(1, len(LINES) + 1))


# --- zip archives


MEMBER = "images_background/Greek/character01/0001_01.png"


def read_member(path: Path) -> bytes:
    with Source((path,), re.compile(r"\.png$")).reader() as read:
        return read(MEMBER)


def write_member(path: Path, data: bytes, compression: int, claimed: int | None = None) -> Path:
    """A zip with one image, whose size is said to be `claimed`."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(MEMBER, data)
        info = archive.infolist()[0]
        if claimed is not None:
            info.file_size, info.CRC = claimed, zlib.crc32(data[:claimed])
    return path


def test_a_zip_member_inflates_to_no_more_than_it_claims(tmp_path):
    path = write_member(tmp_path / "bomb.zip", bytes(100 * MB), zipfile.ZIP_DEFLATED, claimed=1000)
    assert path.stat().st_size < MB
    with memory_below(5 * MB):
        assert read_member(path) == bytes(1000)

    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):  # which cannot be bounded
        path = write_member(tmp_path / "bomb.zip", bytes(20 * MB), compression, claimed=1000)
        with memory_below(5 * MB), pytest.raises(UndecodableImage, match="0001_01.png: .*deflate"):
            read_member(path)


def test_members_are_read_whole(tmp_path):
    for size, compression in product((0, 1, 5000, 3 * MB), (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)):
        data = random.Random(size).randbytes(size)
        assert read_member(write_member(tmp_path / "a.zip", data, compression)) == data


def test_a_link_in_a_zip_leads_nowhere(tmp_path):
    path = tmp_path / "link.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo(MEMBER)
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(tmp_path / "photo.png"))
    (tmp_path / "photo.png").write_bytes(b"private")
    assert read_member(path) == str(tmp_path / "photo.png").encode()


def test_only_regular_files_of_a_folder_are_read(tmp_path):
    """A pipe would be waited for without end, a device read without end."""
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    (tmp_path / "elsewhere.png").symlink_to(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes(b"a")
    names = {Path(name).name for name in Source((tmp_path,), re.compile(r"\.png$")).members}
    assert names == {"a.png", "elsewhere.png"}


# --- images


def png_of(width: int, height: int) -> bytes:
    """A PNG of 57 bytes that claims so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IEND", b"")


def jpeg_of(width: int, height: int) -> bytes:
    small = encoded(np.zeros((8, 8, 3), dtype=np.uint8), "JPEG")
    at = small.index(b"\xff\xc0") + 5
    return small[:at] + struct.pack(">HH", height, width) + small[at + 4 :]


@pytest.mark.filterwarnings("ignore:Image size")
def test_an_image_bomb_is_not_decoded():
    for side in (8_001, 10_000, 60_000):
        for data in (png_of(side, side), jpeg_of(side, side)):
            with pytest.raises(UndecodableImage, match="pixels"):
                decode_image(data, "RGB", 28)


# --- pickles and arrays


def damage(path: Path, load, times: int, likely: bytes = b"") -> None:
    """Change one to four bytes of a file, again and again, now and then to a likely one: the file is read, or refused
    by name."""
    pick, good = random.Random(0), path.read_bytes()
    for _ in range(times):
        bad = bytearray(good)
        for _ in range(pick.randint(1, 4)):
            bad[pick.randrange(len(bad))] = pick.choice([pick.randrange(256), *likely])
        path.write_bytes(bad)
        try:
            load(path)
        except ValueError as error:
            assert path.name in str(error)


def test_whatever_the_bytes_a_ground_truth_is_read_or_refused(tmp_path):
    """Of the call in it nothing is run, whatever byte is changed."""
    damage(write_truth(tmp_path / "gnd.pkl"), load_ground_truth, 600, b"cRbio0.")


class Anything:
    """A training that takes every state."""

    def load_state(self, state) -> None:
        self.state = state


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_whatever_the_bytes_a_checkpoint_is_read_or_refused_by_name(tmp_path, form):
    state, path = {"model": {"a": torch.zeros(3)}, "curve": [1, 2.0, "x"]}, tmp_path / "training.pt"
    torch.save(state, path, _use_new_zipfile_serialization=form == "zip")
    damage(path, partial(checkpoint.load, Anything()), 300)


@pytest.mark.parametrize("content", ["objects", "pickle"])
def test_a_pickle_in_the_cache_is_made_again_and_not_run(tmp_path, content, caplog):
    archive = write_zip(tmp_path / "omniglot.zip", omniglot_files())
    expected = load_omniglot(archive).train.images.copy()
    (labels,) = cache.cache_root().rglob("train_labels.npy")
    harm = Calls(os.mkdir, str(tmp_path / "harmed"))
    if content == "objects":
        np.save(labels, np.array([harm], dtype=object), allow_pickle=True)
    else:
        labels.write_bytes(pickle.dumps(harm))
    assert np.array_equal(load_omniglot(archive).train.images, expected)
    assert "is damaged" in caplog.text and not (tmp_path / "harmed").exists()


# --- downloads


def test_a_redirect_leads_to_no_file_of_this_machine(tmp_path, monkeypatch):
    (tmp_path / "private").write_text("private")
    monkeypatch.setattr(download, "BACKOFF", 0)
    with serve() as server:
        server.pages["/file"] = Page(to=(tmp_path / "private").as_uri())
        with pytest.raises(ConnectionError):
            download.fetch(f"{server.url}/file", tmp_path / "got", lambda path: None)
    assert not (tmp_path / "got").exists()


def test_a_signed_address_that_a_link_leads_to_is_not_written_down(tmp_path):
    signed = f"/unavailable.png?X-Amz-Signature={SECRET}"
    with serve() as server:
        server.pages |= {"/photo.jpg": Page(to=signed), signed: Page(b"no photo")}
        for name in ("annotation_clean_train.txt", "annotation_clean_val.txt"):
            (tmp_path / name).write_text(f"{server.url}/photo.jpg 0 1 9 2.5 8\n")
        landmarks.download(tmp_path)
    assert landmarks.read_dead(tmp_path) == {f"{server.url}/photo.jpg": f"redirected to {server.url}/unavailable.png"}
    assert SECRET not in texts_below(tmp_path)


# --- secrets


URIS = [
    f"s3://AKIAEXAMPLE:{SECRET}@bucket/data", f"https://user:{SECRET}@host/data.zip",
    f"https://host/w.pt?X-Amz-Signature={SECRET}", f"gs://{SECRET}@b/x",
]  # fmt: skip


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_where_a_path_belongs_is_refused_and_not_repeated(tmp_path, uri, capsys, monkeypatch):
    """It may hold a secret, which would stand in study.json and in messages. Of data, a URI without one is allowed."""

    def connect(address, verbose, give_up):
        raise ConnectionError("the study was not refused")

    monkeypatch.setattr("tune_cd.run.connection.connect", connect)
    for option, dataset in (("--data-root", "glyphs"), ("--data-root", "omniglot"), ("--weights", "glyphs")):
        assert run.main([option, uri, "--dataset", dataset, "--results", str(tmp_path / "results")]) == 2
    for name in ("TUNE_CD_DATA", "TUNE_CD_CACHE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, uri)
            with pytest.raises(ValueError, match=f"{name} .*URI") as refused:
                data_roots() if name == "TUNE_CD_DATA" else cache.cache_root()
            assert SECRET not in str(refused.value)
    said = "".join(capsys.readouterr())
    assert SECRET not in said and said.count("URI") == 3, said


def test_a_folder_with_a_colon_in_its_name_is_a_folder(tmp_path, monkeypatch):
    folder = tmp_path / "s3:" / "bucket"
    folder.mkdir(parents=True)
    assert data_roots(folder) == [folder] and data_roots(tmp_path / "12:30" / "x") == [tmp_path / "12:30" / "x"]


def texts_below(folder: Path) -> str:
    """All that the files of a folder say, the tables' cells and metadata included."""
    said = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        said.append(path.read_bytes().decode("latin1"))
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            fields = [field.metadata for field in table.schema]
            said += map(str, (table.to_pylist(), table.schema.metadata, fields))
    return "\n".join([*said, *map(str, folder.rglob("*"))])


def test_what_the_environment_keeps_secret_is_in_no_file_and_no_line(tmp_path, monkeypatch, capsys):
    """A study up to its first trial, that trial's row and curve, and every command that shows or changes them."""
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "WANDB_API_KEY", "HF_TOKEN", "DATABASE_URL"):
        monkeypatch.setenv(name, SECRET)
    result_rows.software.cache_clear()
    folder, resources = tmp_path / "results", Resources(cpus=1, gpus=0.0, workers=1)
    study = with_form(check_study(parse(["--results", str(folder), "--study", "mine"])), "small")
    store_config(study)
    announce(study, resources)
    curve = [Evaluation(640, 1.0, 0.5, {"train_positive_term": 1.0})]
    outcome = Outcome("completed", 0.5, 0.4, {"val_r_map": 0.5}, 640, 640, 1.0, curve)
    origin = {"search": "cd", "trial_index": 0, "trial_id": "cd-00000", "attempt": 0}
    config = {"Lambda_p": 0.1, "Lambda_e": 0.1, "batch_size": 64, "seed": 0, "origin": origin}
    recorder = Recorder(study, study.setup, resources)
    recorder.save(config, 320, b"state")
    lock = StudyLock(study.store, study.name)
    lock.acquire()
    stored = texts_below(folder)
    lock.release()
    assert "driver.json" in stored and "checkpoints" in stored
    assert recorder.record(config, outcome, {"started_at": None, "device": "cpu", "share": 1.0}) is None
    print(summarise(study))
    for command in (["list"], ["show", "mine"], ["show", "mine", "cd-00000"], ["compact"]):
        assert results_command([command[0], str(folder), *command[1:]]) == 0
    said, stored = "".join(capsys.readouterr()), stored + texts_below(folder)
    assert "best balance found" in said and "cd-00000" in said and "cd-00000" in stored and "images_seen" in stored
    assert json.loads((folder / "studies" / "mine" / "study.json").read_text())["options"]["dataset"] == "glyphs"
    assert SECRET not in said and SECRET not in stored


# --- names


@pytest.mark.parametrize("name", ["../outside", "..", "a/b", "/etc", "a\\..\\b", "a\0b", "../../outside", "~"])
def test_no_name_leads_out_of_the_results(tmp_path, name):
    (tmp_path / "results").mkdir()
    results.write_trial(tmp_path, full(study="outside"))
    (tmp_path / "trials").rename(tmp_path / "results" / "outside")
    before = texts_below(tmp_path)
    folder = tmp_path / "results"

    def study_of(folder, *more):
        check_study(parse(["--results", str(folder), "--study", name, *more]))

    uses = (
        (results.read, name), (results.read_curves, name), (results.compact, name),
        (results.write_trial, full(study=name)), (results.write_trial, full(trial_id=name)),
        (results.write_curve, name, "t0", [evaluation()]),
        (results.write_curve, "outside", name, [evaluation()]),
        (study_of,), (study_of, "--resume"),
    )  # fmt: skip
    for use, *arguments in uses:
        with pytest.raises(ValueError, match="is not allowed"):
            use(folder, *arguments)
    assert texts_below(tmp_path) == before
