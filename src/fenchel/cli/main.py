"""The command ``fenchel``: arguments, exit codes and one-line errors.

Exit codes: 0 done; 1 the job failed, with one line on standard error that says why; 2 wrong usage; 130 Ctrl-C; 141 the
reader of a pipe went away.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from .. import __version__
from .._core import registry
from .._core.errors import FenchelError
from . import arguments
from .console import Console
from .parse import Parse, is_treebank
from .tasks import TASKS

__all__ = ["main"]

_DEFAULT_TASK = "classify"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    console = Console()
    debug = bool(os.environ.get("FENCHEL_DEBUG", "").strip("0"))
    try:
        try:
            args = _parser(_task_named_in(arguments)).parse_args(arguments)
        except SystemExit as stop:  # argparse has said what there is to say
            sys.stdout.flush()
            return stop.code if isinstance(stop.code, int) else 2
        debug = debug or args.debug
        console = Console(quiet=getattr(args, "quiet", False))
        with _warnings_as_lines(console, debug):
            code = _run(args, console)
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        console.error("interrupted; nothing was saved")
        return 130
    except BrokenPipeError:
        # What is still buffered must not be flushed into the closed pipe when Python ends.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if debug:
            traceback.print_exc()
        console.error(_one_line(error))
        return 1


def _run(args: argparse.Namespace, console: Console) -> int:
    from . import commands

    command: Callable[[argparse.Namespace, Console], int] = getattr(commands, args.command)
    return command(args, console)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, FenchelError | OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return f"{type(error).__name__}: {error} (this should not happen; --debug shows where it did)"


@contextmanager
def _warnings_as_lines(console: Console, debug: bool) -> Iterator[None]:
    """Warnings meant for users as one line each, once; the others only under --debug."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        text = str(message)
        if (issubclass(category, UserWarning) or debug) and text not in shown:
            shown.add(text)
            console.warn(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


# -- arguments ---------------------------------------------------------------------------------------------------------


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where to read more, rather than all that could be right."""

    more = ""
    """What the help of these options needs besides the command."""

    def __init__(self, **options: Any) -> None:
        options.update(allow_abbrev=False, formatter_class=_Help)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        command = self.prog.split(" ")[0]
        if message.endswith("required: DATA"):
            message += " (give it first: an option of several values takes all that follow it)"
        self.exit(2, f"{command}: error: {message}\ntry: {self.prog}{self.more} --help\n")


def _task_named_in(argv: list[str]) -> str:
    """The task whose options ``fit`` is to have; a wrong name is left for the parser to refuse.

    A CoNLL-U file is no table, so with none named it is a treebank to parse.
    """
    treebank = "fit" in argv and any(is_treebank(Path(argument)) for argument in argv)
    name = Parse.name if treebank else _DEFAULT_TASK
    for i, argument in enumerate(argv):
        if argument == "--task" and i + 1 < len(argv):
            name = argv[i + 1]
        elif argument.startswith("--task="):
            name = argument.partition("=")[2]
    return name if name in TASKS else _DEFAULT_TASK


def _parser(task: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fenchel",
        description="Structured prediction that trains for the mistake cost you care about, and decodes for it too.",
        epilog="examples:\n"
        "  fenchel fit flowers.csv --target species --out flowers.fenchel\n"
        "  fenchel predict flowers.fenchel new.csv --out answers.csv\n"
        "  fenchel evaluate flowers.fenchel checked.csv\n"
        "  fenchel demo\n\n"
        "exit codes: 0 done, 1 failed (one line says why), 2 wrong usage, 130 interrupted\n"
        "variables:  FENCHEL_NUM_THREADS, FENCHEL_DATA (for reproduce), FENCHEL_DEBUG=1 (as --debug)",
    )
    parser.add_argument("--version", action="version", version=f"fenchel {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where in the code an error came from")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    _add_fit(commands, task)
    _add_predict(commands)
    _add_evaluate(commands)
    _add_stream(commands)
    _add_info(commands)
    _add_demo(commands)
    _add_reproduce(commands)
    return parser


def _command(commands: Any, name: str, summary: str, *examples: str, about: str = "") -> _Parser:
    epilog = "examples:\n" + "\n".join(f"  fenchel {name} {example}" for example in examples)
    description = summary[0].upper() + summary[1:] + "." + (f"\n\n{about}" if about else "")
    parser: _Parser = commands.add_parser(name, help=summary, description=description, epilog=epilog)
    # Without a default of its own it leaves alone what `fenchel --debug fit` has set.
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _add_fit(commands: Any, task: str) -> None:
    parser = _command(
        commands,
        "fit",
        "train a model on a table and save it",
        *(
            TASKS[task].examples
            or (
                "flowers.csv --target species --out flowers.fenchel",
                "wine.parquet --target quality --cost absolute --drop id --out wine.fenchel",
                "flowers.csv --target species --alpha 0.01 --test-share 0 --out flowers.fenchel --json",
                "reviews.csv --task ordinal --target stars --order bad fair good --out stars.fenchel",
                "songs.arff --task multilabel --targets happy sad calm --out moods.fenchel",
                "meals.csv --task rank --target ranking --out meals.fenchel",
                "prices.csv --task any --cost cauchy --target price --out prices.fenchel",
                "train.conllu --out parser.fenchel",
            )
        ),
        about="A share of the rows is held out to score a model trained on the others, with alpha chosen among\n"
        "these by cross-validation. The model that is saved is then trained on all rows.\n\n"
        f"Other tasks have other options: fenchel fit --task {'|'.join(t for t in TASKS if t != task)} --help",
    )
    if task != _DEFAULT_TASK:
        parser.more = f" --task {task}"
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help=TASKS[task].data,
    )
    TASKS[task].add_target(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="MODEL", help="the file to save the model to")
    told = "; ".join(f"{t.name}: {t.summary}" for t in TASKS.values())
    parser.add_argument(
        "--task",
        choices=tuple(TASKS),
        default=task,
        help=f"what is predicted (default: {_DEFAULT_TASK}, or {Parse.name} for a .conllu file). {told}",
    )
    columns = TASKS[task].columns  # where there are none the options stay, to be refused with the reason

    def of_columns(text: str) -> str:
        return text if columns else argparse.SUPPRESS

    parser.add_argument(
        "--drop", nargs="+", action="extend", default=[], metavar="COL", help=of_columns("columns not to learn from")
    )
    parser.add_argument("--weight", metavar="COL", help=of_columns("a column with the weight of each row"))
    parser.add_argument("--overwrite", action="store_true", help="replace MODEL if it exists")
    training = parser.add_argument_group("training")
    training.add_argument(
        "--alpha",
        type=arguments.alpha,
        default=None,
        help="strength of the penalty on weights, or cv to choose it (default: cv)",
    )
    training.add_argument(
        "--test-share",
        type=arguments.share,
        default=0.2,
        metavar="S",
        help="share of rows to hold out (default: 0.2; 0: none)",
    )
    training.add_argument("--seed", type=arguments.count(0), default=0, help="of the choice of rows (default: 0)")
    training.add_argument(
        "--tol",
        type=arguments.positive,
        default=TASKS[task].tol,
        help=f"relative duality gap to stop at (default: {TASKS[task].tol:g})",
    )
    training.add_argument(
        "--max-iter",
        type=arguments.count(1),
        default=TASKS[task].max_iter,
        metavar="N",
        help=f"most iterations (default: {TASKS[task].max_iter})",
    )
    training.add_argument(
        "--max-categories",
        type=arguments.count(1),
        default=50,
        metavar="N",
        help=of_columns("most different values of a text column (default: 50)"),
    )
    TASKS[task].add_arguments(parser.add_argument_group(f"options of --task {task}"))
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object in place of the summary")
    output.add_argument("--quiet", action="store_true", help="print errors and warnings only")


def _add_predict(commands: Any) -> None:
    parser = _command(
        commands,
        "predict",
        "predict the rows of a table",
        "flowers.fenchel new.csv",
        "flowers.fenchel new.parquet --proba --out answers.csv",
        about="Writes CSV with a line for each row of DATA, in their order, under the header 'prediction'\n"
        "(for label sets: a column of 0 and 1 for each label). Of a CoNLL-U file it writes the file with its parses.",
    )
    _add_model(parser)
    parser.add_argument(
        "data",
        type=Path,
        metavar="DATA",
        help="a table with the columns of training (others are ignored), or what else the model was trained on",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("-"), metavar="FILE", help="a file, or - to print (default: -)"
    )
    parser.add_argument("--proba", action="store_true", help="also a column p(name) for each class or label")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--quiet", action="store_true", help="print errors and warnings only")


def _add_evaluate(commands: Any) -> None:
    parser = _command(
        commands,
        "evaluate",
        "score a model on a table that has the truth",
        "flowers.fenchel checked.csv",
        "flowers.fenchel checked.csv --json",
        "gold.conllu system.conllu",
        about="Two CoNLL-U files in place of MODEL and DATA: the attachment scores of the second by the first.",
    )
    _add_model(parser)
    parser.add_argument("data", type=Path, metavar="DATA", help="a table with the columns of training and the target")
    parser.add_argument("--weight", metavar="COL", help="a column with the weight of each row")
    parser.add_argument("--json", action="store_true", help="print one JSON object, with all scores")


def _add_stream(commands: Any) -> None:
    parser = _command(
        commands,
        "stream",
        "learn from a stream: predict each line, be told its truth, learn",
        "clicks.csv --target bought --out answers.csv",
        "ratings.jsonl --task ordinal --target stars --labels 1 2 3 4 5 --checkpoint stars.fenchel --out answers.csv",
        "- --format json --target label < pipe",
        about="DATA is CSV with a header, or one JSON object a line, in a file (also .gz) or from a pipe (-). A field that is a\n"
        "number is a feature, a text one of its own; a line without a truth is only predicted. Lines that cannot be read are\n"
        "counted and left out. Answers are written as they come; how it goes is told on standard error.",
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="a file, or - for standard input")
    parser.add_argument("--target", required=True, metavar="FIELD", help="the field with the truth")
    parser.add_argument(
        "--task", choices=("classify", "ordinal", "multilabel", "rank"), default="classify",
        help="what is predicted (default: classify). Truths of multilabel are a;b or a list, those of rank a>b>c or a list",
    )  # fmt: skip
    parser.add_argument(
        "--labels", nargs="+", metavar="NAME", help="all labels, in order for ordinal (classify may do without)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("-"), metavar="FILE", help="for answers (default: -, print them)"
    )
    parser.add_argument(
        "--format", choices=("auto", "csv", "json"), default="auto", help="of DATA (default: by its name)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files if they exist")
    learning = parser.add_argument_group("learning")
    learning.add_argument(
        "--loss", choices=("kl", "gibbs", "euclidean"), help="the surrogate loss (default: what suits the task)"
    )
    learning.add_argument(
        "--step", choices=("parameter_free", "constant"), default="parameter_free", help="default: parameter_free"
    )
    learning.add_argument(
        "--decoder", choices=("randomized", "deterministic", "random"), default="randomized", help="default: randomized"
    )
    learning.add_argument(
        "--max-norm", type=arguments.positive, default=10.0, metavar="C",
        help="the largest length of a line's features; longer ones are shortened (default: 10)",
    )  # fmt: skip
    learning.add_argument("--raw", action="store_true", help="take numbers as they are, not standardised as they come")
    learning.add_argument("--seed", type=arguments.count(0), default=0, help="of the draws (default: 0)")
    going_on = parser.add_argument_group("going on after a stop")
    going_on.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="save the learner here, every so often and at the end"
    )
    going_on.add_argument(
        "--every",
        type=arguments.count(1),
        default=100_000,
        metavar="N",
        help="lines between checkpoints (default: 100000)",
    )
    going_on.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint if there is one, to the same weights"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--report",
        type=arguments.count(1),
        default=10_000,
        metavar="N",
        help="rows between lines on costs (default: 10000)",
    )
    output.add_argument("--json", action="store_true", help="at the end one JSON object in place of the summary")
    output.add_argument("--quiet", action="store_true", help="print errors and warnings only")


def _add_info(commands: Any) -> None:
    parser = _command(commands, "info", "say what a saved model is", "flowers.fenchel", "flowers.fenchel --json")
    _add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_demo(commands: Any) -> None:
    parser = _command(commands, "demo", "compare projection losses on built-in data", "", "--out somewhere --overwrite")
    parser.add_argument(
        "--out", type=Path, default=Path("fenchel-demo"), metavar="DIR", help="where results go (default: fenchel-demo)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_reproduce(commands: Any) -> None:
    names = [entry.name for entry in registry.entries("experiment")]
    parser = _command(
        commands,
        "reproduce",
        "run an experiment, ours beside published numbers",
        "--list",
        *([f"{names[0]} --quick", f"{names[0]} --data DIR --json results.json"] if names else []),
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the experiment, or all; without it they are listed")
    parser.add_argument("--list", action="store_true", help="list the experiments")
    parser.add_argument("--data", type=Path, metavar="DIR", help="the folder of data sets (default: $FENCHEL_DATA)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, to see that it runs")
    parser.add_argument(
        "--splits", type=arguments.count(1), metavar="N", help="fewer random splits, of experiments that repeat them"
    )
    parser.add_argument(
        "--sets", nargs="+", metavar="SET", help="some of the data sets, of experiments that let you choose"
    )
    parser.add_argument(
        "--features", metavar="NAME", help="what the parsers of the experiment parsing see: lexical (default) or neural"
    )
    parser.add_argument(
        "--kernels",
        nargs="+",
        choices=("linear", "Gaussian"),
        metavar="KERNEL",
        help="linear or Gaussian alone, of experiments that compare both",
    )
    parser.add_argument(
        "--selection-rows",
        type=arguments.count(1),
        metavar="N",
        help="choose parameters on at most N rows, of experiments that choose them once",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result to a file, or - to print it")
    parser.add_argument(
        "--picture",
        type=Path,
        metavar="FILE",
        help="also draw the result to a file (of experiments that have a figure)",
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep results in this file as they come and go on from those in it (default: beside the --json file, as "
        "FILE.partial, until that is written)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the --json file if it exists")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a file saved by 'fenchel fit'")


if __name__ == "__main__":
    sys.exit(main())
