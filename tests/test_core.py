"""Threads, kernels, the registry, checks: what everything stands on."""

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import fenchel
from fenchel._core import parallel, registry
from fenchel._core.checks import check_count, check_finite_positive, check_generator
from fenchel._core.errors import InvalidInput
from fenchel.structures import Simplex

SOURCE = str(Path(fenchel.__file__).parents[1])


def python(code, **environment):
    """Run code in a fresh interpreter and return what it printed."""
    env = {**os.environ, "PYTHONPATH": SOURCE, **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class TestThreadPool:
    def test_chunks_cover_every_item_once(self):
        for n in (1, 2, 3, 8, 17, 1000):
            seen = np.zeros(n, dtype=int)

            def mark(start, stop, seen):
                seen[start:stop] += 1

            with parallel.split_always():
                for _ in range(3):  # the first calls measure, the later ones split
                    seen[:] = 0
                    parallel.run(mark, n, 1e9, seen)
                    assert (seen == 1).all()

    def test_errors_in_a_chunk_reach_the_caller(self):
        def fail(start, stop):
            if stop > 50:
                raise ValueError("chunk")

        parallel.run(fail, 10, 1.0)
        parallel.run(fail, 10, 1.0)
        with parallel.split_always(), pytest.raises(ValueError, match="chunk"):
            parallel.run(fail, 100, 1e9)

    def test_a_call_from_inside_the_pool_runs_serially(self):
        def inner(item):
            outside = threading.get_ident()
            threads = parallel.map_items(lambda _: threading.get_ident(), range(4))
            return set(threads) == {outside}

        assert all(parallel.map_items(inner, range(8)))

    def test_blas_has_one_thread_inside_and_its_own_after(self):
        from threadpoolctl import threadpool_info

        def blas_threads():
            return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

        before = blas_threads()
        with parallel.single_blas_thread(), parallel.single_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before

    def test_set_threads_returns_the_old_number(self):
        before = fenchel.get_threads()
        assert fenchel.set_threads(3) == before
        assert fenchel.set_threads(None) == 3
        fenchel.set_threads(before)

    @pytest.mark.parametrize("bad", [0, -1, 1.5, "2", True])
    def test_set_threads_refuses(self, bad):
        with pytest.raises(InvalidInput, match="whole number of threads"):
            fenchel.set_threads(bad)

    def test_environment_variable(self):
        code = "import fenchel; print(fenchel.get_threads())"
        assert python(code, FENCHEL_NUM_THREADS="5") == "5"
        with pytest.raises(AssertionError, match="FENCHEL_NUM_THREADS is 'many'"):
            python(code, FENCHEL_NUM_THREADS="many")

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_child_processes_work_after_the_pool_was_used(self, method):
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"no {method} here")
        theta = np.random.default_rng(0).normal(size=(2000, 50))
        with parallel.split_always():
            expected = [Simplex(50).project(theta) for _ in range(3)][-1]
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            for result in pool.map(Simplex(50).project, [theta, theta]):
                assert np.array_equal(result, expected)


class TestKernels:
    def test_work_without_a_writable_folder(self, tmp_path):
        """A kernel of a module that can be cached nowhere compiles and runs all the same."""
        package = tmp_path / "sealed"
        package.mkdir()
        (package / "loops.py").write_text(
            "from fenchel._core.compile import kernel\n"
            "@kernel\n"
            "def double(start, stop, x):\n"
            "    for i in range(start, stop):\n"
            "        x[i] *= 2\n"
        )
        code = (
            "import sys; sys.path.insert(0, sys.argv[0] or '.');"
            f"sys.path.insert(0, {str(package)!r});"
            "import numba.core.caching as c;"
            # as root nothing is read-only, so take all cache folders away at their source
            "c.CacheImpl._locator_classes = [];"
            "import numpy as np, loops; x = np.ones(3); loops.double(0, 3, x); print(x.tolist())"
        )
        assert python(code) == "[2.0, 2.0, 2.0]"

    def test_survive_a_cache_that_cannot_be_written(self, tmp_path):
        (tmp_path / "loops2.py").write_text(
            "from fenchel._core.compile import kernel\n"
            "@kernel\n"
            "def double(start, stop, x):\n"
            "    for i in range(start, stop):\n"
            "        x[i] *= 2\n"
        )
        code = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
            "import numba.core.caching as c\n"
            "def full(*a, **k): raise OSError(28, 'No space left on device')\n"
            "c.IndexDataCacheFile.save = full\n"
            "import numpy as np, loops2; x = np.ones(3); loops2.double(0, 3, x); print(x.tolist())"
        )
        assert python(code) == "[2.0, 2.0, 2.0]"

    def test_fast_exp_is_exact_to_two_ulp(self):
        from fenchel._core.compile import kernel
        from fenchel.kernels.special import fast_exp

        def loop(start, stop, x, out):
            for i in range(start, stop):
                out[i] = fast_exp(x[i])

        loop.__module__ = __name__
        x = np.concatenate([np.linspace(-708, 700, 200001), np.random.default_rng(0).normal(size=100000)])
        out = np.empty_like(x)
        kernel(loop)(0, len(x), x, out)
        assert np.max(np.abs(out / np.exp(x) - 1)) < 2 * np.finfo(float).eps * 2


