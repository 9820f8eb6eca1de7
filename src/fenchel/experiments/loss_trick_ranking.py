"""Films in the order of a user's ratings: the loss trick against surrogate losses of pairs and the structured hinge.

Ciliberto, Rudi and Rosasco, "A consistent regularization approach for structured prediction", 2016, section 6 and Table
1: MovieLens-100k, 643 users to train, 300 to test, ten trials, five folds. Its features are "similar to those" of
Duchi, Mackey and Jordan (2010) and not listed; here they are age, sex, profession, and half of a user's own ratings.
The other half is the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._core import parallel
from .._core.errors import InvalidInput
from .._core.types import Array
from ..costs.rated_pairs import RatedPairs, Ratings
from ..decoders.answers.ranking import Ranking
from ..estimators.loss_trick import LossTrickPredictor
from ..kernels import rated_pairs as kernels
from ..scorers.kernel import Kernel
from .resume import Kept, fingerprint
from .selection import five_fold, folds_of

__all__ = ["run"]

_ALPHAS = tuple(float(f"1e{e}") for e in range(2, -6, -1))
_STEPS = 150
_OURS = {"ours, greedy": Ranking("greedy"), "ours, local search": Ranking("local")}
"""The document takes the greedy heuristic; local search comes nearer to the least weighted cost."""
_METHODS = ("linear", "hinge", "logistic", "structured hinge", *_OURS)
_PUBLISHED = ("0.430 ± 0.004", "0.432 ± 0.008", "0.432 ± 0.012", "0.451 ± 0.008", "0.396 ± 0.003", "-")
_NO_DATA = "No data given: ratings are generated; --data DIR reads DIR/u.data or DIR/ml-100k/u.data."
_COST = RatedPairs()


def run(
    data: Path | None = None, quick: bool = False, progress: Callable[[float, str], None] | None = None
) -> dict[str, Any]:
    """Normalised cost of the pairs that each method has in the wrong order, over seeded trials."""
    if data is None:
        features, ratings = _generated(90, 20, 8) if quick else _generated(943, 200, 25)
        training = len(ratings) - min(300, len(ratings) // 3)
    else:
        features, ratings = _movielens(data)
        training = 643
    trials = 2 if quick else 10
    alphas = _ALPHAS[::3] if quick else _ALPHAS
    found: list[dict[str, float]] = []
    with Kept("loss-trick-ranking", {"protocol": 2, "alphas": alphas, "steps": _STEPS}) as kept:
        for seed in range(trials):
            content = fingerprint(features, ratings)
            trial: dict[str, float] = {}
            for m, method in enumerate(_METHODS):
                if progress is not None:
                    progress((seed + m / len(_METHODS)) / trials, f"trial {seed + 1} of {trials}, {method}")
                what = {"content": content, "seed": seed, "method": method}
                value = kept.get(what)
                if value is None:
                    value = _one(features, ratings, training, seed, method, alphas)
                    kept.put(what, value)
                trial[method] = value
            found.append(trial)
        note = kept.note
    rows = []
    for method, published in zip(_METHODS, _PUBLISHED, strict=True):
        costs = [trial[method] for trial in found]
        gap = np.array(costs) - [trial["ours, greedy"] for trial in found]
        against = "-" if method == "ours, greedy" else f"{gap.mean():+.4f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}"
        rows.append([method, f"{np.mean(costs):.4f} ± {np.std(costs, ddof=1):.4f}", against, published])
    return {
        "title": "Ranking films: normalised cost of rated pairs in the wrong order (0.5 is a coin)",
        "columns": ["method", "cost", "more than ours, greedy (± standard error)", "published (MovieLens-100k)"],
        "rows": rows,
        "notes": [
            f"{trials} trials (seeds 0 to {trials - 1}): {training} users to train,",
            f"{min(300, len(ratings) - training)} to test; mean ± standard deviation.",
            "Inputs are the users' facts and half of their ratings, centred; the truth is the other half.",
            f"All kernels are linear, alpha is chosen from {alphas[-1]:g} to {alphas[0]:g} by five folds of the same cost.",
            "Ours orders by the heuristic of Eades, Lin and Smyth, as the document does, or goes on by local search.",
            f"Hinge and structured hinge are trained by {_STEPS} averaged subgradient steps on all users, the logistic",
            "loss by L-BFGS; these four learn a score for each film.",
            *([] if data is not None else [_NO_DATA]),
            *([note] if note else []),
        ],
        "values": found,
    }


# -- data --------------------------------------------------------------------------------------------------------------


def _generated(users: int, films: int, rated: int) -> tuple[Array, Array]:
    """Ratings like those of MovieLens-100k, of fewer films: few for most users and films, many for some.

    Taken from what is known of these data: age, sex and one of 21 professions say a little about taste; each user rated a
    set of films of their own (log-normal sizes, ``rated`` in the mean), of well-known films more often (log-normal,
    better films more), and of films to their taste more often; ratings from 1 to 5 have a mean of 3.7, a deviation of
    1.1, and about as much noise as there is to know. What is rated together hence depends on taste, and the mean order
    of pairs need not be that of any scores.
    """
    rng = np.random.default_rng(0)
    often = 1 / np.arange(1, 22)
    job = rng.choice(21, users, p=often / often.sum())
    facts = np.column_stack([rng.normal(size=users), rng.random(users) < 0.3, *(job == j for j in range(21))])
    facts = facts.astype(float)
    tastes = 0.3 * facts @ rng.normal(size=(23, 4)) + rng.normal(size=(users, 4))
    quality = 0.5 * rng.normal(size=films)
    own = 0.25 * tastes / tastes.std(axis=0) @ rng.normal(size=(4, films))
    fame = quality + 1.2 * rng.normal(size=films)
    count = rated * np.exp(0.8 * rng.normal(size=users) - 0.32)
    place = np.argsort(np.argsort(-(fame + own + rng.gumbel(size=own.shape)), axis=1), axis=1)
    liking = 3.4 + 0.4 * rng.normal(size=(users, 1)) + quality + own
    ratings = np.clip(np.round(liking + 0.85 * rng.normal(size=own.shape)), 1, 5)
    return facts, np.where(place < np.clip(count, rated / 5, films / 2)[:, None], ratings, np.nan)


def _movielens(data: Path) -> tuple[Array, Array]:
    folder = next((f for f in (data, data / "ml-100k") if (f / "u.data").exists()), None)
    if folder is None or not (folder / "u.user").exists():
        raise InvalidInput(f"there is no u.data with u.user in {str(data)!r} or its folder ml-100k (MovieLens-100k)")
    users = [line.split("|") for line in (folder / "u.user").read_text(encoding="latin-1").splitlines() if line]
    users = [user for user in users if int(user[0]) > 0]  # a copy that is about has a user 0 made up
    place = {int(user[0]): i for i, user in enumerate(users)}
    rows = np.loadtxt(folder / "u.data", dtype=np.int64)
    rows = rows[rows[:, 0] > 0]
    ratings = np.full((len(users), int(rows[:, 1].max())), np.nan)
    ratings[[place[u] for u in rows[:, 0].tolist()], rows[:, 1] - 1] = rows[:, 2]
    jobs = sorted({user[3] for user in users})
    age = np.array([float(user[1]) for user in users])
    facts = np.column_stack(
        [
            (age - age.mean()) / age.std(),
            [user[2] == "F" for user in users],
            *([user[3] == job for user in users] for job in jobs),
        ]
    ).astype(float)
    return facts, ratings


# -- methods -----------------------------------------------------------------------------------------------------------


def _one(facts: Array, ratings: Array, training: int, seed: int, method: str, alphas: Any) -> float:
    rng = np.random.default_rng(seed)
    given = rng.random(ratings.shape) < 0.5
    known = np.where(given, ratings, np.nan)
    counts = np.maximum((~np.isnan(known)).sum(axis=1, keepdims=True), 1)
    centred = np.nan_to_num(known - np.nansum(known, axis=1, keepdims=True) / counts)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    profile = centred / np.where(lengths > 0, lengths, 1)
    X = np.hstack([facts / np.sqrt(facts.shape[1]), profile, np.ones((len(facts), 1))])
    Y = np.where(given, np.nan, ratings)
    order = rng.permutation(len(X))
    inside, outside = order[:training], order[training : training + 300]
    rng = np.random.default_rng([seed, 1])  # the same folds for all methods
    if method in _OURS:
        answers = _OURS[method]
        _, alpha = five_fold(X[inside], Y[inside], _COST, answers, [1.0], alphas, rng, kernel="linear")
        model = LossTrickPredictor(_COST, kernel="linear", alpha=alpha, answers=answers)
        return float(_COST(model.fit(X[inside], Y[inside]).predict(X[outside]), Y[outside]).mean())
    folds = folds_of(training, rng)
    costs = np.zeros(len(alphas))
    for fold in range(5):
        part, rest = inside[folds != fold], inside[folds == fold]
        for a, alpha in enumerate(alphas):
            costs[a] += _COST(_surrogate(X[part], Y[part], X[rest], method, alpha), Y[rest]).sum()
    alpha = alphas[int(costs.argmin())]
    return float(_COST(_surrogate(X[inside], Y[inside], X[outside], method, alpha), Y[outside]).mean())


def _surrogate(X: Array, Y: Array, T: Array, method: str, alpha: float) -> Array:
    """The ranks by item scores that are linear in the inputs, trained with alpha/2 ‖B‖² on the mean of a surrogate loss."""
    scorer = Kernel(X, (Y.shape[1],), kernel="linear")
    inputs, ratings = scorer.X, _COST.ratings(Y)
    scale = _COST.scale(ratings)
    n = len(inputs)
    if method == "linear":
        net = _net_preferences(ratings, n) * scale[:, None]
        B = np.linalg.solve(inputs.T @ inputs + n * alpha * np.eye(inputs.shape[1]), inputs.T @ net)
    elif method == "logistic":
        B = _by_lbfgs(inputs, lambda s: _pairs(s, ratings, scale, True), (inputs.shape[1], Y.shape[1]), alpha)
    else:
        loss = _structured(ratings) if method == "structured hinge" else lambda s: _pairs(s, ratings, scale, False)
        B = _by_subgradients(inputs, loss, (inputs.shape[1], Y.shape[1]), alpha)
    scores = scorer.features(T) @ B
    return np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)


def _net_preferences(ratings: Ratings, n: int) -> Array:
    """Σ_j (r_i − r_j) over the items that each user rated: minus the gradient of the linear loss."""
    net = np.zeros((n, ratings.n_items))
    for user in range(n):
        part = slice(ratings.offsets[user], ratings.offsets[user + 1])
        values = ratings.values[part]
        net[user, ratings.items[part]] = len(values) * values - values.sum()
    return net


def _pairs(scores: Array, ratings: Ratings, scale: Array, logistic: bool) -> tuple[Array, Array]:
    values, gradient = np.empty(len(scores)), np.empty(scores.shape)
    arguments = (scores, ratings.items, ratings.values, ratings.offsets, logistic, values, gradient)
    parallel.run(kernels.pair_loss, len(scores), float(np.square(np.diff(ratings.offsets)).sum()), *arguments)
    return values * scale, gradient * scale[:, None]


def _structured(ratings: Ratings) -> Callable[[Array], tuple[Array, Array]]:
    """max over rankings of [cost + score] − score of the ratings' order, the score Σ (s_i − s_j)/P over ordered pairs.

    The sum is one of sorted numbers: each pair i before j earns (s_i − s_j)/P and costs (r_j − r_i)₊/Z, up to a constant
    h_i − h_j with h = s/P − r/(2Z), so the ranking that is found by sorting h is the exact maximum.
    """
    n = len(ratings.offsets) - 1
    table = np.full((n, ratings.n_items), np.nan)
    table[np.repeat(np.arange(n), np.diff(ratings.offsets)), ratings.items] = ratings.values
    rated = ~np.isnan(table)
    pairs = np.ones((n, 1))
    above = np.zeros(table.shape)  # how many items each one is rated above, less those that are rated above it
    for user in range(n):
        items = np.flatnonzero(rated[user])
        r = table[user, items]
        above[user, items] = np.sign(r[:, None] - r).sum(axis=1)
        pairs[user] = max((r[:, None] > r).sum(), 1)
    totals = ratings.totals()[:, None]
    # only rated items play: they come first, in their order, and the longest list sets the width
    count = rated.sum(axis=1, keepdims=True)
    places = np.argsort(~rated, axis=1, kind="stable")[:, : count.max()]
    rated, above = np.take_along_axis(rated, places, 1), np.take_along_axis(above, places, 1)
    share = np.nan_to_num(np.take_along_axis(table, places, 1)) / (2 * np.where(totals > 0, totals, np.inf))

    def loss(scores: Array) -> tuple[Array, Array]:
        own = np.take_along_axis(scores, places, 1)
        h = np.where(rated, own / pairs - share, -np.inf)
        ranks = np.empty(h.shape, np.int64)
        np.put_along_axis(ranks, np.argsort(-h, axis=1, kind="stable"), np.arange(h.shape[1])[None], 1)
        lead = np.where(rated & (totals > 0), count - 1 - 2 * ranks, 0)
        ahead = np.where(totals > 0, lead - above, 0)
        # each ordered pair costs (|r_i − r_j| − (r_i − r_j))/2 / Z, so all of them one half less a sum over the order
        values = (
            (ahead * own).sum(axis=1) / pairs[:, 0] + np.where(totals[:, 0] > 0, 0.5, 0) - (lead * share).sum(axis=1)
        )
        gradient = np.zeros(scores.shape)
        np.put_along_axis(gradient, places, ahead / pairs, 1)
        return values, gradient

    return loss


def _by_lbfgs(inputs: Array, loss: Any, shape: tuple[int, int], alpha: float) -> Array:
    from scipy.optimize import minimize

    n = len(inputs)

    def objective(flat: Array) -> tuple[float, Array]:
        B = flat.reshape(shape)
        values, gradient = loss(inputs @ B)
        return float(values.mean() + alpha / 2 * flat @ flat), (inputs.T @ gradient / n + alpha * B).ravel()

    found = minimize(objective, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    return np.asarray(found.x.reshape(shape))


def _by_subgradients(inputs: Array, loss: Any, shape: tuple[int, int], alpha: float) -> Array:
    """Steps of rate 1/(alpha (t + t₀)), averaged over the second half."""
    n = len(inputs)
    B, mean = np.zeros(shape), np.zeros(shape)
    steepest = float(np.linalg.eigvalsh(inputs.T @ inputs / n)[-1])
    late = max(1.0, steepest / alpha)  # no step is longer than that of a loss of this curvature
    for t in range(_STEPS):
        _, gradient = loss(inputs @ B)
        B -= (inputs.T @ gradient / n + alpha * B) / (alpha * (t + late))
        if t >= _STEPS // 2:
            mean += (B - mean) / (t - _STEPS // 2 + 1)
    return mean
