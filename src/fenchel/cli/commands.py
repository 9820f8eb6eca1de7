"""What the commands do. Heavy packages are imported here and below, after the arguments are known to be good."""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._core import registry
from .._core.errors import IncompatiblePair, InvalidInput, MissingDependency
from .console import Console, check_target, columns, number, size, to_json, writing
from .parse import compare_files, is_treebank, show_scores
from .stream import stream
from .tasks import TASKS, Task

if TYPE_CHECKING:
    import argparse

    from .model import TableModel

__all__ = ["demo", "evaluate", "fit", "info", "predict", "reproduce", "stream"]


def fit(args: argparse.Namespace, console: Console) -> int:
    out = check_target(args.out, overwrite=args.overwrite, inputs=[args.data])
    from .. import __version__
    from .._core.saving import save

    task = TASKS[args.task]
    with console.progress:
        console.progress(0.0, f"reading {args.data}")
        table = task.read_training(args)
        try:
            model, report = task.fit(table, args, console.progress)
        except IncompatiblePair as error:
            own = [f"--{key} {vars(args)[key]}" for key in ("loss", "regularizer", "projection", "cost") if key in args]
            if len(own) == 1:
                raise IncompatiblePair(f"{own[0]} does not fit: {error}") from None
            raise IncompatiblePair(f"{', '.join(own[:-1])} and {own[-1]} do not go together: {error}") from None
        model.report_ = report
        save(model, out, overwrite=args.overwrite)
    if args.json:
        console.result(to_json({"command": "fit", "fenchel": __version__, "model": str(out), **report}))
        return 0
    console.print(task.show_fit(report))
    console.print(
        f"\nSaved {out} ({size(out.stat().st_size)}). Predict with: fenchel predict {shlex.quote(str(out))} DATA"
    )
    return 0


def predict(args: argparse.Namespace, console: Console) -> int:
    inputs = [args.model, args.data]
    out = None if str(args.out) == "-" else check_target(args.out, overwrite=args.overwrite, inputs=inputs)
    model, task = _model(args.model)
    table = task.read_inputs(model, args.data, truth=False)
    lines = task.predictions(model, table, proba=args.proba)
    if out is None:
        task.write(sys.stdout, lines)
        return 0
    with writing(out, overwrite=args.overwrite) as stream:
        task.write(stream, lines)
    console.print(f"Wrote {len(table)} predictions to {out}")
    return 0


def evaluate(args: argparse.Namespace, console: Console) -> int:
    if is_treebank(args.model):
        if args.weight is not None:
            raise InvalidInput("--weight is not for comparing two CoNLL-U files")
        report = compare_files(args.model, args.data)
        console.result(to_json({"command": "evaluate", **report}) if args.json else show_scores(report))
        return 0
    model, task = _model(args.model)
    table = task.read_inputs(model, args.data, truth=True)
    report = task.evaluate(model, table, weight=args.weight)
    if args.json:
        console.result(to_json({"command": "evaluate", "model": str(args.model), **report}))
    else:
        console.result(task.show_evaluation(report))
    return 0


def info(args: argparse.Namespace, console: Console) -> int:
    from .._core.saving import describe

    header = describe(args.model)
    base = {
        "model": str(args.model),
        "bytes": args.model.stat().st_size,
        "fenchel": header.get("fenchel"),
        "format": header["version"],
    }
    content = _model_or_part(args.model)
    facts = _table_model_facts(content) if _is_table_model(content) else _part_facts(content)
    if args.json:
        console.result(to_json({"command": "info", **base, **facts}))
        return 0
    facts = {**facts, "size": size(base["bytes"]), "saved_by": f"fenchel {base['fenchel']} (format {base['format']})"}
    console.result(f"{args.model}\n{_listing(facts)}")
    return 0


def demo(args: argparse.Namespace, console: Console) -> int:
    module = importlib.import_module("fenchel.experiments.demo")
    return int(module.run(args.out, args.overwrite, args.json))


_SHORTER = ("splits", "sets", "kernels", "selection_rows", "features")
"""Options that make some experiments shorter."""


