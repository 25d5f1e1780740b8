"""The benchmark's trainers train what ours does, and its tables have the rows that were asked for. Nothing is timed."""

import json
import sys
import time
from dataclasses import replace

import gpu
import gpu_pieces
import pytest
import torch
import training as benchmark
from reference_trainer import ReferenceTrainer

from trainables.data.augmentation import normalise
from trainables.training.assembly import build_model, loss_terms
from trainables.training.setups import find_setup

CPU = torch.device("cpu")
H = {"Lambda_p": 0.3, "Lambda_e": 2.0, "batch_size": 8}


def small(name, classes=12, per_class=5, **changed):
    """A benchmark's case with few images, and another set-up."""
    case = benchmark.CASES[name]
    return replace(case, setup=replace(case.setup, **changed), classes=classes, per_class=per_class)


TWO_VIEWS = vars(replace(find_setup("tinyimagenet", "small"), network="resnet32", image_size=16))
CASES = {
    "small_conv": small("small_conv"), "resnet18": small("resnet18", image_size=32),
    "resnet32": small("resnet32", classes=4, per_class=12, **TWO_VIEWS),
}  # fmt: skip
COMMAND = ["--device", "cpu", "--batch-size", "8", "--iterations", "1", "--cases", "small_conv", "--workers", "0"]


def sgd(model, images, labels, h, setup):
    """One step as the paper has it, on a batch [b, c, h, w]."""
    positive, entropy = loss_terms(model(images), labels, setup)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(h["Lambda_p"] * positive + h["Lambda_e"] * entropy, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            parameter -= gradient


def differences(images, others):
    """Largest difference of a pixel, [n, m], of images [n, c, h, w] and others [m, c, h, w]."""
    return (images[:, None] - others).abs().flatten(2).amax(2)


@pytest.mark.parametrize("name, library", [
    ("small_conv", True), ("small_conv", False), ("resnet32", True),
    pytest.param("resnet18", True, marks=pytest.mark.slow),
])  # fmt: skip
def test_the_reference_trains_the_same_network_on_the_same_loss(name, library):
    """In float64, on the reference's batches; its NTXentLoss adds 1e-10 or so inside the logarithm. Without the library
    the loss is the weighted sum of our terms."""
    case = CASES[name]
    data = benchmark.made_up(case, CPU)
    trainer = ReferenceTrainer(case.setup, *data.train, H, seed=3, device=CPU, workers=0, library=library)
    trainer.model.double()
    ours = build_model(case.setup, data.channels, 3).double().train()
    for _ in range(2):
        images, labels = next(trainer.batches)
        assert images.shape == (8, case.channels, *[case.setup.image_size] * 2) and len(labels.unique()) == 4
        sgd(ours, images.double(), labels, H, case.setup)
        trainer.update(images.double(), labels)
    theirs = dict(trainer.model.named_parameters())
    for name, parameter in ours.named_parameters():
        other = theirs[name.replace("trunk.", "0.", 1).replace("head.", "1.", 1)]
        torch.testing.assert_close(parameter, other, rtol=1e-6, atol=1e-8, msg=f"{name}: {{}}".format)


@pytest.mark.parametrize("name", ["small_conv", "resnet18"])
def test_the_reference_feeds_the_images_that_ours_does(name):
    """From its workers: four classes a batch, two different images of each, in the scale of the networks."""
    data = benchmark.made_up(CASES[name], CPU)
    trainer = ReferenceTrainer(CASES[name].setup, *data.train, H, seed=0, device=CPU)
    images, labels = next(trainer.batches)
    far = differences(images, normalise(data.train[0]))
    nearest = far.argmin(1)
    assert far.amin(1).max() < 1e-6 and len(nearest.unique()) == 8
    assert torch.equal(data.train[1][nearest], labels) and len(labels.unique()) == 4


def test_the_reference_has_two_views_of_every_image():
    data = benchmark.made_up(CASES["resnet32"], CPU)
    trainer = ReferenceTrainer(CASES["resnet32"].setup, *data.train, H, seed=0, device=CPU, workers=0)
    images, labels = next(trainer.batches)
    assert torch.equal(labels[0::2], labels[1::2]) and len(labels.unique()) == 4
    assert not torch.equal(images[0::2], images[1::2]) and images.min() >= -1 and images.max() <= 1


def test_a_table_has_a_row_for_each_variant_that_can_be_here(monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "CASES", CASES)
    variants = ["reference", "plain", "eager", "graph", "packed-2"]
    benchmark.main([*COMMAND, "--repeats", "2", "--variants", *variants])
    said = capsys.readouterr().out.splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in said[3:])
    rows = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert head[0] == "variant" and list(rows) == variants
    assert rows.pop("graph")["error"] == "needs a GPU" and float(rows["reference"]["ratio"]) == 1
    assert all(float(row["ratio"]) > 0 and row["of roof"] == row["error"] == "" for row in rows.values())


