"""Labelled examples: where they come from, how they become rows, and how predictions of them are
scored.
"""

from zoo.data.labelled.labelled_dataset import LabelledDataset, label_count, load_labelled, read_task, task_documents

__all__ = ["LabelledDataset", "label_count", "load_labelled", "read_task", "task_documents"]
