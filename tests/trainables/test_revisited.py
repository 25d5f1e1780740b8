"""Revisited Oxford and Paris in small: ground truth as a pickle, images and cache, archives, a network's scores."""

import io
import os
import pickle
import tarfile

import numpy as np
import pytest
import torch
from benchmark_files import COLOURS, NAMES, SIZES, ground_truth, image_files, root, write_truth  # noqa: F401
from pickled import Calls
from PIL import Image
from torch.nn import functional as F
from webserver import Page, serve

import trainables.datasets.revisited as revisited
from trainables.data.augmentation import normalise
from trainables.datasets.ground_truth import load_ground_truth
from trainables.datasets.revisited import check_benchmark, extract, load_benchmark
from trainables.metrics.retrieval import revisited_map
from trainables.metrics.revisited import descriptors, evaluate_benchmark

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("core", [b"numpy._core.", b"numpy.core."])
def test_ground_truth_of_every_protocol_and_numpy(tmp_path, protocol, core):
    path = write_truth(tmp_path / "gnd.pkl", protocol=protocol)
    if protocol < 4:  # later ones write the length before the name
        path.write_bytes(path.read_bytes().replace(b"numpy._core.", core))
    truth = load_ground_truth(path)
    assert truth.database == tuple(NAMES) and truth.queries == ("query_0", "query_1", "query_2")
    assert truth.boxes.tolist() == [[0.2, 0.0, 31.7, 32.0]] * 3
    lists = [{name: positions.tolist() for name, positions in each.items()} for each in truth.relevant]
    assert lists == [{"easy": [f, f + 1], "hard": [f + 2], "junk": [f + 3]} for f in (0, 4, 8)]
    assert {positions.dtype for each in truth.relevant for positions in each.values()} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    "extra",
    [Calls(os.system, "touch ran"), Calls(eval, "open('ran', 'w')"), Calls(np.load, "ran"), slice(1), {1, 2},
     np.array([Calls(os.system, "touch ran")], dtype=object)],
)  # fmt: skip
def test_a_pickle_that_runs_something_is_refused_and_runs_nothing(tmp_path, monkeypatch, extra):
    monkeypatch.chdir(tmp_path)
    path = write_truth(tmp_path / "gnd.pkl", ground_truth() | {"extra": extra}, protocol=3)
    asked = r"gnd.pkl is no ground truth: .*it asks for (posix|builtins|numpy|an array of 'O)"
    with pytest.raises(ValueError, match=asked):
        load_ground_truth(path)
    assert [file.name for file in tmp_path.iterdir()] == ["gnd.pkl"]


def changed(query=None, **entries):
    content = ground_truth()
    (content if query is None else content["gnd"][query]).update(entries)
    return content


