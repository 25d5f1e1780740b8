"""Rules for `ray up` on AWS. EC2's own description of its calls comes with botocore; nothing is asked of AWS."""

import functools
import re
from collections.abc import Iterator

from .documents import Document, at
from .every import PLACEHOLDER
from .fields import compare
from .findings import Finding
from .launcher import node, node_types, shared, workers

KINDS = {
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "string": "string",
}


@functools.cache
def run_instances() -> dict:
    """What EC2's RunInstances takes, in JSON-schema's words, and `SubnetIds`, of which Ray takes one at a time."""
    from botocore.session import get_session

    schema = _schema(get_session().get_service_model("ec2").operation_model("RunInstances").input_shape)
    schema["properties"]["SubnetIds"] = {"type": "array", "items": {"type": "string"}}
    return schema | {"required": []}  # MinCount and MaxCount are Ray's to give


def _schema(shape) -> dict:
    if shape.type_name == "structure":
        members = {name: _schema(member) for name, member in shape.members.items()}
        return {"type": "object", "properties": members, "required": shape.required_members}
    if shape.type_name == "list":
        return {"type": "array", "items": _schema(shape.member)}
    if shape.type_name == "map":
        return {"type": "object", "additionalProperties": _schema(shape.value)}
    if shape.type_name not in KINDS:
        return {}  # timestamps and bytes, written in several ways
    return {"type": KINDS[shape.type_name], "enum": getattr(shape, "enum", [])}


def fields_exist(document: Document) -> Iterator[Finding]:
    """A misspelt field shows when the first node of that type is asked for, or, deep inside, as a machine without it."""
    for name, kind in node_types(document).items():
        yield from compare(
            at(kind, "node_config", default={}), run_instances(), "EC2's RunInstances", node(name, "node_config")
        )


def image_is_current(document: Document) -> Iterator[Finding]:
    """Without one Ray takes its own default of many years ago, whose driver no current torch runs on."""
    configs = {name: at(kind, "node_config", default={}) for name, kind in node_types(document).items()}
    old = [
        name
        for name, config in configs.items()
        if at(config, "ImageId") in (None, "latest_dlami") and "LaunchTemplate" not in config
    ]
    yield from shared(old, "node_config", "no ImageId: Ray's default is Ubuntu 18.04 with CUDA 11.2")


def zones_of_the_region(document: Document) -> Iterator[Finding]:
    """In a zone of another region no subnet is found, after the security group has been made."""
    region, zones = at(document.data, "provider", "region"), at(document.data, "provider", "availability_zone")
    if not isinstance(region, str) or not isinstance(zones, str) or PLACEHOLDER in region + zones:
        return
    for zone in (part.strip() for part in zones.split(",")):
        if not re.fullmatch(re.escape(region) + r"(-\w+-\d)?[a-z]", zone):
            yield Finding(("provider", "availability_zone"), f"{zone} is no zone of {region}")


def disks_end_with_their_node(document: Document) -> Iterator[Finding]:
    """A disk that outlives its node is billed until somebody finds it."""
    for name, kind in node_types(document).items():
        for index, device in enumerate(at(kind, "node_config", "BlockDeviceMappings", default=[])):
            if at(device, "Ebs", "DeleteOnTermination", default=None) is False:
                place = node(name, "node_config", "BlockDeviceMappings", index, "Ebs", "DeleteOnTermination")
                yield Finding(place, "must be true: a disk that outlives its node stays on the bill")


def workers_may_write(document: Document) -> Iterator[Finding]:
    """Ray gives the head a profile and workers none: with results on S3 the first row of the first trial fails."""
    if not any("s3://" in line for line in document.text):
        return
    configs = {name: at(kind, "node_config", default={}) for name, kind in workers(document).items()}
    without = [name for name, config in configs.items() if not config.keys() & {"IamInstanceProfile", "LaunchTemplate"}]
    yield from shared(
        without, "node_config", "no IamInstanceProfile: workers get none by default, and results lie on S3"
    )


RULES = [fields_exist, image_is_current, zones_of_the_region, disks_end_with_their_node, workers_may_write]
