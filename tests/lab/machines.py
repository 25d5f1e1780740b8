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
from dataclasses import dataclass
from pathlib import Path

PYTHON = Path(sys._base_executable).parent
ENVIRONMENT = Path(sys.prefix)
TOOLS = ("ip", "/usr/sbin/sshd", "ssh-keygen", "rsync", "unshare", "tmux")
USER, HOME = "ubuntu", Path("/home/ubuntu")  # the one that logs in, whose number is 0

MAC = "02:74:63:64:00:01"
"""A bridge without one of its own takes one from a machine on it, and is out of reach for a while when that is switched
off."""

INIT = """set -e
hostname {name}
mount -t overlay overlay -o lowerdir={environment},upperdir={root}/upper,workdir={root}/work {environment}
{kept}
mount --bind {root}/passwd /etc/passwd
mount -t tmpfs tmpfs /home
mkdir -p {home}
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

    folder: for its files, outside of /tmp and of homes. addresses: CIDR, the first is its own. key: public, of the user
    who may log in. variables: of every shell. commands: programs of its own, name -> script.
    """

    name: str
    network: Network
    folder: Path
    addresses: tuple[str, ...]
    key: str
    variables: dict[str, str]
    commands: dict[str, str]
    _init: subprocess.Popen | None = None

    def boot(self) -> None:
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
            bare = address.partition("/")[0]
            sh("ip", "route", "replace", bare, "dev", self.network.name, "src", self.network.gateway)
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

    def _prepare(self) -> None:
        root = self.folder
        for folder in ("home/.ssh", "tmp", "upper", "work", "bin"):
            (root / folder).mkdir(parents=True)
        (root / "home/.ssh").chmod(0o700)
        (root / "tmp").chmod(0o1777)
        (root / "home/.ssh/authorized_keys").write_text(self.key)
        for name, script in self.commands.items():
            (root / "bin" / name).write_text(script)
            (root / "bin" / name).chmod(0o755)
        (root / "home/venv").symlink_to(ENVIRONMENT)
        own = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "RAY_USAGE_STATS_ENABLED": "0"}
        lines = [f"export {name}='{value}'" for name, value in (own | self.variables).items()]
        (root / "home/.bashrc").write_text("\n".join([f"export PATH={root}/bin:{PYTHON}:$PATH", *lines, ""]))
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / "hostkey"))
        (root / "passwd").write_text(f"{USER}:x:0:0::{HOME}:/bin/bash\n{Path('/etc/passwd').read_text()}")
        seen = [  # folders below /tmp, over which another is put
            (path, root / "tmp" / path.relative_to("/tmp"))
            for path in (PYTHON.parent, ENVIRONMENT)
            if path.is_relative_to("/tmp")
        ]
        kept = "\n".join(f"mkdir -p {place}\nmount --bind {source} {place}" for source, place in seen)
        text = INIT.format(name=self.name, root=root, environment=ENVIRONMENT, kept=kept, home=HOME)
        (root / "init.sh").write_text(text)
