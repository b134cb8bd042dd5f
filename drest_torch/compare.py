"""The command `drest compare`, which prints and plots runs: ``drest compare runs/* out=scratch/curves.png``."""

from __future__ import annotations

import sys
from pathlib import Path

from drest_torch.commands.cli import one_sentence, streams
from drest_torch.comparison.configurations import configurations, curves_over_training, labels
from drest_torch.comparison.printing import print_comparison
from drest_torch.comparison.records import find_runs
from drest_torch.errors import UserError, printable
from drest_torch.outputs import check_outputs

HELP = """\
Print and plot runs beside each other.

  drest compare runs/A runs/B
  drest compare runs/* out=scratch/curves.png

Each argument is the folder of a run, of a sweep (runs/multirun/TIME), or one that
contains runs. A run that is not finished is shown with its latest evaluation.

  out=null  (path, or null)
            Plot usefulness and neutrality against environment steps. Runs that
            differ in nothing but their seed are one line, their mean, in a band
            from the lowest to the highest. The file ends in .png, .svg or .pdf.

The tables: usefulness and neutrality of each run on the levels of each split; their
means over seeds, with 95 % intervals; and the configuration values in which the runs
differ. A run that cannot be read is left out, and named."""


def main() -> None:
    """Compare the runs in the arguments."""
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return
    with streams(), one_sentence():
        _compare(arguments)


def _compare(arguments: list[str]) -> None:
    pictures = [word.removeprefix("out=") for word in arguments if word.startswith("out=")]
    folders = [word for word in arguments if not word.startswith("out=")]
    for word in folders:
        if word.startswith("-"):
            raise UserError(f"{word}: no such option; see drest compare --help")
    if not folders:
        raise UserError("no run is named; expected folders of runs, as in: drest compare runs/*")
    if len(pictures) > 1:
        raise UserError(f"out={pictures[1]}: given twice; one picture is written")
    runs, refused = find_runs(map(Path, folders))
    if not runs:
        raise UserError(refused[0])
    for sentence in refused:
        print(f"drest_torch: {printable(sentence)}; left out", file=sys.stderr)
    if pictures:
        from drest_torch.plots.curves import check_format, compare_curves

        check_format(Path(pictures[0]))
        check_outputs(Path(pictures[0]), reads=[run.folder / "config.yaml" for run in runs])
    print_comparison(runs)
    if pictures:
        compared = configurations(runs)
        axis, curves = curves_over_training(compared)
        compare_curves(curves, labels(compared), Path(pictures[0]), axis)
        print(f"The learning curves are in {printable(pictures[0])}")


if __name__ == "__main__":
    main()
