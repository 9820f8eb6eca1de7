"""One file, arrays plus JSON: what goes in comes out, and nothing else does anything."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import fenchel
from fenchel import FenchelYoungClassifier
from fenchel._core import registry
from fenchel.errors import SavedModelError
from fenchel.structures import examples

OLD = Path(__file__).parent / "data" / "classifier-format-1.fenchel"


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def saved(tmp_path, iris):
    return fenchel.save(FenchelYoungClassifier("kl").fit(*iris), tmp_path / "model.fenchel")


VARIANTS = [
    {},
    {"regularizer": "kl", "solver": "bcfw", "warm_start": True, "random_state": np.random.default_rng(3), "tol": 0.5},
    {"projection": "cube", "class_weight": {"a": 1.0, "b": 2.0, "c": 1.0}},
    {"solver": fenchel.solvers.LBFGS(tol=1e-6), "cost": fenchel.costs.Absolute()},
    {"random_state": np.random.RandomState(3), "fit_intercept": False},
]


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("labels", ["int", "str", "object"])
def test_a_loaded_model_is_the_saved_one(options, labels, tmp_path, iris):
    X, y = iris
    names = {"int": np.array([3, 1, 7]), "str": np.array(["a", "b", "c"]), "object": np.array(["a", "b", "c"], object)}
    y = names[labels][y]
    if isinstance(options.get("class_weight"), dict) and labels == "int":
        options = {**options, "class_weight": {3: 1.0, 1: 2.0, 7: 1.0}}
    model = FenchelYoungClassifier(**options).fit(X, y)
    again = fenchel.load(fenchel.save(model, tmp_path / "m.fenchel"))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.array_equal(again.predict_marginals(X), model.predict_marginals(X))
    assert again.classes_.dtype == model.classes_.dtype
    assert set(again.get_params()) == set(model.get_params())
    for name in ("dual_gap_", "objective_", "n_iter_", "converged_", "n_features_in_", "loss_", "decoder_"):
        assert getattr(again, name) == getattr(model, name)
    assert np.array_equal(again.fit(X, y).coef_.shape, model.coef_.shape)


def test_training_goes_on_where_it_stopped(tmp_path, iris):
    X, y = iris
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model = FenchelYoungClassifier().partial_fit(X[:70], y[:70], classes=[0, 1, 2])
    again = fenchel.load(fenchel.save(model, tmp_path / "m.fenchel"))
    assert np.array_equal(again.partial_fit(X[70:], y[70:]).weights_, model.partial_fit(X[70:], y[70:]).weights_)


@pytest.mark.parametrize(
    "value",
    [
        part
        for kind in ("structure", "loss", "cost", "regularizer", "decoder", "solver")
        for _, part in registry.instances(kind)
    ],
    ids=repr,
)
def test_every_registered_part_can_be_saved(value, tmp_path):
    objects = {name: getattr(examples, name) for name in examples.__all__}
    assert fenchel.load(fenchel.save(value, tmp_path / "part.fenchel"), objects=objects) == value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**70,
        -0.5,
        float("inf"),
        "ä",
        [1, [2.0]],
        (1, ("x",)),
        {"a": 1, 2: (3,)},
        np.float32(1.5),
        np.float64(0.25),
        np.str_("ö"),
        np.bool_(True),
        np.int64(4),
    ],
    ids=repr,
)
def test_plain_values(value, tmp_path):
    again = fenchel.load(fenchel.save(value, tmp_path / "value.fenchel"))
    assert again == value
    assert type(again) is type(value)


def test_nan_and_arrays_of_every_type(tmp_path):
    arrays = [
        np.arange(6.0).reshape(2, 3)[:, ::2],
        np.array([np.nan, np.inf]),
        np.array([], dtype=np.float32),
        np.array(["x", "yy"]),
        np.array([True]),
        np.array(3),
        np.array([None, "a", 1.5], dtype=object),
    ]
    again = fenchel.load(fenchel.save(arrays, tmp_path / "arrays.fenchel"))
    for a, b in zip(arrays, again, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind == "f":
            assert np.array_equal(a, b, equal_nan=True)
        else:
            assert a.tolist() == b.tolist()


class TestFiles:
    def test_never_overwrites_unless_told(self, saved, iris):
        before = saved.read_bytes()
        with pytest.raises(FileExistsError, match="overwrite=True"):
            fenchel.save(FenchelYoungClassifier().fit(*iris), saved)
        assert saved.read_bytes() == before
        fenchel.save(FenchelYoungClassifier().fit(*iris), saved, overwrite=True)
        assert saved.read_bytes() != before

    def test_leaves_no_half_written_file(self, tmp_path):
        with pytest.raises(SavedModelError, match=r"model\[1\] is a module, which cannot be saved"):
            fenchel.save([1, os], tmp_path / "m.fenchel")
        assert list(tmp_path.iterdir()) == []

    def test_a_failing_disk_leaves_the_old_file(self, saved, iris, monkeypatch):
        before = saved.read_bytes()

        def full(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            fenchel.save(FenchelYoungClassifier().fit(*iris), saved, overwrite=True)
        assert saved.read_bytes() == before
        assert [p.name for p in saved.parent.iterdir()] == [saved.name]

    def test_equal_models_make_equal_files(self, tmp_path, iris):
        paths = [fenchel.save(FenchelYoungClassifier().fit(*iris), tmp_path / f"{i}.fenchel") for i in range(2)]
        assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_folders(self, tmp_path):
        with pytest.raises(ValueError, match="is a folder"):
            fenchel.save(1, tmp_path)
        with pytest.raises(ValueError, match="there is no folder"):
            fenchel.save(1, tmp_path / "no" / "m.fenchel")
        with pytest.raises(IsADirectoryError):
            fenchel.load(tmp_path)
        with pytest.raises(FileNotFoundError):
            fenchel.load(tmp_path / "none.fenchel")

    def test_permissions_follow_the_umask(self, tmp_path):
        old = os.umask(0o027)
        try:
            path = fenchel.save(1, tmp_path / "m.fenchel")
        finally:
            os.umask(old)
        assert path.stat().st_mode & 0o777 == 0o640


class TestDamage:
    def test_an_old_file_still_loads(self, iris):
        """Written by fenchel 0.1.0 in format 1 (logistic on iris, alpha = 0.01); never regenerate it."""
        model = fenchel.load(OLD)
        assert model.alpha == 0.01
        assert model.score(*iris) > 0.9
        assert model.predict_proba(iris[0][:1]).round(3).tolist() == [[0.975, 0.025, 0.0]]

    def test_every_flipped_byte_gives_a_clear_error_or_the_same_model(self, saved, iris):
        X, _ = iris
        expected = fenchel.load(saved).predict_proba(X)
        content = saved.read_bytes()
        for i in range(0, len(content), 5):
            broken = bytearray(content)
            broken[i] ^= 0xFF
            saved.write_bytes(bytes(broken))
            try:
                model = fenchel.load(saved)
            except SavedModelError:
                continue
            assert np.array_equal(model.predict_proba(X), expected)

    def test_a_file_cut_short(self, saved):
        content = saved.read_bytes()
        for n in (0, 1, 50, len(content) // 2, len(content) - 1):
            saved.write_bytes(content[:n])
            with pytest.raises(SavedModelError, match="not a model saved by fenchel|damaged"):
                fenchel.load(saved)

    @pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04\x95pickle"])
    def test_foreign_files(self, tmp_path, content):
        path = tmp_path / "other.bin"
        path.write_bytes(content)
        with pytest.raises(SavedModelError, match="not a model saved by fenchel"):
            fenchel.load(path)

    def test_another_zip_archive(self, tmp_path):
        path = tmp_path / "other.zip"
        np.savez(path.open("wb"), a=np.arange(3))
        with pytest.raises(SavedModelError, match="a zip archive, but not a model"):
            fenchel.load(path)

    def _rewrite(self, path, change):
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        header = json.loads(parts["fenchel.json"])
        change(header)
        parts["fenchel.json"] = json.dumps(header).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, data)

    def test_a_newer_format(self, saved):
        self._rewrite(saved, lambda h: h.update(version=99, fenchel="9.0"))
        with pytest.raises(SavedModelError, match=r"written by fenchel 9\.0 in format 99.*Upgrade fenchel"):
            fenchel.load(saved)

    def test_no_class_outside_the_registry_is_ever_made(self, saved):
        def attack(header):
            header["model"]["value"].update(kind="estimator", name="os:system")

        self._rewrite(saved, attack)
        with pytest.raises(SavedModelError, match="does not know"):
            fenchel.load(saved)

    def test_no_pickled_array_is_ever_read(self, saved):
        with zipfile.ZipFile(saved) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        import io

        stream = io.BytesIO()
        np.save(stream, np.array([os.getcwd], dtype=object), allow_pickle=True)
        parts["arrays/0.npy"] = stream.getvalue()
        with zipfile.ZipFile(saved, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
        with pytest.raises(SavedModelError, match="damaged"):
            fenchel.load(saved)

    def test_unknown_arguments_and_attributes(self, saved):
        self._rewrite(saved, lambda h: h["model"]["value"]["arguments"]["value"].append(["evil", 1]))
        with pytest.raises(SavedModelError, match="unknown argument 'evil'"):
            fenchel.load(saved)

    def test_private_attributes_are_not_set(self, saved):
        self._rewrite(saved, lambda h: h["model"]["value"]["state"]["value"].append(["__class__", 1]))
        with pytest.raises(SavedModelError, match="no fitted attribute"):
            fenchel.load(saved)

    def test_deep_nesting(self, saved):
        def nest(header):
            value = 1
            for _ in range(500):
                value = [value]
            header["model"] = value

        self._rewrite(saved, nest)
        with pytest.raises(SavedModelError, match="nested too deeply"):
            fenchel.load(saved)


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    endless = []
    endless.append(endless)
    deep = 1
    for _ in range(300):
        deep = (deep,)
    for value in (endless, deep):
        with pytest.raises(SavedModelError, match="nested too deeply to be saved"):
            fenchel.save(value, tmp_path / "deep.fenchel")
    with pytest.raises(SavedModelError, match=r"model\[1\] is the second function called '.*<lambda>'"):
        fenchel.save([lambda x: x, lambda x: -x], tmp_path / "two.fenchel")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("depth", [1, 5, 12, 40])
def test_what_is_written_can_be_read_back(depth, tmp_path):
    structure = fenchel.structures.Cube(2)
    for _ in range(depth):
        structure = fenchel.structures.Product(structure, 1)
    try:
        path = fenchel.save(structure, tmp_path / "nested.fenchel")
    except SavedModelError as error:
        assert "nested too deeply" in str(error)
        assert depth > 12
    else:
        assert fenchel.load(path) == structure


def my_function(x):
    return x


def test_functions_are_named_and_handed_back(tmp_path):
    path = fenchel.save({"f": my_function}, tmp_path / "f.fenchel")
    with pytest.raises(SavedModelError, match="needs the function 'my_function'.*objects="):
        fenchel.load(path)
    assert fenchel.load(path, objects={"my_function": my_function})["f"] is my_function
