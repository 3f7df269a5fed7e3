"""Archive of finished sweeps: tables, figures, and pages made of them alone."""
