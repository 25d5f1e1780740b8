"""All private API of Ray that clusters need, in one place; where a public one falls short, the function says why.

Called in Ray 2.60.0 (`tests/cluster/test_ray_internals.py` calls every function). The same names are in the source of
2.40.0. All exceptions come from Ray.
"""

import contextlib
import copy
import io
import json
from collections import Counter
from pathlib import Path


def draining_nodes() -> set[str]:
    """Ids of nodes that take no new work. `ray.nodes()` shows them as alive."""
    import ray

    return set(ray._private.state.state.get_draining_nodes())


def recorded_cluster() -> str | None:
    """The address of the cluster that `ray start` last began on this machine, dead or alive; None without one.
    `ray.init()` joins it, and tries for nine minutes if it is dead."""
    from ray._private.services import find_bootstrap_address

    return find_bootstrap_address(None)


def kuberay_config(raycluster: dict) -> dict:
    """The cluster file that KubeRay's autoscaler makes of a RayCluster resource, resources of pods included."""
    from ray.autoscaler._private.kuberay import autoscaling_config

    return autoscaling_config._derive_autoscaling_config_from_ray_cr(raycluster)


def kubernetes_raycluster(name: str, namespace: str) -> dict:
    """The RayCluster resource, read with the pod's service account. Raises OSError if it cannot be read."""
    from ray.autoscaler._private.kuberay import node_provider

    return node_provider.KubernetesHttpApiClient(namespace).get(f"rayclusters/{name}")  # requests' errors are OSErrors


def starting_nodes() -> Counter[str]:
    """Node type -> nodes that the cloud has granted and that are being set up; empty without an autoscaler, and with
    one of version 1, which `ray up` starts for machines of one's own alone."""
    import ray
    from ray.autoscaler.v2.sdk import get_cluster_status

    status = get_cluster_status(ray.get_runtime_context().gcs_address)
    return Counter(node.ray_node_type_name for node in status.pending_nodes)


def refusals(config: dict) -> list[tuple[tuple, str]]:
    """(place, message) of everything for which `ray up` refuses a file before it contacts anything.

    First what its schema refuses in the file as it is written: Ray applies it after it has filled in defaults, which
    fails for values of the wrong kind, and names none. Then Ray's own preparation and validation.
    """
    import jsonschema
    import ray.autoscaler
    from ray.autoscaler._private import util

    schema = json.loads(Path(ray.autoscaler.__file__).with_name("ray-schema.json").read_text("utf-8"))
    known = {key: value for key, value in config.items() if key in schema["properties"]}
    errors = jsonschema.Draft7Validator(schema | {"required": ["provider"]}).iter_errors(known)
    if found := [(tuple(error.absolute_path), error.message) for error in errors]:
        return found
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            util.validate_config(util.prepare_config(copy.deepcopy(config)))
    except ModuleNotFoundError:
        raise
    except Exception as error:  # a ValidationError, or whatever else Ray raises, its own abort included
        return [((), getattr(error, "message", "") or str(error) or said.getvalue() or type(error).__name__)]
    return []
