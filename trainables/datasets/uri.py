"""Where data may lie beside a path: an archive behind http(s) or in an object store, or all objects below a prefix.

Checked without connecting to anything. Secrets have no place in such an address, it would end up in logs and files: what
may be one is refused, and not repeated.
"""

import os
import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from urllib.parse import parse_qsl, unquote

ALLOWED = (
    "a local path, s3://BUCKET/KEY.zip, gs://BUCKET/KEY.zip, http[s]://HOST/FILE.zip, and s3://BUCKET/PREFIX/ or gs://BUCKET/PREFIX/ "
    "for all objects below it, each with #sha256=DIGEST behind it or not"
)
OPTIONS = {
    "s3": ("region", "endpoint_override", "scheme"),
    "gs": ("endpoint_override", "scheme", "project_id", "retry_limit_seconds"),
}
"""Query parameters, as `pyarrow.fs.FileSystem.from_uri` understands them; a web address has none, it may be a signature."""

CHECKED = {
    "scheme": (re.compile("https?"), "http or https"),
    "retry_limit_seconds": (re.compile(r"\d{1,6}(\.\d+)?"), "a number of seconds"),
    "endpoint_override": (
        re.compile(r"(https?://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?/?"),
        "[http[s]://]HOST[:PORT]",
    ),
    "region": (re.compile(r"[A-Za-z0-9_-]+"), "of letters, digits, _ and -"),
    "project_id": (re.compile(r"[A-Za-z0-9.:-]+"), "of letters, digits, . : and -"),
}
"""What a parameter may be, in its decoded form."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(/?)(.*)", re.DOTALL)  # a single letter would be a drive of Windows
_HOST = {
    "store": (re.compile(r"[a-z0-9][a-z0-9._-]{1,200}[a-z0-9]"), "a bucket's name has 3 or more of a-z 0-9 . _ -"),
    "web": (re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?"), "HOST or HOST:PORT comes first"),
}
_SEGMENT = {  # of a path: nothing that means another folder, no credentials
    "store": (
        re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~=+!(), -]+"),
        "A-Z a-z 0-9 . _ ~ = + ! ( ) , - and blanks are, but not . and ..",
    ),
    "web": (
        re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~=+!(),%;&$'*-]+"),
        "A-Z a-z 0-9 . _ ~ = + ! ( ) , % ; & $ ' * - are, but not . and ..",
    ),
}
_FRAGMENT = re.compile(r"sha256=([0-9A-Fa-f]{64})")
LONGEST = 100  # characters of a copy's name


@dataclass(frozen=True)
class Address:
    """An archive, or a prefix of an object store.

    scheme: s3, gs, http or https.  host: the bucket, or the server with its port.  path: behind it, without the first
    slash; of a prefix "" (all of the bucket) or with a slash at its end.  sha256: the digest that the content must have,
    64 lower-case hexadecimal digits, or None.  anonymous: read without credentials (gs alone).
    """

    scheme: str
    host: str
    path: str
    options: tuple[tuple[str, str], ...] = ()
    anonymous: bool = False
    sha256: str | None = None

    @property
    def is_web(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_prefix(self) -> bool:
        return not self.path or self.path.endswith("/")

    @property
    def uri(self) -> str:
        """Without the digest: where, not what."""
        query = "&".join(f"{name}={value}" for name, value in self.options)
        return f"{self.scheme}://{'anonymous@' if self.anonymous else ''}{self.host}/{self.path}{f'?{query}' if query else ''}"

    def pinned(self, sha256: str) -> str:
        """What `parse` takes for this place and that content."""
        return f"{self.uri}#sha256={sha256}"

    @property
    def name(self) -> str:
        """Of the local copy: the last part of the path, with letters, digits, '_', '.' and '-' alone, and not hidden."""
        last = self.path.rstrip("/").rpartition("/")[2] or self.host
        return re.sub(r"[^A-Za-z0-9_.-]+", "_", unquote(last))[-LONGEST:].lstrip(".") or "data"

    @property
    def stem(self) -> str:
        return self.name if self.is_prefix else Path(self.name).stem

    def key(self, version: str | None) -> str:
        """24 hexadecimal digits for this place and that version of what lies there."""
        return blake2b(repr((self.uri, version)).encode(), digest_size=12).hexdigest()


def is_uri(place: str | os.PathLike) -> bool:
    """Whether a place is more than a path of this machine."""
    return _URI.match(os.fspath(place)) is not None and not Path(place).exists()


def parse(uri: str | os.PathLike, what: str = "the data root") -> Address:
    """The address that a URI stands for. Raises ValueError, which begins with `what`, for another scheme, and for anything
    that has no place in an address or may be a secret; that is not repeated."""
    match = _URI.fullmatch(os.fspath(uri))
    if match is None:
        raise ValueError(f"{what} is no URI; {ALLOWED} are allowed")
    scheme, slash, rest = match[1].lower(), match[2], match[3]
    if scheme not in ("http", "https", *OPTIONS):
        raise ValueError(f"{what} is a URI of the kind {scheme}://, which is not allowed; {ALLOWED} are")
    if not slash:
        raise ValueError(
            f"{what} is a URI with one slash, {scheme}:/; give it as text with two, pathlib.Path takes one out"
        )
    rest, hash_sign, fragment = rest.partition("#")
    pin = _FRAGMENT.fullmatch(fragment)
    if hash_sign and not pin:
        raise ValueError(
            f"{what} is a URI with something behind # that is not repeated here; #sha256= and 64 hexadecimal digits are allowed"
        )
    address = _web(scheme, rest, what) if scheme in ("http", "https") else _store(scheme, rest, what)
    return replace(address, sha256=pin[1].lower() if pin else None)


def _web(scheme: str, rest: str, what: str) -> Address:
    if "?" in rest or "@" in rest:
        raise ValueError(
            f"{what} is a URI with a user, a password or a query, which is not repeated here and may hold a secret; {scheme}://HOST/FILE.zip is allowed"
        )
    host, path = _checked(scheme, rest, "web", what)
    return _archive(Address(scheme, host, path), what)


def _store(scheme: str, rest: str, what: str) -> Address:
    anonymous = scheme == "gs" and rest.startswith("anonymous@")
    rest = rest.removeprefix("anonymous@") if anonymous else rest
    place, _, query = rest.partition("?")
    if "@" in rest or ":" in place:  # a secret may hold any character, so nothing of such a URI is repeated
        raise ValueError(
            f"{what} is a URI with credentials ({scheme}://…@…), which is not repeated here; give them as the store's own environment "
            "variables, its configuration file, or the machine's role"
        )
    bucket, path = _checked(scheme, place, "store", what)
    options = parse_qsl(query, keep_blank_values=True)
    if any(name not in OPTIONS[scheme] or not value for name, value in options) or (query and not options):
        raise ValueError(
            f"{what} {scheme}://{bucket}/{path}?…: a query parameter is not allowed; {', '.join(OPTIONS[scheme])} are, each with a value"
        )
    for name, value in options:
        allowed, meaning = CHECKED[name]
        if not allowed.fullmatch(value):
            raise ValueError(f"{what} {scheme}://{bucket}/{path}?{name}=…: {name} is {meaning}")
    return _archive(Address(scheme, bucket, path, tuple(sorted(options)), anonymous), what)


def _checked(scheme: str, place: str, kind: str, what: str) -> tuple[str, str]:
    """(host, path) of HOST/PATH."""
    host, slash, path = place.partition("/")
    allowed, meaning = _HOST[kind]
    if not allowed.fullmatch(host) or not slash:
        raise ValueError(
            f"{what} is a URI {scheme}:// without a place that can be read, and not repeated here: {meaning}, then /; {ALLOWED} are allowed"
        )
    allowed, meaning = _SEGMENT[kind]
    for segment in path.removesuffix("/").split("/") if path else []:
        if not allowed.fullmatch(segment):
            raise ValueError(f"{what} {scheme}://{host}/…: {segment!r} is not allowed in a path; {meaning}")
    return host, path


def _archive(address: Address, what: str) -> Address:
    """The address, if it names a zip archive or a prefix."""
    if address.is_prefix and address.is_web:
        raise ValueError(
            f"{what} {address.uri}: a web server cannot be asked for all files below an address; {ALLOWED} are allowed"
        )
    if not address.is_prefix and not address.path.lower().endswith(".zip"):
        raise ValueError(
            f"{what} {address.uri}: neither an archive (.zip) nor a prefix, which ends in /; {ALLOWED} are allowed"
        )
    return address
