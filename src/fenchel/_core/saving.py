"""Saving and loading: one file, arrays plus JSON, versioned, with nothing in it that is ever executed.

A saved model is a zip archive with ``fenchel.json`` and one ``.npy`` file per array. The JSON describes the value with
tagged objects; classes are named by their line in the registry, never by an import path. Functions cannot be
stored: their names are, and ``load(path, objects={name: function})`` hands them back.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import registry
from .errors import FenchelError, InvalidInput, SavedModelError
from .types import Array

__all__ = ["FORMAT_VERSION", "describe", "load", "save"]

FORMAT = "fenchel-model"
FORMAT_VERSION = 1
_HEADER = "fenchel.json"
_TAG = "$fenchel"
# Reading is by kind of value; these bounds keep a hostile file from exhausting memory or the stack.
_MOST_HEADER_BYTES = 256 * 2**20
_DEEPEST = 100


# -- writing -----------------------------------------------------------------------------------------------------------


def save(model: Any, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Save an estimator (or a structure, loss, cost, decoder, ...) to one file that holds no executable content.

    The file appears whole or not at all. An existing file raises ``FileExistsError`` unless ``overwrite=True``.

    >>> import tempfile, os, fenchel
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = fenchel.FenchelYoungClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = fenchel.save(model, os.path.join(folder, "iris.fenchel"))
    ...     again = fenchel.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(f"{str(target)!r} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(target.parent)!r} to save into")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{str(target)!r} exists; choose another name or pass overwrite=True")
    writer = _Writer()
    content = writer.encode(model, "model")
    from .. import __version__

    header = {"format": FORMAT, "version": FORMAT_VERSION, "fenchel": __version__, "model": content}
    text = json.dumps(header, indent=1, ensure_ascii=False, allow_nan=False)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                _add(archive, _HEADER, text.encode())
                for name, array in writer.arrays.items():
                    _add(archive, name, _npy(array))
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        _move(temporary, target, overwrite)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return target


def _move(temporary: str, target: Path, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)  # fails if somebody made the file meanwhile
    except FileExistsError:
        raise FileExistsError(f"{str(target)!r} exists; choose another name or pass overwrite=True") from None
    except OSError:  # a file system without links
        os.rename(temporary, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # equal models make equal files
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, data)


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


class _Writer:
    """Turns values into JSON and collects the arrays beside it."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.functions: dict[str, Any] = {}
        self.depth = 0

    def encode(self, value: Any, where: str) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:  # a list that holds itself, or what could not be read back
            raise SavedModelError(f"{where[:60]}... is nested too deeply to be saved")
        try:
            return self._encode(value, where)
        finally:
            self.depth -= 1

    def _encode(self, value: Any, where: str) -> Any:
        if isinstance(value, np.generic):  # first: a NumPy float or string is also one of Python's
            return _tag("scalar", self._array(np.asarray(value), where))
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else _tag("float", repr(value))
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, list):
            return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return _tag("tuple", [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)])
        if isinstance(value, Mapping):
            pairs = [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return _tag("dict", pairs)
        if isinstance(value, np.random.Generator):
            return _tag("generator", self.encode(value.bit_generator.state, where))
        if isinstance(value, np.random.RandomState):
            return _tag("random_state", self.encode(value.get_state(legacy=False), where))
        entry = registry.lookup(type(value))
        if entry is not None:
            return _tag("object", {"kind": entry.kind, "name": entry.name, **self._content(value, where)})
        if callable(value):
            name = getattr(value, "__qualname__", None) or type(value).__qualname__
            if self.functions.setdefault(name, value) is not value:
                raise SavedModelError(
                    f"{where} is the second function called {name!r} in the model; a file keeps functions by name, so "
                    "give them different ones"
                )
            return _tag("function", name)
        raise SavedModelError(
            f"{where} is a {type(value).__name__}, which cannot be saved; "
            "plain values, arrays, parts of fenchel and named functions can"
        )

    def _array(self, array: Array, where: str) -> Any:
        if array.dtype == object:
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(array.ravel().tolist())]
            return _tag("objects", {"shape": list(array.shape), "items": items})
        if array.dtype.kind not in "biufcUSmM":
            raise SavedModelError(f"{where} is an array of type {array.dtype}, which cannot be saved")
        name = f"arrays/{len(self.arrays)}.npy"
        self.arrays[name] = array
        return _tag("array", name)

    def _content(self, value: Any, where: str) -> dict[str, Any]:
        """Constructor arguments and, for estimators, what training added."""
        if hasattr(value, "get_params"):
            state = {k: v for k, v in vars(value).items() if _is_state(k)}
            return {
                "arguments": self.encode(value.get_params(deep=False), where),
                "state": self.encode(state, where),
            }
        return {"arguments": self.encode(_arguments(value), where)}


