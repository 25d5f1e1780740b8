"""A recorder in memory, for trials without a results folder."""


class InMemory:
    """What `trainables.trial.Recorder` asks for. `ended`: (config, outcome, where) in order; `states`: by training,
    latest first; `networks`: (config, score, file) in order."""

    def __init__(self, ended=(), unstored=None):
        self.ended, self.states, self.unstored, self.known = list(ended), {}, unstored, {}
        self.networks = []

    def key(self, config):
        weights = [value for name, value in config.items() if name.startswith("Lambda_")]
        return (*weights, config["batch_size"], config["seed"])

    def recorded(self, config):
        return self.known.get(self.key(config))

    def record(self, config, outcome, where):
        self.ended.append((config, outcome, where))
        return self.unstored

    def saved(self, config):
        return self.states.get(self.key(config), [])

    def save(self, config, images_seen, state):
        self.states.setdefault(self.key(config), []).insert(0, (f"at-{images_seen}", state))

    def keep(self, config, val_score, network):
        self.networks.append((config, val_score, network()))
