"""What a trial ran on."""

import platform
from functools import cache
from importlib import metadata

PACKAGES = ("tune_cd", "ray", "torch", "torchvision", "numpy")


@cache
def software() -> dict[str, str]:
    """Versions of what matters to a training's numbers, name -> version; packages that are absent are left out."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
