"""A user's own images: layouts, splits for both tasks, and what is refused."""

import io
import re
import tarfile
import zipfile
from pathlib import Path

import datafiles
import numpy as np
import pytest
from datafiles import splits, write_folder, write_zip
from PIL import Image

from trainables.datasets import cache
from trainables.datasets.folder import plan as planned
from trainables.datasets.source import decode_image
from trainables.datasets.structure import UndecodableImage

pytestmark = pytest.mark.usefixtures("own_cache")


def encoded(value: int, kind: str = "PNG", mode: str | None = None) -> bytes:
    """An image whose red is the value, and its green 100."""
    return datafiles.encoded(np.full((10, 14, 3), (value % 256, 100, 30), dtype=np.uint8), kind, mode)


def files(classes=20, images=10, below="") -> dict[str, bytes]:
    """Images of a class lie at two depths and in three formats; the class's number is their red."""
    kinds = (("{}.png", "PNG"), ("{}.JPG", "JPEG"), ("more/deep/{}.jpeg", "JPEG"))
    made = {}
    for label in range(classes):
        for number in range(images):
            name, kind = kinds[number % 3]
            made[f"{below}class {label:02d}/{name.format(number)}"] = encoded(10 * label, kind)
    return made


def plan_of(root: Path, task: str = "dml"):
    return planned([root], task)


def relative(split, root: str = "") -> set[str]:
    return {item.removeprefix(root) for item in split.items}


def every(plan, root: str = "") -> set[str]:
    return set.union(*(relative(split, root) for split in plan.splits.values()))


def flat(images, below="") -> dict[str, bytes]:
    return {f"{below}{number}.png": encoded(number) for number in range(images)}


@pytest.mark.parametrize("images", [2, 10])
@pytest.mark.parametrize("classes", [6, 7, 20, 41])
def test_dml_splits_the_classes(tmp_path, classes, images):
    content = files(classes, images)
    plan = plan_of(write_folder(tmp_path / "birds", content))
    assert (plan.channels, list(plan.splits)) == (3, ["train", "validation", "test"])
    names = [set(split.class_names) for split in plan.splits.values()]
    assert sum(map(len, names)) == len(set.union(*names)) == classes  # disjoint, and none is lost
    for found, fraction in zip(names, (0.6, 0.15, 0.25), strict=True):
        assert len(found) >= 2 and (abs(len(found) - fraction * classes) <= 1 or classes < 10)
    assert every(plan, "birds/") == set(content)
    for split in plan.splits.values():
        assert [item.split("/")[1] for item in split.items] == [split.class_names[label] for label in split.labels]


