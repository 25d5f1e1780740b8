"""`python -m trainables.train`: every dataset of the paper in its exact layout and in small, what it writes, warns of
and refuses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmark_files import image_files, write_truth
from datafiles import omniglot_files, photo, photos, sop_files, tiny_files, write_folder

from trainables import train, trained
from trainables.data.resident import DeviceData
from trainables.datasets.landmarks import image_name
from trainables.training.loop import Training

pytestmark = pytest.mark.usefixtures("own_cache")

ROOT = Path(__file__).parents[2]

CLASSES = 12


def landmarks(root):
    """Lists and photos of Landmarks-clean, beside a revisited Oxford of twelve images and three queries."""
    for file, numbers in (("train", range(4)), ("val", range(4, 6))):
        urls = {f"http://photos/{n}/{k}.jpg": (n, k) for n in range(CLASSES) for k in numbers}
        write_folder(root / "landmarks", {image_name(url): photo(*which) for url, which in urls.items()})
        lines = "".join(f"{url} {label} 0 9 0 9\n" for url, (label, _) in urls.items())
        (root / "landmarks" / f"annotation_clean_{file}.txt").write_text(lines)
    write_folder(root / "roxford5k" / "jpg", {f"{name}.jpg": data for name, data in image_files().items()})
    write_truth(root / "roxford5k" / "gnd_roxford5k.pkl")
    return root


DATASETS = {
    "omniglot": (lambda root: write_folder(root, omniglot_files()), "--batch-size 8", "omniglot-10",
                 {"test_r_map", "test_recall_at_2"}),
    "sop": (lambda root: write_folder(root, sop_files(10, 2, 4, photo)), "--batch-size 8 --loss infonce", "sop-12",
            {"test_r_map", "test_map_at_r", "test_precision_at_1", "test_recall_at_4"}),
    "landmarks": (landmarks, "--batch-size 16", "landmarks-12",
                  {f"test_roxford5k-12_{level}_map" for level in ("easy", "medium", "hard")}),
    "tinyimagenet": (lambda root: write_folder(root, tiny_files()), "--batch-size 16", "tinyimagenet-2",
                     {"test_probe_accuracy"}),
    "folder": (photos, "--batch-size 8", "folder-mine-[0-9a-f]{4}", {"test_r_map", "val_r_map"}),
    "folder, own loss": (photos, "--batch-size 12 --loss own_losses:three_parts --Lambda_pull 0.1 --Lambda_push 0.5",
                         "folder-mine-[0-9a-f]{4}", {"test_r_map", "term_pull"}),
    "folder, ssl": (photos, "--batch-size 16 --task ssl --loss margin", "folder-mine-[0-9a-f]{4}",
                    {"test_probe_accuracy"}),
}  # fmt: skip
DATASETS["glyphs, vicreg"] = (
    lambda root: root, "--loss vicreg --Lambda_cov 0.1", "glyphs-200", {"term_sim", "term_cov", "test_knn_accuracy"}
)  # fmt: skip
SHORT = ["--device", "cpu", "--set", "images_seen=160", "evaluations=2", "probe_epochs=2", "probe_steps=0"]


def outcome_in(said):
    return json.loads(said)  # all of stdout, as for `| jq`


@pytest.mark.parametrize("which", DATASETS)
def test_a_training_ends_in_its_scores(tmp_path, capsys, which):
    make, options, name, scores = DATASETS[which]
    dataset, root = which.split(",")[0], make(tmp_path / "data")
    place = [] if dataset == "glyphs" else ["--data-root", str(root)]
    status = train.main(["--dataset", dataset, *place, *options.split(), *SHORT])
    said = capsys.readouterr()
    assert status == 0, said.err
    outcome = outcome_in(said.out)
    assert re.search(f"^{name}: ", said.err, re.MULTILINE) and outcome["status"] == "completed"
    assert scores <= set(outcome["scores"]) and 0 <= outcome["test_score"] <= 1
    assert outcome["test_score"] in {value for key, value in outcome["scores"].items() if key.startswith("test_")}


@pytest.fixture
def of_photos(tmp_path):
    """A short training of a user's own photos."""
    return ["--dataset", "folder", "--data-root", str(photos(tmp_path)), "--batch-size", "8", *SHORT]


def test_a_weight_is_usually_a_tenth_of_the_published_coefficient():
    usual = train._parser().parse_args(["--loss", "vicreg", "--Lambda_std", "3"]).Lambdas
    assert usual == {"Lambda_sim": 2.5, "Lambda_std": 3, "Lambda_cov": pytest.approx(0.1)}


def test_it_goes_on_from_its_file(tmp_path, capsys, monkeypatch, of_photos):
    file, judge = tmp_path / "new" / "run.pt", Training.judge
    command = [*of_photos, "--checkpoint", str(file)]

    def ended(looks):
        assert train.main(command) == 0
        said = capsys.readouterr()
        assert said.err.count("validation r_map") == looks
        return outcome_in(said.out) | {"train_seconds": ...}

    def interrupted(self, *measured):
        if self.curve:
            raise KeyboardInterrupt
        return judge(self, *measured)

    whole = ended(looks=2)
    file.unlink()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Training, "judge", interrupted)
        train.main(command)
    capsys.readouterr()
    assert ended(looks=1) == whole
    assert [path.name for path in file.parent.iterdir()] == ["run.pt"]


