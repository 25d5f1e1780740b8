"""Search methods, ask and tell. Pure: numpy and scipy only; the baselines bring their own packages."""
