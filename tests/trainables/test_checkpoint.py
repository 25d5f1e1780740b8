"""A resumed training ends as the uninterrupted one, to the bit, on the CPU; damaged and foreign files are refused."""

from dataclasses import asdict, replace
from functools import cache

import pytest
import torch
from recorders import InMemory
from trainings import CPU, DATA, SETUP, SSL_DATA, SSL_SETUP, H, advance_one, blobs, finished, outcome_of

from trainables import train
from trainables.data.resident import DeviceData
from trainables.training import checkpoint
from trainables.training.loop import Training
from trainables.training.setups import find_setup

LARGER = DeviceData("blobs", *(blobs(classes, seed, size=32) for classes, seed in ((24, 1), (8, 2), (8, 3))))
KINDS = {
    "margin": (SETUP, DATA),
    "infonce, a head, crops, cosine schedule": (
        replace(SETUP, loss="infonce", embedding=16, augmentation="crop", schedule="cosine"),
        DATA,
    ),
    "memory, variable": (
        replace(SETUP, memory="variable", memory_size=40, memory_start=3, k=4, distance="cosine"),
        DATA,
    ),
    "memory, fixed, Adam": (
        replace(
            SETUP,
            memory="fixed",
            memory_size=100,
            memory_start=7,
            optimizer="adam",
            learning_rate=1e-3,
            schedule="step",
        ),
        DATA,
    ),
    "self-supervised": (SSL_SETUP, SSL_DATA),
    "as the XBM authors": (
        replace(
            SETUP,
            image_size=32,
            crop_size=28,
            augmentation="crop",
            crop_scale=0.2,
            optimizer="adam",
            learning_rate=1e-3,
            weight_decay=5e-4,
            schedule="plateau",
            selected_by="recall_at_1",
            memory="variable",
            memory_size=40,
            memory_start=3,
            k=4,
            distance="cosine",
        ),
        LARGER,
    ),
}


def tensors(training):
    """Of the network and of its memory."""
    memory = training.memory.buffers() if training.setup.memory != "none" else ()
    return [tensor.clone() for tensor in (*training.model.state_dict().values(), *memory)]


@cache
def uninterrupted(kind):
    """(iterations, tensors, outcome)."""
    whole = finished(*KINDS[kind])
    return whole.iteration, tensors(whole), outcome_of(whole)


@pytest.mark.parametrize(
    "kind, cut", [(kind, cut) for kind, (setup, _) in KINDS.items() for cut in (1, 2) if cut < setup.evaluations]
)
def test_resumed_equals_never_stopped(tmp_path, kind, cut):
    """Cut before a memory holds anything, and after."""
    setup, data = KINDS[kind]
    iterations, expected_tensors, expected = uninterrupted(kind)
    first = Training(setup, data, H, seed=0, device=CPU)
    for _ in range(cut):
        advance_one(first)
    checkpoint.save(first, tmp_path / "training.pt")
    advance_one(first)  # what happens after the checkpoint does not matter
    second = Training(setup, data, H, seed=0, device=CPU)
    torch.rand(3)
    checkpoint.load(second, tmp_path / "training.pt")
    assert second.iteration == iterations * cut // setup.evaluations and not second.done
    while not second.done:
        advance_one(second)
    assert all(torch.equal(a, b) for a, b in zip(tensors(second), expected_tensors, strict=True))
    ours = outcome_of(second)
    assert [e.scores for e in ours.curve] == [e.scores for e in expected.curve]
    assert (ours.val_score, ours.test_score, ours.best_at, ours.scores) == (
        expected.val_score,
        expected.test_score,
        expected.best_at,
        expected.scores,
    )


@pytest.mark.parametrize("optimizer, stays", [("sgd", True), ("adam", False)])
def test_a_recorded_step_stays_where_the_optimiser_has_no_tensors_of_its_own(tmp_path, optimizer, stays):
    """A recording works on the tensors that it has seen; loading gives Adam others."""
    setup = replace(SETUP, optimizer=optimizer, **({"learning_rate": 1e-3} if optimizer == "adam" else {}))
    first, second = (Training(setup, DATA, H, seed=0, device=CPU) for _ in range(2))
    for training in (first, second):
        advance_one(training)
    checkpoint.save(first, tmp_path / "training.pt")
    where = [parameter.data_ptr() for parameter in second.model.parameters()]
    second._replayed = {False: "a recording"}
    checkpoint.load(second, tmp_path / "training.pt")
    assert (second._replayed == {False: "a recording"}) == stays
    assert [parameter.data_ptr() for parameter in second.model.parameters()] == where