def reproduce(args: argparse.Namespace, console: Console) -> int:
    found = registry.entries("experiment")
    if args.name is None or args.list:
        for option in ("json", "resume", "picture"):
            if getattr(args, option) is not None:
                raise InvalidInput(f"--{option} needs the name of an experiment")
        rows = [[entry.name, entry.summary] for entry in found]
        console.result(columns(rows, header=False, left=2, indent=0) if rows else "There are no experiments yet.")
        return 0
    chosen = found if args.name == "all" else [registry.find("experiment", args.name)]
    printed = args.json is not None and str(args.json) == "-"
    target = None if args.json is None or printed else check_target(args.json, overwrite=args.overwrite)
    picture = None if args.picture is None else check_target(args.picture, overwrite=args.overwrite)
    if picture is not None:
        if not all(hasattr(_module(entry), "draw") for entry in chosen) or len(chosen) > 1:
            drawn = [entry.name for entry in found if hasattr(_module(entry), "draw")]
            raise InvalidInput(f"--picture is for experiments that have a figure: {', '.join(drawn)}")
        importlib.import_module("fenchel.plots._figure").figure()  # says early if there is nothing to draw with
    shorter = {key: vars(args)[key] for key in _SHORTER if vars(args)[key] is not None}
    for key in shorter:
        for entry in chosen:
            if key not in inspect.signature(entry.load()).parameters:
                able = [e.name for e in found if key in inspect.signature(e.load()).parameters]
                raise InvalidInput(f"{entry.name} takes no --{key.replace('_', '-')}; {', '.join(able)} do")
    data = _data_folder(args.data)
    report = importlib.import_module("fenchel.experiments.report")
    resume = importlib.import_module("fenchel.experiments.resume")
    kept = args.resume
    if kept is None and target is not None:
        kept = target.with_name(target.name + ".partial")
    results = {}
    try:
        with resume.keeping(kept):
            for entry in chosen:
                try:
                    with console.progress:
                        result = entry.load()(data, args.quick, console.progress, **shorter)
                except MissingDependency as error:
                    if args.name != "all":
                        raise
                    console.warn(f"{entry.name} is left out: {error}")
                    continue
                results[entry.name] = result
                if not printed:
                    (console.result if target is None else console.print)(report.as_text(result))
    except KeyboardInterrupt:
        if kept is None:
            raise
        console.error(f"interrupted; results so far are in {str(kept)!r}, and the same command goes on from there")
        return 130
    value = results if args.name == "all" else results[args.name]
    if printed:
        console.result(to_json(value))
    elif target is not None:
        with writing(target, overwrite=args.overwrite) as stream:
            stream.write(to_json(value) + "\n")
        if args.resume is None:
            kept.unlink(missing_ok=True)  # all that it held is in the target now
        console.print(f"Wrote {target}")
    if picture is not None:
        _module(chosen[0]).draw(results[chosen[0].name]).savefig(picture, dpi=130)
        console.print(f"Wrote {picture}")
    return 0


def _module(entry: registry.Entry) -> Any:
    return importlib.import_module(entry.target.partition(":")[0])


def _data_folder(given: Path | None) -> Path | None:
    named = os.environ.get("FENCHEL_DATA")
    folder = given if given is not None else (Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        origin = "--data" if given is not None else "the variable FENCHEL_DATA"
        raise InvalidInput(f"there is no folder {str(folder)!r}, which {origin} names")
    return folder


# -- saved models ------------------------------------------------------------------------------------------------------


def _model(path: Path) -> tuple[TableModel, Task]:
    model = _model_or_part(path)
    if not _is_table_model(model):
        raise InvalidInput(
            f"{str(path)!r} holds a {type(model).__name__}, not a model made by 'fenchel fit'; "
            "use it from Python: fenchel.load(...)"
        )
    if model.task not in TASKS:
        raise InvalidInput(f"{str(path)!r} is a model for the task {model.task!r}, which this fenchel does not know")
    return model, TASKS[model.task]


def _model_or_part(path: Path) -> Any:
    from .._core.saving import load

    return load(path)


def _is_table_model(value: Any) -> bool:
    from .match_model import MatchModel
    from .model import TableModel
    from .parse_model import ParseModel
    from .tag_model import TagModel

    return isinstance(value, TableModel | TagModel | MatchModel | ParseModel)


def _table_model_facts(model: TableModel) -> dict[str, Any]:
    facts: dict[str, Any] = {"task": model.task, "target": model.target}
    if getattr(model, "encoder", None) is not None:
        facts["columns"] = [str(name) for name in model.encoder.feature_names_in_]
        facts["features"] = len(model.encoder.get_feature_names_out())
    task = TASKS.get(model.task)
    if task is not None:
        facts.update(task.describe(model))
    report = getattr(model, "report_", None) or {}
    if "rows" in report:
        facts["trained_on"] = f"{report['rows']} rows of {report['data']}"
    if report.get("held_out") and task is not None:
        facts["held_out"] = task.headline(report)
    return facts


def _part_facts(value: Any) -> dict[str, Any]:
    """What can be said of anything that fenchel saves."""
    facts: dict[str, Any] = {"holds": type(value).__name__}
    if hasattr(value, "get_params"):
        facts.update({key: item for key, item in value.get_params(deep=False).items() if item is not None})
    names = ("classes_", "n_features_in_", "n_iter_", "objective_", "dual_gap_", "converged_")
    facts.update({name.rstrip("_"): getattr(value, name) for name in names if hasattr(value, name)})
    return facts


def _listing(facts: dict[str, Any]) -> str:
    """Names and values in two columns, long values wrapped."""
    wide = max(map(len, facts))
    room = max(shutil.get_terminal_size((100, 24)).columns - wide - 5, 30)
    rows = []
    for name, value in facts.items():
        for i, line in enumerate(textwrap.wrap(_shown(value), room, break_on_hyphens=False) or ["-"]):
            rows.append([name.replace("_", " ") if i == 0 else "", line])
    return columns(rows, header=False, left=2)


def _shown(value: Any) -> str:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        texts = [str(item) for item in value]
        return ", ".join(texts) if len(texts) <= 20 else f"{', '.join(texts[:20])}, ... ({len(texts)} in all)"
    return str(value)
