"""Small data in the original layouts of the datasets, for the tests of datasets; no test in here."""

import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from trainables.datasets import load_dataset

BACKGROUND = {"Balinese": 2, "Greek": 3, "Latin": 2}
EVALUATION = {"Tengwar": 3}
WNIDS = ("n01443537", "n02132136")
SOP_HEADER = b"image_id class_id super_class_id path\n"


def encoded(pixels: np.ndarray, kind: str, mode: str | None = None) -> bytes:
    image, file = Image.fromarray(pixels), BytesIO()
    (image.convert(mode) if mode else image).save(file, kind, **({"quality": 95} if kind == "JPEG" else {}))
    return file.getvalue()


def omniglot_files(background=BACKGROUND, evaluation=EVALUATION, images=4) -> dict[str, bytes]:
    """Original layout; the n-th image of the data has its first n rows in ink."""
    files = {}
    for part, alphabets in (("images_background", background), ("images_evaluation", evaluation)):
        for alphabet, characters in alphabets.items():
            for character in range(1, characters + 1):
                for drawer in range(1, images + 1):
                    pixels = np.full((105, 105), 255, dtype=np.uint8)
                    pixels[: len(files) + 1] = 0
                    name = f"{part}/{alphabet}/character{character:02d}/{character:04d}_{drawer:02d}.png"
                    files[name] = encoded(pixels, "PNG", mode="1")
    return files


def tiny_files(train=20, val=2) -> dict[str, bytes]:
    """Original layout; images are bright in the first class, dark in the second; each class has one in greyscale."""
    files = {"wnids.txt": "\n".join(WNIDS).encode(), "words.txt": b""}
    lines = []
    for label, wnid in enumerate(WNIDS):
        for k in range(train):
            pixels = np.full((64, 64) if k == 0 else (64, 64, 3), 200 - 150 * label + k, dtype=np.uint8)
            files[f"train/{wnid}/images/{wnid}_{k}.JPEG"] = encoded(pixels, "JPEG")
        files[f"train/{wnid}/{wnid}_boxes.txt"] = b""
        for k in range(val):
            pixels = np.full((64, 64, 3), (200 - 150 * label, 100, 30), dtype=np.uint8)
            files[f"val/images/val_{k * 2 + label}.JPEG"] = encoded(pixels, "JPEG")
            lines.append(f"val_{k * 2 + label}.JPEG\t{wnid}\t0\t0\t63\t63")
    files["val/val_annotations.txt"] = "\n".join(sorted(lines)).encode()
    files["test/images/test_0.JPEG"] = b"not looked at"
    return {f"tiny-imagenet-200/{name}": data for name, data in files.items()}


def marked(label: int, number: int) -> bytes:
    """A photo: its red is 5 x its class, its blue marks the left and right border (cropped away)."""
    pixels = np.zeros((12, 16, 3), dtype=np.uint8)
    pixels[..., 0] = 5 * label
    pixels[:, :2, 2] = pixels[:, 14:, 2] = 255
    return encoded(pixels, "PNG")  # lossless, as the border matters


def sop_files(training=20, test=3, images=2, image=marked) -> dict[str, bytes]:
    """Original layout."""
    files, lists, number = {}, {"train": [], "test": []}, 0
    for label in range(1, training + test + 1):
        split = "train" if label <= training else "test"
        for k in range(images):
            number += 1
            name = f"{('bicycle', 'chair')[label % 2]}_final/{1000 + label}_{k}.JPG"
            files[name] = image(label, k)
            lists[split].append(f"{number} {label} {1 + label % 2} {name}")
    for split, lines in lists.items():
        files[f"Ebay_{split}.txt"] = SOP_HEADER + "\n".join(lines).encode() + b"\n"
    files["Ebay_info.txt"] = b"not looked at"
    return {f"Stanford_Online_Products/{name}": data for name, data in files.items()}


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def photo(label: int, number: int) -> bytes:
    """A class is a colour and a stripe; the images of a class differ by noise."""
    pixels = np.random.default_rng(100 * label + number).integers(0, 60, (40, 48, 3))
    pixels[..., label % 3] += 90 + 8 * label
    pixels[3 * label : 3 * label + 4] += 60
    return encoded(pixels.clip(0, 255).astype(np.uint8), "JPEG")


def photos(root: Path) -> Path:
    """A user's own folder: ten images each of twelve classes."""
    names = ((label, number) for label in range(12) for number in range(10))
    return write_folder(root / "mine", {f"class {label}/{number}.jpg": photo(label, number) for label, number in names})


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def parts(files: dict[str, bytes], part: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name.startswith(part)}


def splits(dataset):
    return dataset.train, dataset.validation, dataset.test


def load_omniglot(root, image_size=28):
    return load_dataset("omniglot", root, image_size=image_size)
