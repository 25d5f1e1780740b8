"""Batches: sampling, augmentation, images resident on the device."""
