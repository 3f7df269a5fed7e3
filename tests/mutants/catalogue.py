"""All deliberate faults."""

from tests.mutants import (
    faults_in_data,
    faults_in_layers,
    faults_in_plugins,
    faults_in_recurrences,
    faults_in_statistics,
    faults_in_training,
)

MUTANTS = (
    *faults_in_statistics.MUTANTS,
    *faults_in_layers.MUTANTS,
    *faults_in_recurrences.MUTANTS,
    *faults_in_data.MUTANTS,
    *faults_in_plugins.MUTANTS,
    *faults_in_training.MUTANTS,
)