@pytest.mark.parametrize("images", [3, 10, 50])
@pytest.mark.parametrize("classes", [3, 0])
def test_ssl_splits_the_images_of_every_class_or_all_where_there_is_none(tmp_path, classes, images):
    content, held = files(classes, images) if classes else flat(images), max(1, images // 10)
    plan = plan_of(write_folder(tmp_path / "birds", content), "ssl")
    assert every(plan, "birds/") == set(content)
    assert sum(len(split.items) for split in plan.splits.values()) == len(content), "none is in two splits"
    for split, count in zip(plan.splits.values(), (images - 2 * held, held, held), strict=True):
        assert split.class_names == (("class 00", "class 01", "class 02") if classes else ("none",))
        assert np.bincount(split.labels).tolist() == [count] * (classes or 1)


def test_the_splits_of_given_names_never_change(tmp_path):
    root, held = write_folder(tmp_path / "birds", files(8, 10)), ("validation", "test")
    classes, images = plan_of(root).splits, plan_of(root, "ssl").splits
    assert [[name[-2:] for name in classes[split].class_names] for split in held] == [["02", "03"], ["01", "07"]]
    first = [next(item for item in images[split].items if "class 00" in item) for split in held]
    assert first == ["birds/class 00/7.JPG", "birds/class 00/4.JPG"]


@pytest.mark.parametrize("task, content", [("dml", files()), ("ssl", files()), ("ssl", flat(60))])
def test_directory_and_archives_are_split_alike(tmp_path, task, content):
    folder = plan_of(write_folder(tmp_path / "birds", content), task)
    archive = plan_of(write_zip(tmp_path / "birds.zip", content), task)
    wrapped = {f"a/wrapper/{name}": data for name, data in content.items()} | {"a/wrapper/readme.txt": b""}
    inside = plan_of(write_zip(tmp_path / "other birds!.zip", wrapped), task)
    around = plan_of(write_folder(tmp_path / "around" / "birds", wrapped), task)
    assert archive.name == folder.name == around.name
    assert archive.content == folder.content == inside.content == around.content
    assert inside.name == folder.name.replace("birds", "other_birds_")
    for plan, root in ((archive, ""), (inside, "a/wrapper/"), (around, "birds/a/wrapper/")):
        for split, expected in zip(plan.splits.values(), folder.splits.values(), strict=True):
            assert relative(split, root) == relative(expected, "birds/") and split.labels == expected.labels


def test_other_images_are_another_dataset(tmp_path):
    places = [tmp_path / place for place in ("a/images", "b/images", "c/images", "d/Фото", "e/写真")]
    contents = [files(6), files(6), files(6) | {"class 00/new.png": encoded(1)}, files(7), files(8)]
    plans = [plan_of(write_folder(place, content)) for place, content in zip(places, contents, strict=True)]
    assert plans[0].name == plans[1].name and plans[0].content == plans[1].content
    assert len({plan.name for plan in plans}) == len({plan.content for plan in plans}) == 4
    assert re.fullmatch("folder-images-[0-9a-f]{4}", plans[2].name)
    assert re.fullmatch(r"61 images of [\d,]+ bytes, digest [0-9a-f]{16}", plans[2].content)


def test_links_are_followed_and_those_that_lead_nowhere_spoil_nothing(tmp_path):
    """A dangling link counts as a damaged image if its name is an image's, and else is not looked at."""
    root = write_folder(tmp_path / "birds", files())
    expected = plan_of(root)
    (root / "README.txt").symlink_to(tmp_path / "absent")
    (root / "class 00" / "folder.d").symlink_to(tmp_path / "absent folder", target_is_directory=True)
    (root / "class 00" / "itself.d").symlink_to("itself.d")
    (root / "class 01" / "again").symlink_to("..", target_is_directory=True)
    (root / "class 02" / "more" / "deep" / "again").symlink_to("../../../class 02", target_is_directory=True)
    assert plan_of(root).splits == expected.splits
    elsewhere = write_folder(tmp_path / "elsewhere", {"new.png": encoded(1)})
    (root / "class 03" / "linked").symlink_to(elsewhere, target_is_directory=True)
    assert every(plan_of(root)) - every(expected) == {"birds/class 03/linked/new.png"}


@pytest.mark.parametrize("target", ["absent.png", "0_link.png"])
def test_an_image_that_links_nowhere_is_left_out_and_named(tmp_path, target):
    root = write_folder(tmp_path / "birds", files())
    (root / "class 00" / "0_link.png").symlink_to(target)
    with pytest.warns(UserWarning, match="birds: 1 images do not decode and are left out: birds/class 00/0_link.png"):
        dataset = cache.load(planned([root]), 8)
    assert sum(len(split.images) for split in splits(dataset)) == 200


def test_images_beside_folders_of_images_have_no_classes_and_it_is_said(tmp_path):
    with pytest.warns(UserWarning, match="^0.png, .* in no class folder, so that no image has a class"):
        plan = plan_of(write_folder(tmp_path / "photos", flat(5) | flat(5, "2025/") | flat(5, "2026/")), "ssl")
    assert [len(split.items) for split in plan.splits.values()] == [12, 1, 2]


def test_unicodes_forms_of_a_name_are_one_class_and_one_dataset(tmp_path):
    """macOS takes é apart, so a zip made there has other bytes in its names."""
    composed, apart = "Caf\u00e9", "Cafe\u0301"
    linux, mac = (
        plan_of(write_folder(tmp_path / place / "birds", files() | flat(10, f"{name}/{name} ")), "ssl")
        for place, name in (("linux", composed), ("mac", apart))
    )
    assert linux.name == mac.name
    for split, other in zip(linux.splits.values(), mac.splits.values(), strict=True):
        assert split.class_names == other.class_names and split.class_names[0] == composed
        assert {item.replace(composed, apart) for item in split.items} == set(other.items)


def own_split(parts, classes=10, images=10):
    return {name: data for part in parts for name, data in files(classes, images, f"{part}/").items()}


own_classes_in_every_split = pytest.mark.filterwarnings("ignore:.*dml is measured on classes that were trained on")

SPLITS = ("train", "validation", "test")


@own_classes_in_every_split
@pytest.mark.parametrize("task", ["dml", "ssl"])
@pytest.mark.parametrize("folders", ["train val test", "train valid test", "Training VALIDATION Testing"])
def test_an_own_split_is_used_as_it_is(tmp_path, task, folders):
    folders = folders.split()
    plan = plan_of(write_folder(tmp_path / "data", own_split(folders)), task)
    for split, part in zip(SPLITS, folders, strict=True):
        assert relative(plan.splits[split], "data/") == set(own_split([part]))
        assert plan.splits[split].class_names == tuple(f"class {label:02d}" for label in range(10))


@own_classes_in_every_split
@pytest.mark.parametrize("second", ["test", "val", "dev", "Test"])
@pytest.mark.parametrize("task, kept, held", [("dml", 8, 2), ("ssl", 10, 10)])
def test_without_a_third_folder_the_second_is_the_test_split(tmp_path, task, kept, held, second):
    """Validation is taken from train: classes for dml, a tenth of the images of each for ssl."""
    content = own_split(["train", second], images=18)
    plan = plan_of(write_folder(tmp_path / "data", content), task)
    train, validation, test = (relative(plan.splits[split], "data/") for split in SPLITS)
    assert test == {name for name in content if name.startswith(second)}
    assert train | validation == set(content) - test and not train & validation
    names = [plan.splits[split].class_names for split in SPLITS]
    assert [len(one) for one in names] == [kept, held, 10]
    if task == "dml":
        assert not set(names[0]) & set(names[1])
    else:
        assert [np.bincount(plan.splits[split].labels).tolist() for split in SPLITS[:2]] == [[16] * 10, [2] * 10]


@pytest.mark.parametrize("folders", [
    "train val test samples", "train test Test", "train val validation test", "val test", "train", "bus train",
])  # fmt: skip
def test_folders_that_are_neither_a_split_nor_classes_are_refused(tmp_path, folders):
    names = folders.split()
    root = write_folder(tmp_path / "data", own_split(names, classes=3, images=3))
    for task in ("dml", "ssl"):
        with pytest.raises(ValueError, match=f"the folders {', '.join(sorted(names))} at the top are neither .* valid"):
            plan_of(root, task)


def test_classes_of_train_in_other_splits_are_named_in_dml(tmp_path):
    content = own_split(["train"]) | own_split(["test"], classes=4) | files(3, below="test/new ")
    said = "4 of the 7 classes for test are in training as well .class 00, class 01.*dml"
    with pytest.warns(UserWarning, match=said) as warned:
        plan_of(write_folder(tmp_path / "data", content))
    assert len(warned) == 1


@pytest.mark.parametrize("task, few, least", [("dml", 1, 2), ("ssl", 2, 3)])
def test_classes_of_too_few_images_are_left_out_and_named(tmp_path, task, few, least):
    root = write_folder(tmp_path / "data", files() | files(2, few, "few "))
    said = rf"2 classes have fewer than {least} images and are left out: few class 00 \({few}\), few class 01"
    with pytest.warns(UserWarning, match=said):
        plan = plan_of(root, task)
    assert every(plan, "data/") == set(files())


CLASS_FOLDERS, SHARE = "Expected: as --data-root, .* sub-folder a class", "images to share with a split, but"
REFUSED = [
    ("dml", {"readme.txt": b""}, f"no images found. {CLASS_FOLDERS}"),
    (
        "dml",
        files() | {"a.png": b"", "b.JPG": b""},
        f"in no class folder: a.png, b.JPG; --task ssl needs none. {CLASS_FOLDERS}",
    ),
    (
        "dml",
        files(1),
        "all images are in one folder, birds/class 00/, and of it in no class folder: 0.png, .* ssl needs",
    ),
    ("dml", files(5), "1 classes are left for train, at least 2 are needed; 2 or more go to each split without"),
    ("dml", own_split(["train", "test"]) | {"train/x.png": b""}, "in no class folder: train/x.png"),
    ("dml", own_split(["train"], classes=3) | own_split(["test"]), "1 classes are left for train"),
    ("ssl", flat(2), rf"at least 3 {SHARE} 1 have fewer: none \(2\)"),
    ("ssl", own_split(["train"]) | own_split(["test"], classes=9), "class must be in .* these are not: class 09"),
    ("ssl", own_split(["train"], images=1) | own_split(["test"]), rf"at least 2 {SHARE} 10 have .*: class 00 \(1\)"),
]


@own_classes_in_every_split
@pytest.mark.parametrize("task, content, message", REFUSED)
def test_what_cannot_be_split_is_named(tmp_path, task, content, message):
    with pytest.raises(ValueError, match=message):
        plan_of(write_folder(tmp_path / "birds", content), task)


@pytest.mark.parametrize("write", [write_folder, write_zip])
@pytest.mark.parametrize("task", ["dml", "ssl"])
def test_what_tools_leave_is_no_class_and_names_of_other_encodings_are_read(tmp_path, task, write):
    beside = (".ipynb_checkpoints/0.png", "__MACOSX/class 00/0.png")
    left = dict.fromkeys((*beside, "class 00/.ipynb_checkpoints/0.png", "class 01/._a.png"), encoded(1))
    content = files() | ({"class 00/caf\udce9.png": encoded(1)} if write is write_folder else {})
    root = write(tmp_path / ".pictures" / "birds.zip", content | left)  # the place itself may be hidden
    assert every(plan_of(root, task), "birds.zip/" if write is write_folder else "") == set(content)


@pytest.mark.parametrize("system, form", [(0, "birds\\{}"), (0, "birds/{}"), (3, "./{}"), (3, ".//./birds/{}")])
@pytest.mark.parametrize("task", ["dml", "ssl"])
def test_names_in_archives_are_those_of_folders_whichever_tool_made_them(tmp_path, task, system, form):
    """Windows' old tools part names by backslashes; others begin all with "./"."""
    archive = zipfile.ZipFile(tmp_path / "birds.zip", "w")
    for name, data in files().items():
        member = zipfile.ZipInfo("member")
        member.filename = form.format(name.replace("/", "\\") if "\\" in form else name)
        member.create_system = system
        archive.writestr(member, data)
    archive.close()
    plan, expected = planned([tmp_path / "birds.zip"], task), plan_of(write_folder(tmp_path / "birds", files()), task)
    assert plan.name == expected.name
    found, wanted = splits(cache.load(plan, 8)), splits(cache.load(expected, 8))
    for split, other in zip(found, wanted, strict=True):
        assert split.class_names == other.class_names and np.array_equal(split.images, other.images)


def test_a_long_name_of_the_place_fits_the_files_that_it_names(tmp_path):
    place = write_folder(tmp_path / ("n" * 250), files())
    assert len(cache.load(planned([place]), 8).train.images) == 120


def test_every_kind_of_image_is_read_in_colour(tmp_path):
    kinds = {"a.webp": "WEBP", "b.BMP": "BMP", "c.tif": "TIFF", "d.tiff": "TIFF", "e.gif": "GIF", "f.jpg": "WEBP",
             "g.png": "PNG P", "h.jpg": "JPEG CMYK"}  # fmt: skip
    content = {f"{10 * n}/{name}": encoded(10 * n, *kind.split()) for n in range(6) for name, kind in kinds.items()}
    root = write_folder(tmp_path / "birds", content)
    dataset = cache.load(planned([root]), 8)
    assert dataset.name == plan_of(root).name and sum(len(split.images) for split in splits(dataset)) == 48
    for split in splits(dataset):
        assert split.images.shape == (len(split.labels), 3, 8, 8)
        red, green, _ = split.images.mean((2, 3)).T
        assert np.abs(red - np.array(split.class_names, dtype=float)[split.labels]).max() < 3
        assert np.abs(green - 100).max() < 3


def test_images_that_are_not_read_are_counted(tmp_path):
    others = ("class 00/a.HEIC", "class 00/b.heic", "class 01/deep/c.avif", "class 02/0001", "README")
    root = write_folder(tmp_path / "birds", files() | dict.fromkeys(others, b""))
    with pytest.warns(UserWarning, match="birds: 2 .heic, 1 .avif, 1 without an ending files are not read"):
        plan = plan_of(root)
    assert every(plan, "birds/") == set(files())
    with pytest.raises(ValueError, match="no images found, but 1 .heic. Expected"):
        plan_of(write_folder(tmp_path / "phone", {"a/b.heic": b""}))
    with pytest.raises(ValueError, match="no images found, but 2 .zip, 1 .tgz. Expected"):
        plan_of(write_zip(tmp_path / "all.zip", {"a.zip": b"", "b.ZIP": b"", "c/d.tgz": b""}))


def test_places_and_tasks_are_checked(tmp_path):
    with tarfile.open(tmp_path / "birds.tar.gz", "w:gz") as archive:
        archive.add(write_folder(tmp_path / "birds", files(2, 2)), "birds")
    with pytest.raises(ValueError, match=r"birds.tar.gz is a tar archive; unpack it \(tar -xf\), and name the folder"):
        planned([tmp_path / "birds.tar.gz"])
    for broken in (b"\x1f\x8b", (tmp_path / "birds.tar.gz").read_bytes()[:20]):
        (tmp_path / "broken.tar.gz").write_bytes(broken)
        with pytest.raises(ValueError, match="broken.tar.gz is not a complete zip archive; .* download it again"):
            planned([tmp_path / "broken.tar.gz"])
    with pytest.raises(FileNotFoundError, match="no folder data found(.|\n)*nowhere(.|\n)*one sub-folder a class"):
        planned([tmp_path / "nowhere"])


# --- decoding


def decoded(image: Image.Image, kind: str = "PNG", mode: str = "RGB", size: int = 8, **options) -> np.ndarray:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return np.asarray(decode_image(file.getvalue(), mode, size))


def test_sixteen_bits_of_grey_become_eight():
    values = np.array([0, 128, 129, 255, 1000, 32896, 65406, 65535], dtype=np.uint16)
    image = Image.fromarray(np.tile(values, (8, 1)))
    expected = [0, 0, 1, 1, 4, 128, 254, 255]
    for kind in ("PNG", "TIFF"):
        assert decoded(image, kind, "L")[0].tolist() == expected
        assert decoded(image, kind)[0].tolist() == [[value] * 3 for value in expected]
    assert decoded(Image.fromarray(np.eye(8, dtype=bool)), mode="L").tolist() == (255 * np.eye(8)).tolist()


def test_what_is_transparent_is_white():
    pixels = np.zeros((8, 8, 4), dtype=np.uint8)  # black, and white shows through by three columns' alpha
    pixels[:, :3, 3] = 0, 51, 255
    expected = [255, 204, 0, 255, 255, 255, 255, 255]
    assert decoded(Image.fromarray(pixels))[0].tolist() == [[value] * 3 for value in expected]
    assert decoded(Image.fromarray(pixels[:, :, 2:]), mode="L")[0].tolist() == expected
    palette = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8), "L").convert("P")
    for kind in ("PNG", "GIF"):
        found = decoded(palette, kind, transparency=9)
        assert found[1, 1].tolist() == [255] * 3 and found[0].tolist() == [[value] * 3 for value in range(8)]
    opaque = np.random.default_rng(0).integers(0, 256, (20, 30, 4), dtype=np.uint8)
    opaque[:, :, 3] = 255
    assert np.array_equal(decoded(Image.fromarray(opaque)), decoded(Image.fromarray(opaque[:, :, :3])))