def test_trials_an_hour_and_the_share_of_the_roof():
    """Two trainings of 3,000,000 images that begin with 10 s and see 5,990 images/s take 1,011.7 s."""
    results = {
        "reference": benchmark.Measured(1, 1.0, [1000.0, 2000.0, 1000.0]),
        "packed-2": benchmark.Measured(2, 10.0, [6000.0, 5990.0, 5000.0]),
    }
    row = benchmark.figures(benchmark.CASES["resnet18"], results, roof=11_980)["packed-2"]
    numbers = [10.0, 5990.0, 5000.0, 6000.0, 7.1169, 5.99, 0.5]
    assert list(row.values()) == pytest.approx(numbers, rel=1e-4)


# The first hour on a GPU


def piece(name, code, weight=1.0):
    """A piece whose process runs this code; `row(**columns)` adds a row."""
    adds = "import json, sys, time\ndef row(**columns): open(sys.argv[-1], 'a').write(json.dumps(columns) + '\\n')\n"
    return gpu.Piece(name, f"Piece {name}", weight, (sys.executable, "-S", "-c", adds + code))


def test_a_piece_that_fails_or_hangs_keeps_its_rows_and_the_others_go_on(tmp_path, capsys):
    pieces = [
        piece("raises", "row(seconds=1.5, note='a | b'); raise ValueError('no such kernel')"),
        piece("hangs", "row(images=1234.5); open(sys.argv[-1], 'a').write('{\"cut')\ntime.sleep(600)", 0.1),
        piece("says nothing", "pass"),
        piece("works", "row(images=2); row(error='out of memory')"),
    ]  # fmt: skip
    assert gpu.main(["--minutes", "0.5", "--out", str(tmp_path)], pieces) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    ended = {name: one["ended"] for name, one in report["pieces"].items()}
    assert ended == {"raises": "failed with status 1", "hangs": "out of time", "says nothing": "ok", "works": "ok"}
    assert [one["rows"] for one in report["pieces"].values()] == [
        [{"seconds": 1.5, "note": "a | b"}], [{"images": 1234.5}], [], [{"images": 2}, {"error": "out of memory"}]
    ]  # fmt: skip
    page = (tmp_path / "gpu.md").read_text()
    assert "ValueError: no such kernel" in page and "| 1.5 | a \\| b |" in page and "| 1,234 |" in page
    assert "| images | error |\n| --- | --- |\n| 2 |  |\n|  | out of memory |" in page
    again = [piece("raises", "row(seconds=2.0)")]
    gpu.main(["--minutes", "0.5", "--out", str(tmp_path)], again)
    pieces = json.loads((tmp_path / "gpu.json").read_text())["pieces"]
    assert list(pieces) == list(ended) and pieces["raises"]["rows"] == [{"seconds": 2.0}], "the others' are kept"


def rows_of(name, file, seconds=600):
    """What a piece adds on a CPU, and its exit status."""
    status = gpu_pieces.work(name, file, "cpu", time.monotonic() + seconds)
    return status, [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def one_thread_as_before():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_a_row_that_raises_is_one_row(monkeypatch, tmp_path, one_thread_as_before):
    def raising(error):
        raise error

    def rows(device):
        yield "first", lambda: {"images/s": 2.0}
        yield "no memory", lambda: raising(torch.OutOfMemoryError("CUDA out of memory"))
        yield "third", lambda: {"images/s": 3.0}
        yield "the GPU", lambda: raising(RuntimeError("CUDA error: an illegal memory access"))
        yield "never", dict

    monkeypatch.setitem(gpu_pieces.PIECES, "made", rows)
    status, added = rows_of("made", tmp_path / "rows")
    assert status == 1 and added == [
        {"": "first", "images/s": 2.0}, {"": "no memory", "error": "OutOfMemoryError: CUDA out of memory"},
        {"": "third", "images/s": 3.0}, {"": "the GPU", "error": "RuntimeError: CUDA error: an illegal memory access"},
    ]  # fmt: skip
    status, late = rows_of("made", tmp_path / "late", seconds=-1)
    assert status == 0 and [row["error"] for row in late] == ["no time was left"] * 5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["machine", "time", "setups", "grid"])
def test_every_row_of_a_piece_is_measured_on_a_cpu(name, tmp_path, one_thread_as_before):
    """With small sizes: no card is needed to find a mistake in what the first hour on one will run."""
    status, rows = rows_of(name, tmp_path / "rows")
    assert status == 0 and len(rows) > 3 and [row for row in rows if "error" in row] == []
    assert all(value > 0 for row in rows for value in row.values() if isinstance(value, float))
