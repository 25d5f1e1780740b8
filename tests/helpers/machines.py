"""Machines within this one, for tests of real clusters: network, mount, process, name and IPC namespaces, with an sshd
in each.

They share this machine's files, but have a home, a /tmp, a /dev/shm and installed packages of their own (a layer on top
of the environment that runs the tests, so that nothing is downloaded and nothing that they install stays). Needs root,
iproute2, openssh-server and rsync.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = Path(sys._base_executable).parent
ENVIRONMENT = Path(sys.prefix)
TOOLS = ("ip", "/usr/sbin/sshd", "ssh-keygen", "rsync", "unshare", "tmux")

MAC = "02:74:63:64:00:01"
"""A bridge without one of its own takes one from a machine on it, and is out of reach for a while when that is switched
off."""

INIT = """set -e
hostname {name}
mount -t overlay overlay -o lowerdir={environment},upperdir={root}/upper,workdir={root}/work {environment}
{kept}
{user}
mount --rbind {root}/home {home}
mount -t tmpfs -o size=2g tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
mount --rbind {root}/tmp /tmp
exec /usr/sbin/sshd -D -e -o HostKey={root}/hostkey -o PermitRootLogin=prohibit-password -o UsePAM=no -o PidFile=none \\
  -o StrictModes=no
"""


def missing() -> str | None:
    """Why there can be no such machines here; None where there can."""
    if os.geteuid() != 0:
        return "machines within this one need root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return (
        f"machines within this one need {', '.join(absent)} (Debian: iproute2 openssh-server rsync tmux)"
        if absent
        else None
    )


def sh(*command: str, check: bool = True) -> str:
    """What a command prints; raises CalledProcessError with what it complained of."""
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, f"{done.stdout}{done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class Network:
    """A bridge of this machine, with the addresses (CIDR) under which the machines on it reach this one."""

    name: str
    addresses: tuple[str, ...]

    def create(self) -> None:
        self.remove()  # of a test that was killed
        sh("ip", "link", "add", self.name, "address", MAC, "type", "bridge")
        for address in self.addresses:
            sh("ip", "address", "add", address, "dev", self.name)
        sh("ip", "link", "set", self.name, "up")

    def remove(self) -> None:
        sh("ip", "link", "delete", self.name, check=False)

    @property
    def gateway(self) -> str:
        return self.addresses[0].partition("/")[0]


@dataclass
class Machine:
    """A machine: on from `boot` to `power_off`, which is a power cut.

    folder: for its files, outside of /tmp and of homes.  addresses: CIDR, the first is its own.  home: of the user that
    logs in, whose number is 0.  keep: folders of this machine below /tmp or a home that it sees as well.
    variables: of every shell.  commands: programs of its own, name -> script.
    """

    name: str
    network: Network
    folder: Path
    addresses: tuple[str, ...]
    key: str  # public, of who may log in
    user: str = "root"
    home: Path = Path("/root")
    keep: tuple[Path, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    _init: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return self.addresses[0].partition("/")[0]

    def boot(self) -> None:
        """Switch it on; a machine that was on before keeps its home and its packages, and has lost /tmp."""
        for process in sh("ip", "netns", "pids", self.name, check=False).split():  # of a test that was killed
            os.kill(int(process), signal.SIGKILL)
        self.power_off()
        self._prepare()
        link = f"v{self.name}"[:15]
        sh("ip", "netns", "add", self.name)
        sh("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        sh("ip", "link", "set", link, "master", self.network.name, "up")
        for address in self.addresses:
            sh("ip", "-n", self.name, "address", "add", address, "dev", "eth0")
        for device in ("eth0", "lo"):
            sh("ip", "-n", self.name, "link", "set", device, "up")
        sh("ip", "-n", self.name, "route", "add", "default", "via", self.network.gateway)
        for address in self.addresses[1:]:
            sh(
                "ip",
                "route",
                "replace",
                address.partition("/")[0],
                "dev",
                self.network.name,
                "src",
                self.network.gateway,
            )
        apart = ["unshare", "--pid", "--mount", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
        with open(self.folder / "console.log", "ab") as console:
            self._init = subprocess.Popen(
                ["ip", "netns", "exec", self.name, *apart, "bash", str(self.folder / "init.sh")],
                stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            )  # fmt: skip

    def power_off(self) -> None:
        """Pull the plug: nothing on it ends in good order, and who talks to it hears nothing."""
        sh("ip", "link", "delete", f"v{self.name}"[:15], check=False)
        if self._init is not None:
            self._init.send_signal(signal.SIGKILL)
            self._init.wait()
            self._init = None
        for address in self.addresses[1:]:
            sh("ip", "route", "delete", address.partition("/")[0], check=False)
        sh("ip", "netns", "delete", self.name, check=False)

    @property
    def on(self) -> bool:
        return self._init is not None and self._init.poll() is None

    def _prepare(self) -> None:
        root = self.folder
        shutil.rmtree(root / "tmp", ignore_errors=True)
        for folder in ("home/.ssh", "tmp", "upper", "work", "bin"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "home/.ssh").chmod(0o700)
        (root / "tmp").chmod(0o1777)
        (root / "home/.ssh/authorized_keys").write_text(self.key)
        for name, script in self.commands.items():
            (root / "bin" / name).write_text(script)
            (root / "bin" / name).chmod(0o755)
        if not (root / "home/venv").is_symlink():
            (root / "home/venv").symlink_to(ENVIRONMENT)
            variables = {
                "PIP_NO_INDEX": "1",
                "PIP_NO_BUILD_ISOLATION": "0",
                "RAY_USAGE_STATS_ENABLED": "0",
                **self.variables,
            }
            lines = [
                f"export PATH={root}/bin:{PYTHON}:$PATH",
                *(f"export {name}='{value}'" for name, value in variables.items()),
            ]
            (root / "home/.bashrc").write_text("\n".join(lines) + "\n")
        if not (root / "hostkey").exists():
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / "hostkey"))
        (root / "passwd").write_text(f"{self.user}:x:0:0::{self.home}:/bin/bash\n{Path('/etc/passwd').read_text()}")
        user = f"mount --bind {root}/passwd /etc/passwd"
        if self.home != Path("/root"):
            user += f"\nmount -t tmpfs tmpfs /home\nmkdir -p {self.home}"
        kept = "\n".join(f"mkdir -p {place}\nmount --bind {source} {place}" for source, place in self._kept())
        text = INIT.format(name=self.name, root=root, environment=ENVIRONMENT, kept=kept, user=user, home=self.home)
        (root / "init.sh").write_text(text)

    def _kept(self) -> list[tuple[Path, Path]]:
        """(folder, where it goes so that it is seen below what is put over /tmp and the home)."""
        over = {Path("/tmp"): self.folder / "tmp", self.home: self.folder / "home"}
        wanted = {PYTHON.parent, ENVIRONMENT, *self.keep}
        return [
            (path, below / path.relative_to(hidden))
            for path in sorted(wanted)
            for hidden, below in over.items()
            if path.is_relative_to(hidden)
        ]


def until(what, seconds: float, wait: float = 0.5):
    """The first true value of what() within so many seconds; raises TimeoutError with the last one."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {value!r}")
        time.sleep(wait)
