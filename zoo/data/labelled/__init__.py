"""Labelled examples: sources, rows, and the scores of predictions."""

from zoo.data.labelled.labelled_dataset import LabelledDataset, label_count, load_labelled, read_task, task_documents

__all__ = ["LabelledDataset", "label_count", "load_labelled", "read_task", "task_documents"]