# EXIF orientation: (mirrored, quarter turns against the clock) from the upright image
AS_TAKEN = {
    1: (False, 0), 2: (True, 0), 3: (False, 2), 4: (True, 2), 5: (True, 1), 6: (False, 1), 7: (True, 3), 8: (False, 3)
}  # fmt: skip


@pytest.mark.parametrize("kind", ["JPEG", "TIFF", "PNG"])
def test_photos_are_upright(kind):
    upright = np.zeros((8, 8, 3), dtype=np.uint8)
    upright[:4, :4] = 200
    upright[:4, 4:] = 100
    options = {"quality": 95, "subsampling": 0} if kind == "JPEG" else {}
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        mirrored, turns = AS_TAKEN[orientation]
        taken = np.rot90(upright[:, ::-1] if mirrored else upright, turns)
        found = decoded(Image.fromarray(np.ascontiguousarray(taken)), kind, exif=exif, **options)
        assert np.abs(found.astype(int) - upright).max() < 4, orientation


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_damaged_note_of_the_camera_spoils_no_image():
    image = Image.new("RGB", (8, 8), (10, 100, 200))
    for note in (b"Exif\0\0", b"Exif\0\0nonsense", b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01"):
        assert np.abs(decoded(image, "JPEG", exif=note).astype(int) - (10, 100, 200)).max() < 3


def test_pixels_of_unknown_range_are_not_decoded():
    for values in (np.ones((8, 8), dtype=np.float32), np.ones((8, 8), dtype=np.int32)):
        with pytest.raises(UndecodableImage, match="32 bits a pixel"):
            decoded(Image.fromarray(values), "TIFF")
