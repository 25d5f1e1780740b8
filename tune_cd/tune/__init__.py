"""Ray Tune's side: searchers, the results callback, resuming. The one room that adapts to Ray Tune."""
