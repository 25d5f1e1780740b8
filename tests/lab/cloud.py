"""A cloud within this machine: EC2, IAM, CloudFormation and S3 by moto, and a machine (machines.py) for every running
instance.

Between its users and moto sits a server of its own that can refuse spot instances as EC2 does where it has none left,
and that is the instances' metadata service, with the notice that a spot instance gets before it is taken away.
"""

import http.server
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
from machines import Machine, Network, sh
from waiting import until

GATEWAY, METADATA = "172.31.255.254", "169.254.169.254"
MOTO, API = f"http://{GATEWAY}:5555", f"http://{GATEWAY}:5556"
REGION = "us-west-2"
ACCESS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
SEEN = {"AWS_ENDPOINT_URL": API, "AWS_ENDPOINT_URL_S3": MOTO, **ACCESS}
"""How the cloud is reached, by the laptop and by the instances."""

NO_CAPACITY = b"""<?xml version="1.0"?>
<Response><Errors><Error><Code>InsufficientInstanceCapacity</Code>
<Message>There is no Spot capacity available that matches your request.</Message></Error></Errors>
<RequestID>none</RequestID></Response>"""
NVIDIA_SMI = "#!/bin/sh\necho 'GPU 0: simulated'\n"


class Cloud:
    """On from `start` to `stop`. folder: for the machines' files. home: the laptop's, with its keys.

    spot: whether there is capacity. refused: the number of refused spot requests.
    """

    def __init__(self, folder: Path, home: Path):
        self.folder, self.home, self.refused = folder, home, 0
        self.network = Network("br-ec2", (f"{GATEWAY}/16", f"{METADATA}/32"))
        self.spot = True
        self.machines: dict[str, Machine] = {}  # by instance
        self.notices: dict[str, str] = {}  # by address: when it is taken away
        self._ending = threading.Event()

    def start(self) -> None:
        self.network.create()
        command = [str(Path(sys.executable).with_name("moto_server")), "-H", GATEWAY, "-p", "5555"]
        environ = {"MOTO_IAM_LOAD_MANAGED_POLICIES": "true", "PATH": "/usr/bin:/bin"}
        with open(self.folder / "moto.log", "wb") as log:
            self._moto = subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT)
        until(_answers, 600)
        self._servers = [_serve(self, GATEWAY, 5556, Proxy), _serve(self, METADATA, 80, Metadata)]
        self.ec2 = boto3.client(
            "ec2", endpoint_url=MOTO, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
        )
        self._following = threading.Thread(target=self._follow, daemon=True)
        self._following.start()

    def stop(self) -> None:
        self._ending.set()
        self._following.join()
        for machine in self.machines.values():
            machine.power_off()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._moto.terminate()
        self._moto.wait()
        self.network.remove()

    def instances(self, *states: str, role: str | None = None) -> list[dict]:
        """Instances in one of the states ("pending", "running", ...; all that are not terminated by default)."""
        states = states or ("pending", "running", "shutting-down", "stopping", "stopped")
        found = [instance for group in self.ec2.describe_instances()["Reservations"] for instance in group["Instances"]]
        return [
            one for one in found if one["State"]["Name"] in states and role in (None, tags(one).get("ray-node-type"))
        ]

    def take_away(self, instance: dict, notice: float = 0) -> None:
        """End an instance, after so many seconds of notice."""
        if notice:
            at = datetime.now(UTC) + timedelta(seconds=notice)
            self.notices[instance["PrivateIpAddress"]] = f"{at:%Y-%m-%dT%H:%M:%SZ}"
            time.sleep(notice)
        self.ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])

    def _follow(self) -> None:
        """Switch machines on and off as instances come and go."""
        while not self._ending.wait(0.5):
            running = {one["InstanceId"]: one for one in self.instances("running")}
            for gone in set(self.machines) - set(running):
                self.machines.pop(gone).power_off()
            for new in set(running) - set(self.machines):
                self.machines[new] = self._machine(running[new])
                self.machines[new].boot()

    def _machine(self, instance: dict) -> Machine:
        name = f"e{instance['InstanceId'][-7:]}"
        addresses = (f"{instance['PrivateIpAddress']}/16", f"{instance['PublicIpAddress']}/32")
        key = sh("ssh-keygen", "-y", "-f", str(self.home / ".ssh" / f"{instance['KeyName']}.pem"))
        variables = {**SEEN, "TUNE_CD_SIMULATED_GPUS": "1"}
        return Machine(name, self.network, self.folder / name, addresses, key, variables, {"nvidia-smi": NVIDIA_SMI})


def tags(instance: dict) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}


def _answers() -> bool:
    try:
        return urllib.request.urlopen(f"{MOTO}/moto-api/", timeout=2).status == 200
    except OSError:
        return False


def _serve(cloud: Cloud, address: str, port: int, handler: type) -> http.server.ThreadingHTTPServer:
    server = http.server.ThreadingHTTPServer((address, port), handler)
    server.daemon_threads, server.cloud = True, cloud
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, code: int, body: bytes, headers=()) -> None:
        self.send_response(code)
        for name, value in headers:
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "server", "date"):
                self.send_header(name, value)
        head = self.command == "HEAD"
        self.send_header("Content-Length", dict(headers).get("Content-Length", "0") if head else str(len(body)))
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class Metadata(Handler):
    """Version 2 of EC2's: a token first."""

    def do_PUT(self):
        self.answer(200, b"token") if self.path == "/latest/api/token" else self.answer(404, b"")

    def do_GET(self):
        notice = self.server.cloud.notices.get(self.client_address[0])
        if self.headers.get("X-aws-ec2-metadata-token") != "token":
            self.answer(401, b"")
        elif self.path == "/latest/meta-data/spot/instance-action" and notice:
            self.answer(200, json.dumps({"action": "terminate", "time": notice}).encode())
        else:
            self.answer(404, b"")


class Proxy(Handler):
    """Moto's door, where spot instances may be refused."""

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = urllib.parse.parse_qs(body.decode(errors="replace"))
        if query.get("Action") == ["RunInstances"]:
            spot = query.get("InstanceMarketOptions.MarketType") == ["spot"]
            if spot and not self.server.cloud.spot:
                self.server.cloud.refused += 1
                return self.answer(500, NO_CAPACITY, [("Content-Type", "text/xml")])
        skipped = ("connection", "accept-encoding", "expect")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in skipped}
        request = urllib.request.Request(MOTO + self.path, data=body or None, method=self.command, headers=headers)
        try:
            response = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            self.answer(response.status, response.read(), response.headers.items())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward
