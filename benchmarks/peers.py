"""Getting at the peers: research code from a folder of the user's, and what the others need to be told."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = [
    "Absent",
    "ProjectionLosses",
    "drtreesp",
    "fast_soft_sort",
    "jax_x64",
    "maxminloss_oracles",
    "projection_losses",
    "research_commits",
    "supar_mst",
]

VARIABLE = "FENCHEL_BENCH_PEERS"
COMMITS = {"projection-losses": "e33e50d", "fast-soft-sort": "6a52ce7", "drtreesp": "31d1dec", "maxminloss": "15c45da"}


class Absent(ImportError):
    """A peer that is not on this machine."""


def _folder(name: str) -> Path:
    parent = os.environ.get(VARIABLE)
    if not parent:
        raise Absent(f"{VARIABLE} is not set (see benchmarks/research.md)")
    folder = Path(parent) / name
    if not folder.is_dir():
        raise Absent(f"no folder {name} in {VARIABLE} (see benchmarks/research.md)")
    return folder.resolve()


def research_commits() -> dict[str, str]:
    """For each research peer the commit it is pinned to, and what is there."""
    if not os.environ.get(VARIABLE):
        return {"all": f"absent, {VARIABLE} is not set (see benchmarks/research.md)"}
    found = {}
    for name, commit in COMMITS.items():
        try:
            folder = _folder(name)
        except Absent as reason:
            found[name] = f"{commit}: absent, {reason}"
            continue
        there = "a copy without history" if not (folder / ".git").exists() else _head(folder)
        found[name] = f"{commit}: found {there}"
    return found


def _head(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "no commit"


class ProjectionLosses:
    """projection-losses, whose flat modules (one is called ``ot``, like POT's) are in place only during a call."""

    names = ("ot", "polytopes", "simplex", "fista", "fw", "estimators")

    def __init__(self, folder: Path) -> None:
        self._theirs: dict[str, ModuleType] = {}
        sys.path.insert(0, str(folder))
        try:
            with self._in_place():
                for name in self.names:
                    self._theirs[name] = importlib.import_module(name)
        finally:
            sys.path.remove(str(folder))
        self.polytopes: Any = self._theirs["polytopes"]
        self.estimators: Any = self._theirs["estimators"]

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        with self._in_place():
            return function(*args)

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        ours = {name: sys.modules.pop(name) for name in self.names if name in sys.modules}
        sys.modules.update(self._theirs)
        vars(np)["int"] = int
        try:
            yield
        finally:
            del vars(np)["int"]
            for name in self.names:
                sys.modules.pop(name, None)
            sys.modules.update(ours)


@lru_cache(maxsize=1)
def projection_losses() -> ProjectionLosses:
    return ProjectionLosses(_folder("projection-losses"))


def fast_soft_sort() -> Any:
    """The module fast_soft_sort.numpy_ops."""
    folder = str(_folder("fast-soft-sort"))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("fast_soft_sort.numpy_ops")


@lru_cache(maxsize=1)
def drtreesp() -> Any:
    """The module advtree (Frank-Wolfe and ADMM of Li et al. 2022), its compiled ``mst`` built in its folder."""
    folder = _folder("drtreesp")
    if not list(folder.glob("_cmst*.so")):
        raise Absent(f"{folder} has no _cmst: run `python cmst_extension_build.py` there (it needs cffi)")
    sys.path.append(str(folder))
    vars(np).setdefault("alltrue", np.all)
    return importlib.import_module("advtree")


@lru_cache(maxsize=1)
def maxminloss_oracles() -> Any:
    """The module of maxminloss with its oracles between classes in Python; what it imports to draw with is left out."""
    path = _folder("maxminloss") / "struntho" / "inference" / "maxmin_spmp_multiclass.py"
    if importlib.util.find_spec("cvxopt") is None:
        raise Absent("cvxopt is not installed, which maxminloss needs")
    spec = importlib.util.spec_from_file_location("maxmin_spmp_multiclass", path)
    if spec is None or spec.loader is None:
        raise Absent(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    drawing = {name: sys.modules.get(name) for name in ("matplotlib", "matplotlib.pyplot")}
    sys.modules.update({name: ModuleType(name) for name in drawing})
    try:
        spec.loader.exec_module(module)
    finally:
        for name, kept in drawing.items():
            sys.modules.pop(name)
            if kept is not None:
                sys.modules[name] = kept
    return module


def supar_mst() -> Any:
    """SuPar's decoder of non-projective trees, without the rest of the package and all that it imports."""
    spec = importlib.util.find_spec("supar")
    if spec is None or not spec.submodule_search_locations:
        raise Absent("supar is not installed")
    root = Path(spec.submodule_search_locations[0])
    for name in ("supar", "supar.structs", "supar.utils"):
        stub = ModuleType(name)
        stub.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules.setdefault(name, stub)
    return importlib.import_module("supar.structs.fn").mst


def jax_x64() -> Any:
    """jax on the CPU, in double precision."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax
