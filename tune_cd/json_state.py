"""A searcher's state in a file, as Tune asks for it with every snapshot."""

import json
from pathlib import Path

from tune_cd import results


class JsonState:
    """`save` and `restore` of a Ray Tune Searcher whose `get_state` is made of plain JSON types."""

    def save(self, checkpoint_path: str) -> None:
        """Write the state as JSON (Tune names the file .pkl; it holds no pickle)."""
        results.publish(Path(checkpoint_path), json.dumps(self.get_state()).encode())

    def restore(self, checkpoint_path: str) -> None:
        """Read what `save` wrote. Raises ValueError naming the file if it is not that."""
        try:
            state = json.loads(Path(checkpoint_path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{checkpoint_path} is not a saved {type(self).__name__}: {error}") from error
        self.set_state(state)