def _is_state(name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in ("_dual", "_stream")


def _arguments(value: Any) -> dict[str, Any]:
    getter = getattr(value, "saved_arguments", None)
    if getter is not None:
        return dict(getter())
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
    raise SavedModelError(f"{type(value).__name__} does not say how to make it again (saved_arguments is missing)")


def _tag(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, "value": value}


# -- reading -----------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str], *, objects: Mapping[str, Any] | None = None) -> Any:
    """Load what :func:`save` wrote. ``objects`` hands back functions that were inside the model, by name.

    A damaged or foreign file, or one of a newer format, raises :class:`fenchel.errors.SavedModelError`.
    """
    source = Path(path)
    try:
        with _open(source) as archive:
            header = _header(archive, source)
            return _Reader(archive, source, dict(objects or {})).decode(header["model"], 0)
    except (FenchelError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as e:  # whatever a damaged archive makes zipfile, zlib, json or numpy raise
        raise SavedModelError(f"{str(source)!r} is damaged: {type(e).__name__}: {e}") from e


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a saved file: format version, the fenchel that wrote it, and the tree of its contents."""
    source = Path(path)
    with _open(source) as archive:
        return _header(archive, source)


def _open(source: Path) -> zipfile.ZipFile:
    if source.is_dir():
        raise IsADirectoryError(f"{str(source)!r} is a folder, not a saved model")
    if not source.exists():
        raise FileNotFoundError(f"there is no file {str(source)!r}")
    try:
        return zipfile.ZipFile(source)
    except (zipfile.BadZipFile, NotImplementedError):
        raise SavedModelError(f"{str(source)!r} is not a model saved by fenchel, or was cut short on the way") from None


def _header(archive: zipfile.ZipFile, source: Path) -> dict[str, Any]:
    if _HEADER not in archive.namelist():
        raise SavedModelError(f"{str(source)!r} is a zip archive, but not a model saved by fenchel")
    if archive.getinfo(_HEADER).file_size > _MOST_HEADER_BYTES:
        raise SavedModelError(f"{str(source)!r} has a header too large to be a model saved by fenchel")
    try:
        header = json.loads(archive.read(_HEADER))
    except (ValueError, zipfile.BadZipFile, RecursionError) as error:
        raise SavedModelError(f"{str(source)!r} is damaged: its header cannot be read ({error})") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise SavedModelError(f"{str(source)!r} is not a model saved by fenchel")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise SavedModelError(f"{str(source)!r} is damaged: its format version is {version!r}")
    if version > FORMAT_VERSION:
        from .. import __version__

        raise SavedModelError(
            f"{str(source)!r} was written by fenchel {header.get('fenchel')} in format {version}; this is fenchel "
            f"{__version__}, which reads formats up to {FORMAT_VERSION}. Upgrade fenchel to load it."
        )
    return header


class _Reader:
    """Turns tagged JSON back into values. Only what the registry names is ever called."""

    def __init__(self, archive: zipfile.ZipFile, source: Path, objects: dict[str, Any]) -> None:
        self.archive = archive
        self.source = source
        self.objects = objects

    def decode(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise SavedModelError(f"{str(self.source)!r} is damaged: its contents are nested too deeply")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list):
            return [self.decode(item, depth + 1) for item in value]
        if not isinstance(value, dict) or _TAG not in value:
            raise SavedModelError(f"{str(self.source)!r} is damaged: it holds an untagged {type(value).__name__}")
        reader = getattr(self, f"_read_{value[_TAG]}", None)
        if reader is None:
            raise SavedModelError(f"{str(self.source)!r} is damaged: it holds a value of unknown kind {value[_TAG]!r}")
        return reader(value["value"], depth + 1)

    def _read_float(self, text: str, depth: int) -> float:
        return float(text)

    def _read_tuple(self, items: list[Any], depth: int) -> tuple[Any, ...]:
        return tuple(self.decode(item, depth) for item in items)

    def _read_dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        return {self.decode(k, depth): self.decode(v, depth) for k, v in pairs}

    def _read_array(self, name: str, depth: int) -> Array:
        with self.archive.open(name) as stream:
            array: Array = np.lib.format.read_array(io.BytesIO(stream.read()), allow_pickle=False)
        return array

    def _read_scalar(self, value: Any, depth: int) -> Any:
        return self.decode(value, depth)[()]

    def _read_objects(self, value: dict[str, Any], depth: int) -> Array:
        items = [self.decode(item, depth) for item in value["items"]]
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(value["shape"])

    def _read_generator(self, value: Any, depth: int) -> np.random.Generator:
        state = self.decode(value, depth)
        makers = {"PCG64": np.random.PCG64, "MT19937": np.random.MT19937, "Philox": np.random.Philox,
                  "SFC64": np.random.SFC64, "PCG64DXSM": np.random.PCG64DXSM}  # fmt: skip
        bits = makers[state["bit_generator"]]()
        bits.state = state
        return np.random.Generator(bits)

    def _read_random_state(self, value: Any, depth: int) -> np.random.RandomState:
        made = np.random.RandomState()
        made.set_state(self.decode(value, depth))
        return made

    def _read_function(self, name: str, depth: int) -> Any:
        if name not in self.objects:
            raise SavedModelError(
                f"{str(self.source)!r} needs the function {name!r}, which a file cannot hold: "
                f"load(path, objects={{{name!r}: ...}})"
            )
        return self.objects[name]

    def _read_object(self, value: dict[str, Any], depth: int) -> Any:
        try:
            entry = registry.find(value["kind"], value["name"])
        except InvalidInput as error:
            raise SavedModelError(
                f"{str(self.source)!r} holds a {value['kind']} named {value['name']!r}, which this fenchel does not "
                "know; if it is your own, register it first"
            ) from error
        cls = entry.load()
        arguments = self.decode(value["arguments"], depth)
        positional = arguments.pop("*", ())
        accepted = inspect.signature(cls).parameters
        unknown = [name for name in arguments if name not in accepted]
        if unknown:
            raise SavedModelError(f"{str(self.source)!r} gives {entry.class_name} the unknown argument {unknown[0]!r}")
        made = cls(*positional, **arguments)
        for name, item in self.decode(value.get("state", _tag("dict", [])), depth).items():
            if not _is_state(name):
                raise SavedModelError(f"{str(self.source)!r} is damaged: {name!r} is no fitted attribute")
            setattr(made, name, item)
        return made
