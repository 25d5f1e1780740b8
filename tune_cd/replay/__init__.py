"""Searches on landscapes instead of trainings, on a simulated clock: thousands of trials a second, without Ray."""

from tune_cd.replay.simulation import CONVENTIONAL, Method, Trajectory, Trial, replay, replay_all, simulate, start_of

__all__ = ["CONVENTIONAL", "Method", "Trajectory", "Trial", "replay", "replay_all", "simulate", "start_of"]