def test_it_saves_the_network(tmp_path, capsys, of_photos):
    file = tmp_path / "new" / "n.pt"
    assert train.main([*of_photos, "--save", str(file)]) == 0
    network = trained.load(file)
    assert (
        network.data.startswith("folder-mine") and network.val_score == outcome_in(capsys.readouterr().out)["val_score"]
    )
    left = f"{file}: the training diverged, nothing is written; the file there is of an earlier"
    assert train.main([*of_photos, "--Lambda_p", "1e30", "--save", str(file)]) == 1
    assert left in capsys.readouterr().err and trained.load(file).h == network.h


def test_a_full_disk_costs_no_training(tmp_path, capsys, monkeypatch, of_photos):
    network, states = tmp_path / "n.pt", tmp_path / "run.pt"
    network.write_bytes(b"an earlier one")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert train.main([*of_photos, "--save", str(network), "--checkpoint", str(states)]) == 1
    said = capsys.readouterr()
    assert outcome_in(said.out)["status"] == "completed"
    assert said.err.count(f"warning: --checkpoint {states}: the state is not saved: [Errno 28] No space") == 2
    assert f"error: --save {network}: [Errno 28] No space left on device, nothing is written; the file" in said.err
    assert network.read_bytes() == b"an earlier one" and not list(tmp_path.glob("*.part"))


def test_a_closed_output_leaves_the_network(tmp_path, monkeypatch, of_photos):
    file, written = tmp_path / "network.pt", os.pipe()
    os.close(written[0])
    with open(written[1], "w") as closed, monkeypatch.context() as patch, pytest.raises(BrokenPipeError):
        patch.setattr("sys.stdout", closed)
        try:
            train.main([*of_photos, "--save", str(file)])
        finally:
            os.dup2(os.open(os.devnull, os.O_WRONLY), written[1])  # for its last flush
    assert trained.load(file).val_score > 0


def test_it_warns_of_fields_without_effect(capsys, of_photos):
    assert train.main([*of_photos, "--set", "learning_rate=0.5", "temperature=0.5", "q=2", "step=graph"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("warning: ") and "probe" not in line] == [
        "warning: --set step=graph has no effect without a GPU",
        "warning: --set learning_rate=0.5 has no effect with optimizer = 'sgd', only with 'adam'",
        "warning: --set temperature=0.5 has no effect with loss = 'margin', only with 'infonce' or 'siglip'",
    ]


@pytest.mark.parametrize("argv, said", [
    *((["--device", name], f"--device {name!r}: one of cpu") for name in ("gpu", "mps", "cuda:99", "meta", "")),
    *((["--seed", seed], f"'{seed}'") for seed in ("1e20", str(10**20), str(2**63), "-1", "1.5", "nan", "")),
    *((["--Lambda_e", weight], f"'{weight}'") for weight in ("-1", "nan", "inf", "1e39", "")),
    (["--Lambda_p=-inf"], "invalid weight (a number from 0 to 3.4e+38) value: '-inf'"),
    *(([option, ""], f"{option} '': ") for option in ("--checkpoint", "--save", "--data-root")),
    *(([option, "."], "cannot be written as a file: [Errno 21]") for option in ("--checkpoint", "--save")),
    *(([option, "/dev/null"], "cannot be written as a file: it is a device") for option in ("--checkpoint", "--save")),
    (["--weights", ""], "weights '': no such file"),
    (["--save", "s3://bucket/n.pt"], "--save is a URI"),
    (["--save", "x/n.pt", "--checkpoint", "x/../x/n.pt"], "two files are needed"),
    (["--set", "images=3"], "images"),
    (["--dataset", "folder"], "'folder' is your own images: name their place with --data-root"),
    (["--batch-size", "63"], "63"),
    (["--dataset", "omniglot", "--data-root", "/nowhere"], "/nowhere"),
    (["--set", f"embedding={2**63}"], f"embedding = {2**63}"),
    (["--loss", "own_losses:exits"], "raised SystemExit: 3"),
    (["--loss", "vicreg", "--Lambda_p", "1"],
     "--Lambda_p 1; the weights of loss 'vicreg' are --Lambda_sim, --Lambda_std, --Lam"),
    (["--set", "network=own_networks:Exits"], "raised SystemExit: 0"),
])  # fmt: skip
def test_it_refuses_with_a_sentence(capsys, monkeypatch, tmp_path, argv, said):
    """Before any work: data are not loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(DeviceData, "load", lambda *_: pytest.fail("the data were loaded"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    try:
        status = train.main(argv)
    except SystemExit as error:  # argparse's
        status = error.code
    wrong = capsys.readouterr().err
    assert status == 2 and "error: " in wrong and said in wrong and "Traceback" not in wrong


def test_a_command_whose_output_is_closed_or_that_is_interrupted_says_so():
    handler = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # a parent may ignore the signal
    code = f"{handler}; import sys; from trainables.console import run; sys.exit(run(lambda: {{}}))"
    closed = "[print('x' * 100, flush=True) for _ in iter(int, 1)]"
    interrupted = "signal.raise_signal(signal.SIGINT)"
    for act, status, said in ((closed, 141, b"stopped: the output was closed"), (interrupted, 130, b"interrupted")):
        command = [sys.executable, "-c", "import signal; " + code.format(act)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if act == closed:
            process.stdout.readline()
        process.stdout.close()
        wrong = process.stderr.read()
        process.stderr.close()
        assert (process.wait(60), wrong.strip()) == (status, said)
