"""One voice for all studies of a cluster: adds up the on-demand nodes they ask for, and forgets those of dead drivers.

`ray.autoscaler.sdk.request_resources` is one wish for the whole cluster: the last call replaces it, and it stays, and
costs money, after whoever made it has died. So a small detached actor on the head makes it for all studies; a study
renews its part while it lives. The actor ends itself when no study has asked for anything for a while.
A wish of others on the same cluster is replaced by the actor's, but only when studies of ours ask for something else.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tune_cd.cluster.growth import HEAD

NAME, NAMESPACE = "wishes-1", "tune_cd"  # the number goes up with what is said to it
FORGOTTEN = 60.0  # seconds without renewal after which a driver counts as dead
QUIET = 60.0  # seconds without any study after which the actor ends
PACE = 5.0  # seconds between two looks

Bundles = list[dict[str, float]]


class Wishes:
    """What studies want and ask for. send: makes the wish for the cluster; fresh: nothing was ever sent, so nothing is to
    be taken back. forgotten, quiet: see the constants. now: seconds on a clock that goes forward."""

    def __init__(
        self, send: Callable[[Bundles], None], fresh: bool = True, forgotten: float = FORGOTTEN, quiet: float = QUIET
    ):
        self._send, self._sent = send, [] if fresh else None
        self._forgotten, self._quiet = forgotten, quiet
        self._studies: dict[str, tuple[float, Mapping[str, float], Bundles]] = {}
        self._most = math.inf
        self._busy: float | None = None  # when a study was last there
        self._lock = threading.Lock()
        self.error: str | None = None

    def renew(
        self, study: str, wants: Mapping[str, float], bundles: Bundles, now: float, most: float = math.inf
    ) -> dict[str, Any]:
        """A study's word that it lives, wants so much in all ({"GPU": 8}) and asks for these bundles. most: bundles that the
        cluster may have now; Ray's autoscaler v2 ignores the whole of a wish that exceeds it. Returns what the other studies
        want, and the last error of asking: {"others", "error"}."""
        with self._lock:
            self._most = most
            self._studies[study] = (now, dict(wants), list(bundles))
            others = [want for name, (_, want, _) in self._studies.items() if name != study]
            self._tell()
            return {"others": {unit: sum(want.get(unit, 0) for want in others) for unit in wants}, "error": self.error}

    def withdraw(self, study: str) -> None:
        """A study has ended."""
        with self._lock:
            self._studies.pop(study, None)
            self._tell()

    def sweep(self, now: float) -> bool:
        """Forget the dead; whether the actor is still needed."""
        with self._lock:
            self._studies = {name: study for name, study in self._studies.items() if now - study[0] <= self._forgotten}
            self._tell()
            if self._studies or self._sent != [] or self._busy is None:
                self._busy = now
            return now - self._busy < self._quiet

    def _tell(self) -> None:
        """Make the cluster's wish, where it changed. What fails is tried again at the next look."""
        total = sorted(
            (bundle for _, _, bundles in self._studies.values() for bundle in bundles),
            key=lambda bundle: sorted(bundle.items()),
        )
        total = total[: int(min(self._most, len(total)))]
        if total == self._sent:
            return
        try:
            self._send(total)
            self._sent, self.error = total, None
        except Exception as error:  # whatever Ray raises is told to the studies, which go on
            self.error = f"{type(error).__name__}: {error}"


class Desk:
    """The actor around `Wishes`: asks Ray, and looks at its clock."""

    def __init__(self, forgotten: float = FORGOTTEN, quiet: float = QUIET, pace: float = PACE):
        import ray
        from ray.autoscaler.sdk import request_resources

        fresh = not ray.get_runtime_context().was_current_actor_reconstructed
        self._pace = pace
        self._wishes = Wishes(lambda bundles: request_resources(bundles=bundles), fresh, forgotten, quiet)
        threading.Thread(target=self._look, name="wishes", daemon=True).start()

    def renew(self, study: str, wants: dict, bundles: Bundles, most: float = math.inf) -> dict:
        return self._wishes.renew(study, wants, bundles, time.monotonic(), most)

    def withdraw(self, study: str) -> None:
        self._wishes.withdraw(study)

    def _look(self) -> None:
        import ray

        while self._wishes.sweep(time.monotonic()):
            time.sleep(self._pace)
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE), no_restart=True)


def desk(*times: float):
    """The cluster's `Desk`, started on the head with these times if there is none. Needs a Ray that is initialised."""
    import ray

    lasting = {"name": NAME, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True, "max_restarts": -1}
    return ray.remote(Desk).options(num_cpus=0, resources={HEAD: 0.001}, **lasting).remote(*times)
