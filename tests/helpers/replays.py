"""Made-up trajectories of replayed searches."""

from tune_cd import analysis
from tune_cd.landscapes.simulation import Trajectory, Trial


def trajectory(method: str, seed: int, reached: list[float], ended: list[float] | None = None) -> Trajectory:
    ended = ended or list(range(1, len(reached) + 1))
    at = enumerate(zip(reached, ended))
    trials = tuple(Trial(i, {}, "start", 0.0, "completed", r, r, r, 0.0, end) for i, (r, end) in at)
    return Trajectory(method, "made up", seed, trials)


def summary(trajectories: list[Trajectory], reference: str | None = None):
    return analysis.summary([trajectory.as_curve() for trajectory in trajectories], reference)
