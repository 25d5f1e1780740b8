"""A reducer of pytorch-metric-learning that weighs its mean."""

from pytorch_metric_learning import reducers


class Weighted(reducers.MeanReducer):
    """The mean over all pairs times a weight."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def element_reduction(self, values, *_):
        return self.weight * values.mean()