@pytest.mark.parametrize(("content", "message"), [
    ([1], ""), ({"imlist": NAMES}, "qimlist"), (changed(imlist=[*NAMES[:-1], "../../etc/passwd"]), "etc/passwd"),
    (changed(qimlist=["query_0"]), "every query needs a box"), (changed(1, bbx=[1, 2, 3]), ""),
    (changed(1, bbx=[5, 0, 5, 9]), "every query needs a box"),
    (changed(1, bbx=[0, 0, float("nan"), 9]), "every query needs a box"),
    (changed(2, easy=[12]), "query_2: easy has a position that is not an integer of 0 to 11"),
    (changed(2, junk=[-1]), "query_2: junk has a pos"), (changed(2, hard=[0.5]), "query_2: hard has a position"),
    (changed(2, hard=[float("nan")]), "query_2: hard has a position"), (changed(2, hard=["10"]), ""),
    (changed(2, hard=[8]), "query_2: an image is twice"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value")
def test_wrong_ground_truth_is_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=f"gnd.pkl is no ground truth: .*{message}"):
        load_ground_truth(write_truth(tmp_path / "gnd.pkl", content))


def test_the_benchmark_in_the_original_layout(root):
    benchmark = load_benchmark("roxford5k", root)
    assert (benchmark.name, len(benchmark.database), len(benchmark.queries)) == ("roxford5k-12", 12, 3)
    for index, name in enumerate(NAMES):
        with Image.open(root / "roxford5k" / "jpg" / f"{name}.jpg") as image:
            assert np.array_equal(benchmark.database[index], np.asarray(image).transpose(2, 0, 1))
    assert benchmark.database[-1].dtype == np.uint8 and not benchmark.database[0].flags.writeable
    for place in (root, root / "roxford5k"):  # the benchmark's own folder will do
        assert check_benchmark("roxford5k", place) == benchmark.name


def test_queries_are_cropped_before_images_shrink_and_none_is_enlarged(root):
    whole, small, big = (load_benchmark("roxford5k", root, image_size=size) for size in (1024, 24, 2000))
    assert [query.shape for query in whole.queries] == [(3, 32, 32)] * 3  # of 96 x 32
    assert [query.shape for query in small.queries] == [(3, 24, 24)] * 3  # 8 x 24 if resized first
    for query, colour in zip(small.queries, COLOURS, strict=True):
        assert np.abs(query[:, :, :20].mean((1, 2)) - colour).max() < 12
    assert [image.shape[1:] for image in small.database][:3] == [(18, 24), (24, 16), (24, 24)]  # the aspect is kept
    assert [image.shape[1:] for image in big.database][:3] == [(30, 40), (44, 30), (36, 36)]


def test_images_are_decoded_once_and_again_where_anything_changed(root, tmp_path, monkeypatch):
    decoded, opened = [], revisited.opened_image
    monkeypatch.setattr(revisited, "opened_image", lambda file, kinds: decoded.append(file) or opened(file, kinds))
    for _ in range(2):
        load_benchmark("roxford5k", root)
    assert len(decoded) == 15
    first = [image.copy() for image in load_benchmark("roxford5k", root).database]
    (pixels,) = (tmp_path / "cache").rglob("pixels.bin")
    pixels.write_bytes(b"short")
    again = load_benchmark("roxford5k", root).database
    assert len(decoded) == 2 * 15 and all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    os.utime(root / "roxford5k" / "jpg" / f"{NAMES[0]}.jpg", ns=(1, 1))
    load_benchmark("roxford5k", root)
    assert len(decoded) == 3 * 15
    load_benchmark("roxford5k", root, image_size=20)
    assert len(decoded) == 4 * 15
    write_truth(root / "roxford5k" / "gnd_roxford5k.pkl", changed(0, bbx=[0, 0, 16, 32]))
    assert load_benchmark("roxford5k", root).queries[0].shape == (3, 32, 16)


@pytest.mark.parametrize("name", [NAMES[5], "query_1"])
def test_an_image_that_does_not_decode_or_is_missing_is_an_error(root, tmp_path, name):
    file = root / "roxford5k" / "jpg" / f"{name}.jpg"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ValueError, match=f"{name}.jpg.*every image is needed"):
        load_benchmark("roxford5k", root)
    assert not list((tmp_path / "cache").rglob("*.bin"))
    file.unlink()
    for function in (load_benchmark, check_benchmark):
        with pytest.raises(ValueError, match=f"1 of 15 images are missing: {name}.jpg"):
            function("roxford5k", root)


def test_absent_data_are_named(root):
    with pytest.raises(FileNotFoundError, match=r"no rparis6k data found(.|\n)*gnd_rparis6k.pkl(.|\n)*paris_2-v1.tgz"):
        load_benchmark("rparis6k", root)


def write_tar(path, files, links=()):
    """files: {name: bytes}.  links: (name, target, kind)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target, kind in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
    return path


@pytest.mark.parametrize("files, links, lost", [
    ({"b.jpg": b"B"}, [("a.jpg", "", tarfile.CHRTYPE)], "a"), ({"a.jpg": b"A"}, [], "b"),
    ({"b.jpg": b"B"}, [("a.jpg", "../outside", tarfile.SYMTYPE)], "a"),
    ({"../../a.jpg": b"A", "/b.jpg/x": b"B"}, [], "b"),
])  # fmt: skip
def test_nothing_but_files_is_taken_and_all_land_in_the_folder(tmp_path, files, links, lost):
    work = tmp_path / "deep" / "down"
    (work / "jpg").mkdir(parents=True)
    (work / "outside").write_bytes(b"private")
    with pytest.raises(ValueError, match=f"1 images are in no archive .*: {lost}.jpg"):
        extract([write_tar(work / "bad.tgz", files, links)], work / "jpg", {"a.jpg", "b.jpg"})
    taken = ({"a.jpg", "b.jpg"} & {name.rsplit("/")[-1] for name in files}) - {f"{lost}.jpg"}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.name not in taken) == [
        "bad.tgz", "deep", "down", "jpg", "outside"
    ]  # fmt: skip
    assert taken == {path.name for path in (work / "jpg").iterdir()}


def test_download_fetches_what_is_nowhere(root, tmp_path, monkeypatch):
    """From a server on this machine: what is asked for, what is left, and that the benchmark is then the same."""
    assert revisited.ORIGIN == "http://cmp.felk.cvut.cz/revisitop/data/datasets/{name}/gnd_{name}.pkl"
    published = ["https://www.robots.ox.ac.uk/~vgg/data/oxbuildings/oxbuild_images-v1.tgz"]
    assert revisited.ARCHIVES["roxford5k"] == published
    images, new = {f"oxford/{name}.jpg": data for name, data in image_files().items()}, tmp_path / "new"
    first = {"readme.txt": b"no", "extra.jpg": b"no"} | dict(list(images.items())[:9])
    others = {name: data for name, data in images.items() if name not in first}
    archive, rest = (write_tar(tmp_path / "o.tgz", part).read_bytes() for part in (first, others))

    def download(name):
        monkeypatch.setitem(revisited.ARCHIVES, "roxford5k", [f"{server.url}/{name}", f"{server.url}/rest.tgz"])
        return load_benchmark("roxford5k", new, download=True)

    with serve() as server:
        server.pages["/gnd_roxford5k.pkl"] = Page((root / "roxford5k" / "gnd_roxford5k.pkl").read_bytes())
        server.pages |= {"/whole.tgz": Page(archive), "/cut.tgz": Page(archive[:-200]), "/rest.tgz": Page(rest)}
        monkeypatch.setattr(revisited, "ORIGIN", server.url + "/gnd_{name}.pkl")
        with pytest.raises(ValueError, match="cut.tgz: .*; remove it and download it again"):
            download("cut.tgz")
        left = sorted(p.name for p in (new / "roxford5k").iterdir() if p.suffix != ".lock")
        assert left == ["cut.tgz", "gnd_roxford5k.pkl", "rest.tgz"]
        (new / "roxford5k" / "cut.tgz").unlink()
        benchmark = download("whole.tgz")
        asked = len(server.asked)
        check_benchmark("roxford5k", new, download=True)
        assert len(server.asked) == asked, "what is there is not fetched again"
    ours = load_benchmark("roxford5k", root)
    assert all(np.array_equal(a, b) for a, b in zip(benchmark.database, ours.database, strict=True))
    assert not list(new.rglob("*.tgz")) and len(list((new / "roxford5k" / "jpg").iterdir())) == 15


def network(images):
    """[1, 3, h, w] of any size -> unit rows [1, 8]."""
    assert images.dtype == torch.float32 and images.shape[0] == 1
    weights = torch.randn(8, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    return F.normalize(F.conv2d(images, weights, padding=2).relu().amax((2, 3)), dim=1)


def test_multi_scale_descriptors_are_the_mean_over_scales():
    noise, expected = np.random.default_rng(0), []
    images = [noise.integers(0, 256, (3, height, width), dtype=np.uint8) for width, height in SIZES]
    for image in map(torch.from_numpy, images):
        total = np.zeros(8)
        for scale in (1, 2**-0.5, 0.5):
            size = [round(side * scale) for side in image.shape[1:]]
            resized = F.interpolate(image[None].double() / 127.5 - 1, size, mode="bilinear", antialias=True)
            total += network(resized.float())[0].double().numpy()
        expected.append(total / np.linalg.norm(total))
    found = descriptors(network, images)
    torch.testing.assert_close(found.double(), torch.tensor(np.array(expected)), rtol=0, atol=1e-5)
    single = torch.cat([network(normalise(torch.from_numpy(image[None]))) for image in images])
    assert (found - single).abs().max() > 1e-3, "the scales do matter to this network"


def test_scores_are_those_of_the_descriptors(root):
    benchmark = load_benchmark("roxford5k", root)
    database, queries = (descriptors(network, images) for images in (benchmark.database, benchmark.queries))
    expected = revisited_map(queries.double() @ database.double().T, benchmark.relevant)
    found = evaluate_benchmark(network, benchmark)
    assert found == {f"roxford5k-12_{name}": value for name, value in expected.items()} and min(found.values()) > 0.1
    assert evaluate_benchmark(lambda images: network(images) * float("nan"), benchmark) == {}