def test_the_state_of_another_training_is_refused(tmp_path):
    checkpoint.save(Training(SETUP, DATA, H, seed=0, device=CPU), tmp_path / "training.pt")
    for other, said in (
        (Training(SETUP, DATA, H, seed=1, device=CPU), "seed 0, not 1"),
        (Training(SETUP, DATA, H | {"Lambda_p": 0.4}, seed=0, device=CPU), "'Lambda_p': 0.3"),
        (Training(replace(SETUP, margin=0.4), DATA, H, seed=0, device=CPU), "'margin': 0.5"),
    ):
        with pytest.raises(ValueError, match=said):
            checkpoint.load(other, tmp_path / "training.pt")


def test_the_generator_of_another_kind_of_device_is_refused_before_anything_changes(tmp_path):
    training, other = Training(SETUP, DATA, H, seed=0, device=CPU), Training(SETUP, DATA, H, seed=0, device=CPU)
    advance_one(training)
    torch.save(training.state() | {"generator": torch.zeros(16, dtype=torch.uint8)}, tmp_path / "training.pt")
    before = [parameter.clone() for parameter in other.model.parameters()]
    with pytest.raises(ValueError, match="training.pt"):
        checkpoint.load(other, tmp_path / "training.pt")
    assert other.iteration == 0 and all(torch.equal(a, b) for a, b in zip(other.model.parameters(), before))


class Executes:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize("damage", ["cut", "text", "code", "tensor"])
def test_a_damaged_or_hostile_file_is_refused_by_name(tmp_path, damage, capsys):
    path, training = tmp_path / "training.pt", Training(SETUP, DATA, H, seed=0, device=CPU)
    checkpoint.save(training, path)
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:-100])
        case "text":
            path.write_text("no checkpoint")
        case "code":
            torch.save(Executes(), path)
        case "tensor":
            torch.save(torch.zeros(3), path)
    with pytest.raises(ValueError, match="training.pt"):
        checkpoint.load(training, path)
    assert "executed" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_goes_on_from_its_file(tmp_path, capsys, monkeypatch):
    command = [
        "--set",
        "images_seen=640",
        "evaluations=2",
        "--device",
        "cpu",
        "--checkpoint",
        str(tmp_path / "new" / "run.pt"),
    ]
    assert train.main(command) == 0
    whole = capsys.readouterr().out
    (tmp_path / "new" / "run.pt").unlink()
    judge = Training.judge

    def interrupted(self, *measured):
        if self.curve:
            raise KeyboardInterrupt
        return judge(self, *measured)

    monkeypatch.setattr(Training, "judge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train.main(command)
    monkeypatch.undo()
    capsys.readouterr()
    assert train.main(command) == 0
    resumed = capsys.readouterr().out
    assert resumed.count("validation r_map") == 1 and whole.count("validation r_map") == 2
    without_time = lambda text: [line for line in text[text.index("{") :].splitlines() if "seconds" not in line]  # noqa: E731
    assert without_time(resumed) == without_time(whole)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["run.pt"]


@pytest.mark.ray
@pytest.mark.slow
def test_a_trial_saved_by_tune_goes_on_in_another_actor(ray_session, tmp_path):
    from ray import tune

    from trainables.trial import TrainTrial

    setup = replace(
        find_setup("glyphs", "small"), images_seen=640, evaluations=4, memory="variable", memory_size=64, memory_start=1
    )
    trainable = tune.with_parameters(
        TrainTrial, setup_fields=asdict(setup), data_root=None, threads=1, recorder=InMemory()
    )
    config = {"Lambda_p": 0.5, "Lambda_e": 4.0, "batch_size": 32, "seed": 0}
    whole = trainable(config)
    reports = [whole.train()]
    whole.save(str(tmp_path / "saved"))
    while not reports[-1]["done"]:
        reports.append(whole.train())
    other = trainable(config)
    other.restore(str(tmp_path / "saved"))
    resumed = [other.train() for _ in range(3)]
    assert len(reports) == 4 and resumed[-1]["done"]
    told = ("val_score", "test_score", "images_seen", "train_positive_term", "train_negative_similarity")
    assert [[report.get(name) for name in told] for report in resumed] == [
        [report.get(name) for name in told] for report in reports[1:]
    ]
    for trial in (whole, other):
        trial.stop()
