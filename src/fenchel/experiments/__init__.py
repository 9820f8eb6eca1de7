"""Do the papers' tables hold? One file per table; each has ``run(data, quick, progress)`` and prints ours beside theirs."""