class TestImports:
    def test_import_is_light(self):
        heavy = python(
            "import fenchel, sys; print(sorted({m.split('.')[0] for m in sys.modules} & "
            "{'numba', 'sklearn', 'scipy', 'matplotlib', 'pandas', 'numpy', 'pyarrow'}))"
        )
        assert heavy == "[]"

    def test_structures_do_not_load_scikit_learn(self):
        code = (
            "import sys; from fenchel.structures import Simplex; Simplex(3).project([1.0, 0, 0]);"
            "print(sorted({'sklearn', 'scipy.optimize', 'matplotlib'} & set(sys.modules)))"
        )
        assert python(code) == "[]"

    def test_everything_named_is_there(self):
        assert set(fenchel.__all__) == {"__version__", *fenchel._SUBPACKAGES, *fenchel._FUNCTIONS, *fenchel._ESTIMATORS}
        for name in fenchel.__all__:
            assert getattr(fenchel, name) is not None
        for package in ("structures", "losses", "costs", "decoders", "scorers", "solvers", "estimators"):
            module = getattr(fenchel, package)
            for name in module.__all__:
                assert getattr(module, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            fenchel.nothing
        with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
            fenchel.structures.Nothing


class TestRegistry:
    def test_every_entry_loads_and_says_what_it_is(self):
        for entry in registry.entries():
            if entry.kind == "layer" and importlib.util.find_spec("torch") is None:
                continue
            assert entry.load() is not None
            assert entry.summary
            if isinstance(entry.load(), type):  # one class may play the games of several pairs
                assert registry.lookup(entry.load()).target == entry.target

    def test_find_suggests(self):
        with pytest.raises(InvalidInput, match="did you mean 'euclidean'"):
            registry.find("regularizer", "euclidian")

    def test_every_structure_and_loss_has_an_example(self):
        for kind in ("structure", "loss", "cost", "regularizer", "decoder"):
            for entry in registry.entries(kind):
                if entry.name in (
                    "budgets",
                    "graphs",
                    "matrices",
                ):  # items differ, so a batch of any size is no input of it
                    continue
                assert entry.examples, f"{entry.name} has no example for the conformance suite"


class TestChecks:
    @pytest.mark.parametrize("bad", [0, -3, 2.5, "7", None, True])
    def test_count(self, bad):
        with pytest.raises(InvalidInput, match="k is .*expected a whole number >= 1"):
            check_count(bad, "k")

    @pytest.mark.parametrize("bad", [0.0, -1, np.nan, np.inf, "x", None])
    def test_positive(self, bad):
        with pytest.raises(InvalidInput, match="alpha is"):
            check_finite_positive(bad, "alpha")

    def test_generators(self):
        rng = np.random.default_rng(3)
        assert check_generator(rng) is rng
        assert check_generator(7).random() == np.random.default_rng(7).random()
        assert isinstance(check_generator(np.random.RandomState(0)), np.random.Generator)
        assert isinstance(check_generator(None), np.random.Generator)
        with pytest.raises(InvalidInput, match="random_state is 'x'"):
            check_generator("x")
