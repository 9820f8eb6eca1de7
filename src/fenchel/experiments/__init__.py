"""Do the papers' tables hold? One file per table; each ``run(data, quick, progress)`` gives ours beside theirs."""
