"""The data sets of runs that share a program: nothing is read or tokenised twice."""

from typing import Any

from zoo import config as configs
from zoo.data.labelled import LabelledDataset
from zoo.data.load_data import load
from zoo.data.text_dataset import TextDataset
from zoo.data.translation.pair_dataset import TranslationDataset
from zoo.nested import flatten


class SharedDatasets:
    """Loads data sets; runs of one program with the same training batches get the same object.

    Where only the seed or the masks differ, the data sets share their text, tokens and rows. What
    one program is, `zoo.config.program_key` says.
    """

    def __init__(self):
        self._loaded: dict[tuple[Any, ...], TextDataset | LabelledDataset | TranslationDataset] = {}
        self._texts: dict[tuple[Any, ...], TextDataset] = {}

    def load(self, config: Any) -> TextDataset | LabelledDataset | TranslationDataset:
        """Returns the data set of a resolved config, as `zoo.data.load` does.

        Raises:
            ConfigError, DataError: as `zoo.data.load`.
        """
        flat = flatten(config)
        program = configs.program_key(flat)
        key, text_key = (program, configs.batch_key(flat)), (program, config.data.training_fraction)
        if key not in self._loaded:
            text = self._texts.get(text_key)
            made = self._loaded[key] = load(config) if text is None else text.for_config(config)
            if isinstance(made, TextDataset):
                self._texts[text_key] = made
        return self._loaded[key]
