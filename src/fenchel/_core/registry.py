"""The one list of everything that has a name: structures, costs, losses, decoders, scorers, solvers, estimators.

The conformance tests, the tables in the docs, the choices of the command line and the reader of saved models are made
from it. A new part is one file and one line here. Entries hold import paths, not classes, so that reading the
list imports nothing.

``examples`` are calls that make small instances, as Python expressions over the names of the registry; they are what
the conformance suite runs on.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .errors import InvalidInput

__all__ = ["Entry", "entries", "find", "instances", "lookup", "register"]


@dataclass(frozen=True)
class Entry:
    """One named part of the library."""

    kind: str
    name: str
    target: str
    """Where it lives: ``package.module:Class``."""
    summary: str
    examples: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        return self.target.partition(":")[2]

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


_entries: dict[tuple[str, str], Entry] = {}


def register(kind: str, name: str, target: str, summary: str, *examples: str) -> None:
    """Add a line to the registry. A user's own part may be registered too; it then loads from saved models."""
    _entries[kind, name] = Entry(kind, name, target, summary, examples)


def entries(kind: str | None = None) -> list[Entry]:
    """All entries, or those of one kind, in the order of registration."""
    return [entry for entry in _entries.values() if kind is None or entry.kind == kind]


def find(kind: str, name: str) -> Entry:
    """The entry of a kind with this name; the error names the nearest that exists."""
    entry = _entries.get((kind, name))
    if entry is None:
        names = [e.name for e in entries(kind)]
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"{kind} is {name!r}, expected one of {', '.join(map(repr, names))}{hint}")
    return entry


def lookup(cls: type) -> Entry | None:
    """The entry of a class, if it has one."""
    path = f"{cls.__module__}:{cls.__qualname__}"
    return next((entry for entry in _entries.values() if entry.target == path), None)


def instances(kind: str) -> Iterator[tuple[str, Any]]:
    """Every example of a kind, as pairs of the expression and the instance it makes."""
    names = _Names()
    for entry in entries(kind):
        for example in entry.examples:
            yield example, eval(example, {"__builtins__": {}}, names)


class _Names(dict[str, Any]):
    """Class names of the registry, loaded when an example mentions them."""

    def __missing__(self, name: str) -> Any:
        if name.startswith("example_"):
            return getattr(importlib.import_module("fenchel.structures.examples"), name)
        for entry in _entries.values():
            if entry.class_name == name:
                return entry.load()
        raise KeyError(name)


def _fill() -> None:
    s = "fenchel.structures"
    register(
        "structure", "reals", f"{s}.reals:Reals", "all real vectors: no projection at all", "Reals(3)", "Reals(2, 2)"
    )
    register("structure", "nonnegative", f"{s}.reals:NonNegative", "vectors with no negative entry", "NonNegative(3)")
    register(
        "structure", "simplex", f"{s}.simplex:Simplex", "one of k classes", "Simplex(1)", "Simplex(2)", "Simplex(5)"
    )
    register(
        "structure",
        "abstention",
        f"{s}.abstention:Abstention",
        "one of k classes, or no answer",
        "Abstention(1)",
        "Abstention(3)",
    )
    register("structure", "cube", f"{s}.cube:Cube", "any subset of k labels", "Cube(1)", "Cube(4)")
    register(
        "structure",
        "order_simplex",
        f"{s}.order_simplex:OrderSimplex",
        "one of k ordered grades",
        "OrderSimplex(1)",
        "OrderSimplex(2)",
        "OrderSimplex(5)",
    )
    register(
        "structure",
        "budget",
        f"{s}.budget:Budget",
        "a subset of k labels with low to high of them",
        "Budget(5, 1, 3)",
        "Budget(4, 2, 2)",
        "Budget(4, 0, 4)",
        "Budget(1, 0, 1)",
        "Budget(3, 0, 0)",
    )
    register("structure", "budgets", f"{s}.budget:Budgets", "a budget for each item of a batch")
    register("structure", "birkhoff", f"{s}.birkhoff:Birkhoff", "a permutation, as a matrix: matchings and rankings",
             "Birkhoff(1)", "Birkhoff(2)", "Birkhoff(4)")  # fmt: skip
    register(
        "structure", "birkhoffs", f"{s}.birkhoff:Birkhoffs", "permutations of any numbers of elements", "Birkhoffs()"
    )
    register("structure", "matching", f"{s}.matching:Matching", "partners for n elements among m others, or none",
             "Matching(1, 1)", "Matching(2, 3)", "Matching(3, 1)", "Matching(3, 3)")  # fmt: skip
    register("structure", "matchings", f"{s}.matching:Matchings", "such matchings of any sizes", "Matchings()")
    register(
        "structure",
        "permutahedron",
        f"{s}.permutahedron:Permutahedron",
        "a ranking, by the weight of each rank",
        "Permutahedron(4)",
        "Permutahedron(1)",
        "Permutahedron([3.0, 1.0, 1.0, 0.0])",
        "Permutahedron([2, 0, -1])",
        "Permutahedron([1.0, 1.0])",
    )
    register("structure", "linear_ordering", f"{s}.linear_ordering:LinearOrdering",
             "a ranking, by who comes before whom", "LinearOrdering(1)", "LinearOrdering(2)", "LinearOrdering(4)")  # fmt: skip
    register(
        "structure",
        "finite",
        f"{s}.finite:Finite",
        "an explicit list of outputs",
        "Finite([[0, 0], [1, 0], [0, 1], [1, 1]])",
        "Finite([[2.0, 0.0, 1.0], [0.5, 3.0, 0.0], [1.0, 1.0, 1.0]])",
        "Finite([[1.0, -1.0], [-1.0, 1.0]])",
        "Finite([[1.0]])",
    )
    register(
        "structure",
        "oracle",
        f"{s}.oracle:Oracle",
        "a user's own maximiser",
        "Oracle(example_argmax, (4,))",
        "Oracle(example_batched_argmax, (2, 2), batched=True)",
    )
    register("structure", "product", f"{s}.product:Product", "several independent outputs of one structure",
             "Product(Simplex(3), 2)", "Product(OrderSimplex(3), 2)", "Product(Cube(2), 1)")  # fmt: skip
    register(
        "structure",
        "chain",
        f"{s}.chain:Chain",
        "a label for each position of a sequence, neighbours scored together",
        "Chain(3, 3)",
        "Chain(1, 2)",
        "Chain(0, 2)",
        "Chain(5, 1)",
        "Chain(3, 2, tied=True)",
    )
    t = f"{s}.tree"
    register("structure", "arborescence", f"{t}:Arborescence", "a tree of arcs: the head of each word, and labels",
             "Arborescence(1)", "Arborescence(3)", "Arborescence(2, labels=2)")  # fmt: skip
    register("structure", "arborescences", f"{t}:Arborescences", "trees of arcs of any sizes", "Arborescences()")
    register("structure", "dependency_tree", f"{t}:DependencyTree", "a tree of arcs with a single arc from the root",
             "DependencyTree(1)", "DependencyTree(3)", "DependencyTree(2, labels=2)")  # fmt: skip
    register("structure", "dependency_trees", f"{t}:DependencyTrees", "parses of sentences of any lengths",
             "DependencyTrees()")  # fmt: skip
    register("structure", "spanning_tree", f"{s}.spanning_tree:SpanningTree", "an undirected spanning tree, by its edges",
             "SpanningTree(1)", "SpanningTree(3)", "SpanningTree(4)")  # fmt: skip
    register("relaxation", "higher_order_tree", f"{s}.higher_order_tree:HigherOrderTree",
             "trees with scores for pairs of arcs, on a local polytope", 'HigherOrderTree(3, "siblings")',
             'HigherOrderTree(2, ("siblings", "grandparents"), single_root=True)')  # fmt: skip
    register("structure", "spanning_trees", f"{s}.spanning_tree:SpanningTrees", "undirected trees of any sizes",
             "SpanningTrees()")  # fmt: skip
    register("structure", "chains", f"{s}.chain:Chains", "chains of any lengths", "Chains(2)", "Chains(2, tied=True)")
    register("structure", "forest", f"{s}.graph:Forest", "a label for each node of trees", "Forest([-1, 0, 0, 1], 2)",
             "Forest([2, -1, -1], 3)", "Forest([], 2)")  # fmt: skip
    register("structure", "graph", f"{s}.graph:Graph", "a label for each node of a graph of low treewidth",
             "Graph([(0, 1), (1, 2), (2, 3), (3, 0)], 2)", "Graph([(2, 1)], 2, 4)")  # fmt: skip
    register("structure", "graphs", f"{s}.graph:Graphs", "a graph for each item of a batch")

    r = "fenchel.losses.regularizers"
    register("regularizer", "euclidean", f"{r}:Euclidean", "half the squared norm: Euclidean projection", "Euclidean()")
    register("regularizer", "kl", f"{r}:KL", "negative entropy of the point: Kullback-Leibler projection", "KL()")
    register("regularizer", "gibbs", f"{r}:Gibbs", "negative entropy of a distribution over vertices: Gibbs marginals",
             "Gibbs()")  # fmt: skip

    register("loss", "fenchel_young", "fenchel.losses.fenchel_young:FenchelYoung",
             "the loss generated by a regularizer on a structure",
             "FenchelYoung(Simplex(4), Euclidean())", "FenchelYoung(Simplex(4), KL(), strength=0.5, multiplier=2.0)",
             "FenchelYoung(Simplex(1), KL())", "FenchelYoung(Simplex(3), Gibbs(), strength=2.0)",
             "FenchelYoung(Cube(3), Euclidean(), strength=3.0)", "FenchelYoung(Cube(3), KL())",
             "FenchelYoung(Cube(3), Gibbs())", "FenchelYoung(OrderSimplex(4), Euclidean())",
             "FenchelYoung(OrderSimplex(4), KL())", "FenchelYoung(OrderSimplex(4), Gibbs(), strength=0.5)",
             "FenchelYoung(Reals(3), Euclidean())", "FenchelYoung(NonNegative(3), Euclidean())",
             "FenchelYoung(NonNegative(3), KL())", "FenchelYoung(Product(Simplex(3), 2), Euclidean())",
             "FenchelYoung(Product(Simplex(3), 2), KL())", "FenchelYoung(Product(Cube(2), 2), Gibbs())",
             "FenchelYoung(Budget(4, 1, 2), Euclidean())", "FenchelYoung(Budget(4, 1, 2), KL())",
             "FenchelYoung(Birkhoff(3), Euclidean())", "FenchelYoung(Birkhoff(3), KL(), strength=0.5)",
             "FenchelYoung(Birkhoff(3), Gibbs(enumerated=True))",
             "FenchelYoung(LinearOrdering(3), Euclidean())", "FenchelYoung(LinearOrdering(4), Gibbs())",
             "FenchelYoung(Permutahedron(4), Euclidean())", "FenchelYoung(Permutahedron(4), KL())",
             "FenchelYoung(Finite([[0, 0], [1, 0], [0, 1], [1, 1]]), Gibbs())",
             "FenchelYoung(Oracle(example_argmax, (4,)), Euclidean())", "FenchelYoung(Chain(3, 2), Euclidean())",
             "FenchelYoung(Chain(3, 2), KL())", "FenchelYoung(Chain(3, 2), Gibbs(), strength=0.5)",
             "FenchelYoung(Chain(3, 2, tied=True), Gibbs())", "FenchelYoung(DependencyTree(3), Euclidean())",
             "FenchelYoung(Arborescence(2, labels=2), Gibbs())", "FenchelYoung(SpanningTree(4), Gibbs())",
             "FenchelYoung(Forest([-1, 0, 0], 2), KL())")  # fmt: skip
    register(
        "loss",
        "perceptron",
        "fenchel.losses.margin:Perceptron",
        "structured perceptron: an argmax",
        "Perceptron(Simplex(3))",
        "Perceptron(Birkhoff(3))",
        "Perceptron(Chain(3, 2))",
    )
    register(
        "loss",
        "hinge",
        "fenchel.losses.margin:Hinge",
        "structured hinge: an argmax with the cost added",
        "Hinge(Simplex(4), ZeroOne())",
        "Hinge(OrderSimplex(4), Absolute())",
        "Hinge(Cube(3), Hamming())",
        "Hinge(Birkhoff(3), Hamming())",
        "Hinge(Matchings(), WrongPartners(0.5))",
        "Hinge(Chain(3, 2), Hamming())",
        "Hinge(Chain(3, 3, tied=True), Absolute())",
    )
    register("loss", "softmax_margin", "fenchel.losses.softmax_margin:SoftmaxMargin",
             "a conditional random field with the cost added to the scores", "SoftmaxMargin(Simplex(4), ZeroOne())",
             "SoftmaxMargin(Cube(3), Hamming())", "SoftmaxMargin(Chain(3, 2), Hamming())",
             "SoftmaxMargin(DependencyTrees(), Hamming())")  # fmt: skip
    register("loss", "minimum_risk", "fenchel.losses.minimum_risk:MinimumRisk",
             "the expected cost of a draw from the Gibbs distribution; not convex", "MinimumRisk(Simplex(4), ZeroOne())",
             "MinimumRisk(OrderSimplex(4), Absolute())", "MinimumRisk(Cube(3), Hamming(), strength=2.0)",
             "MinimumRisk(Chain(3, 2), Hamming())", "MinimumRisk(DependencyTrees(), Hamming())",
             "MinimumRisk(SpanningTree(4), Hamming())")  # fmt: skip
    register("loss", "head_selection", "fenchel.losses.head_selection:HeadSelection",
             "each word of a tree chooses its head by itself: cross-entropy", "HeadSelection(DependencyTrees())",
             "HeadSelection(Arborescence(2, labels=2))")  # fmt: skip
    register("loss", "smooth_hinge", "fenchel.losses.smooth_hinge:SmoothHinge",
             "a smooth hinge on the margin between the true class and the others", "SmoothHinge(Simplex(3))")  # fmt: skip
    register(
        "loss",
        "squared",
        "fenchel.losses.named:Squared",
        "squared distance to the truth: no projection",
        "Squared(Simplex(3))",
    )
    register(
        "loss",
        "crf",
        "fenchel.losses.named:CRF",
        "conditional random field: Gibbs marginals",
        "CRF(OrderSimplex(4))",
        "CRF(Budget(4, 1, 2))",
        "CRF(Birkhoffs(), enumerated=True)",
        "CRF(Matching(2, 3), enumerated=True)",
        "CRF(Chain(4, 2))",
        "CRF(Chains(2, tied=True))",
        "CRF(Forest([-1, 0, 0], 2))",
        "CRF(Graph([(0, 1), (1, 2), (2, 0)], 2))",
    )

    register(
        "loss",
        "adversarial",
        "fenchel.losses.adversarial:Adversarial",
        "the negative Bayes risk of a cost: a zero-sum game",
        "Adversarial(Simplex(1), ZeroOne())",
        "Adversarial(Simplex(4), ZeroOne())",
        "Adversarial(OrderSimplex(4), ZeroOne())",
        "Adversarial(DependencyTree(3), Hamming())",
        "Adversarial(Simplex(5), Absolute())",
        "Adversarial(OrderSimplex(5), Absolute())",
        "Adversarial(Simplex(6), SquaredError())",
        "Adversarial(OrderSimplex(4), SquaredError())",
        "Adversarial(Simplex(4), Abstain(0.3))",
        "Adversarial(OrderSimplex(4), Abstain(0.6))",
        "Adversarial(Simplex(3), Abstain(0.8, Absolute()))",
        "Adversarial(Simplex(3), CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]]))",
        "Adversarial(Simplex(2), CostMatrix([[0, 5], [1, 0], [0.5, 2.0]]))",
        "Adversarial(Simplex(3), Scaled(ZeroOne(), 2.5))",
        "Adversarial(Cube(3), Hamming())",
        "Adversarial(Product(Simplex(3), 2), Hamming())",
        "Adversarial(Birkhoff(3), Hamming())",
        "Adversarial(Birkhoff(3), Hamming(), smoothing=0.5)",
        "Adversarial(Birkhoffs(), Hamming())",
        "Adversarial(Matching(2, 3), Hamming())",
        "Adversarial(Matchings(), WrongPartners(0.5))",
        "Adversarial(Matchings(), Hamming(), smoothing=0.5)",
        "Adversarial(Budget(4, 1, 2), Hamming())",
        "Adversarial(Chain(3, 2), Hamming())",
        "Adversarial(Forest([-1, 0, 0], 3), Absolute())",
        "Adversarial(Graph([(0, 1), (1, 2), (2, 0)], 2), Hamming())",
        "Adversarial(Simplex(4), ZeroOne(), smoothing=0.5)",
        "Adversarial(Chain(2, 2), Hamming(), smoothing=0.5)",
        "Adversarial(Simplex(3), Abstain(0.3), smoothing=2.0)",
    )
    m = "fenchel.losses.margins"
    for name, target, summary, example in (
        ("crammer_singer", "relative:CrammerSinger", "margin: the best wrong class", "CrammerSinger(Simplex(4))"),
        ("weston_watkins", "relative:WestonWatkins", "margin: every wrong class", "WestonWatkins(Simplex(4))"),
        ("lee_lin_wahba", "hinges:LeeLinWahba", "margin: absolute, scores that sum to zero", "LeeLinWahba(Simplex(4))"),
        ("one_vs_all", "hinges:OneVsAll", "margin: each class against the rest", "OneVsAll(Simplex(4))"),
        ("all_thresholds", "hinges:AllThresholds", "margin: every threshold", "AllThresholds(OrderSimplex(4))"),
        ("immediate_thresholds", "hinges:ImmediateThresholds", "margin: the two next thresholds",
         "ImmediateThresholds(OrderSimplex(4))"),
        ("threshold_reduction", "hinges:ThresholdReduction", "margin: weighted binary questions (RED)",
         "ThresholdReduction(OrderSimplex(4), SquaredError())"),
        ("one_sided_regression", "hinges:OneSidedRegression", "margin: costs regressed from one side",
         "OneSidedRegression(Simplex(4), Absolute())"),
        ("cost_sensitive_one_vs_all", "hinges:CostSensitiveOneVsAll", "margin: one-vs-all weighted by costs",
         "CostSensitiveOneVsAll(Simplex(4), Absolute())"),
        ("cost_sensitive_one_vs_one", "hinges:CostSensitiveOneVsOne", "margin: pairs of classes weighted by costs",
         "CostSensitiveOneVsOne(Simplex(4), Absolute())"),
    ):  # fmt: skip
        register("loss", name, f"{m}.{target}", summary, example)

    g = "fenchel.losses.games"
    for structure in ("Simplex", "OrderSimplex"):
        for cost, target, summary in (
            ("ZeroOne", "zero_one:ZeroOneGame", "a projection, O(k)"),
            ("Hamming", "zero_one:ZeroOneGame", "a projection, O(k)"),
            ("Absolute", "absolute:AbsoluteGame", "two maxima, O(k)"),
            ("SquaredError", "squared:SquaredGame", "an upper envelope, O(k)"),
            ("Abstain", "abstention:AbstentionGame", "two largest scores, O(k)"),
            ("Cost", "matrix:MatrixGame", "a compiled linear program"),
        ):
            register("game", f"{structure}, {cost}", f"{g}.{target}", summary)
    for structure in ("Chain", "Chains", "Forest", "Graph", "Graphs"):
        register(
            "game", f"{structure}, Cost", f"{g}.graph:ForestGame", "interior points, O(nodes labels³), without loops"
        )
    register("game", "Structure, Scaled", f"{g}.scaled:ScaledGame", "the game of the cost that is scaled")
    register("game", "Product, Hamming", f"{g}.product:ProductGame", "one game for each factor")
    for structure in ("Birkhoff", "Birkhoffs", "Matching", "Matchings"):
        for kind in ("game", "smoothed_game"):
            register(
                kind, f"{structure}, Hamming", f"{g}.matching:MatchingGame", "an interior point method, O(n³) a step"
            )
    for structure in ("Matching", "Matchings"):
        for kind in ("game", "smoothed_game"):
            register(kind, f"{structure}, WrongPartners", f"{g}.matching:MatchingGame", "an interior point method")
    register(
        "smoothed_game", "Structure, Cost", f"{g}.smoothed:SmoothedGame", "accelerated steps, from two projections"
    )
    register("game", "Cube, Hamming", f"{g}.product:CubeGame", "label by label, O(k)")
    for structure in ("Arborescence", "DependencyTree", "Arborescences", "DependencyTrees"):
        for kind in ("game", "smoothed_game"):
            register(kind, f"{structure}, Hamming", f"{g}.tree:TreeGame", "interior points, and cuts by maximum flows")
    register("game", "Family, Cost", f"{g}.family:FamilyGame", "member by member")
    register("game", "Structure, Cost", f"{g}.double_oracle:DoubleOracle", "best answers in turn, from an argmax")

    c = "fenchel.costs"
    register("cost", "zero_one", f"{c}.zero_one:ZeroOne", "one for every wrong answer", "ZeroOne()")
    register("cost", "hamming", f"{c}.hamming:Hamming", "the number of wrong parts", "Hamming()")
    register("cost", "wrong_partners", f"{c}.wrong_partners:WrongPartners",
             "wrong partners, none counting less", "WrongPartners(0.5)")  # fmt: skip
    register("cost", "absolute", f"{c}.absolute:Absolute", "how many grades the answer is off", "Absolute()")
    register("cost", "squared", f"{c}.squared_error:SquaredError", "how many grades off, squared", "SquaredError()")
    register("cost", "matrix", f"{c}.cost_matrix:CostMatrix", "a cost for every pair of answer and truth",
             "CostMatrix([[0, 1, 4], [2, 0, 1], [3, 3, 0]])")  # fmt: skip
    register("cost", "abstain", f"{c}.abstain:Abstain", "a price for no answer", "Abstain(0.3)")
    register("cost", "scaled", f"{c}.scaled:Scaled", "a cost times a factor, for all examples or each",
             "Scaled(Hamming(), 0.5)")  # fmt: skip
    register("cost", "matrices", f"{c}.cost_matrix:CostMatrices", "a cost matrix for each example")
    register(
        "cost", "weighted", f"{c}.weighted:Weighted", "a cost weighted by position", "Weighted(Hamming(), [3, 1, 2])"
    )
    register("cost", "discounted", f"{c}.ranking:Discounted", "one minus the NDCG of a ranking", "Discounted()")
    register("cost", "disagreements", f"{c}.disagreements:Disagreements", "pairs of items in the wrong order",
             "Disagreements()")  # fmt: skip
    register("cost", "spearman", f"{c}.spearman:Spearman", "how badly two rankings correlate", "Spearman()")
    register("cost", "f_measure", f"{c}.f_measure:FMeasure", "one minus the F-measure of a label set", "FMeasure()")
    register("cost", "function", f"{c}.own:CostFunction", "a function of your own", "CostFunction(example_cost)")
    register("cost", "affine", f"{c}.own:AffineCost", "an affine form of your own",
             "AffineCost(Cube(2), [[-3.0, 0.0], [0.0, -12.0]], [1.0, 2.0], [2.0, 10.0])")  # fmt: skip
    n = f"{c}.numbers"
    register("cost", "huber", f"{n}:Huber", "numbers: squared near, absolute far", "Huber()")
    register("cost", "cauchy", f"{n}:Cauchy", "numbers: logarithmic far, for many outliers", "Cauchy()")
    register("cost", "geman_mcclure", f"{n}:GemanMcClure", "numbers: bounded, for gross outliers", "GemanMcClure()")
    register("cost", "fair", f"{n}:Fair", "numbers: like Huber's, smoother", "Fair()")
    register("cost", "l2_l1", f"{n}:L2L1", "numbers: squared near, absolute far, smooth", "L2L1()")
    register("cost", "epsilon_insensitive", f"{n}:EpsilonInsensitive", "numbers: small differences are free",
             "EpsilonInsensitive()")  # fmt: skip
    register("cost", "pinball", f"{n}:Pinball", "numbers: a quantile", "Pinball(0.9)")
    register("cost", "logistic", f"{n}:LogisticCost", "numbers whose sign counts, smooth", "LogisticCost()")
    register("cost", "hinge", f"{n}:HingeCost", "numbers whose sign counts, linear in pieces", "HingeCost()")
    register("cost", "hellinger", f"{c}.histograms:Hellinger", "histograms: distance of the roots, squared or absolute",
             "Hellinger()", "Hellinger(squared=False)")  # fmt: skip
    register("cost", "chi_squared", f"{c}.histograms:ChiSquared", "histograms: chi-squared distance", "ChiSquared()")
    register("cost", "kernel", f"{c}.kernel_cost:KernelCost", "the squared distance that a kernel between outputs makes",
             "KernelCost()")  # fmt: skip
    register("cost", "rated_pairs", f"{c}.rated_pairs:RatedPairs", "pairs of rated items in the wrong order, by how much",
             "RatedPairs()")  # fmt: skip
    register("cost", "diffusion", f"{c}.diffusion:DiffusionDistance", "points on the circle or sphere: diffusion distance",
             "DiffusionDistance()")  # fmt: skip
    register("cost", "edit_distance", f"{c}.edit_distance:EditDistance", "texts: letters to change", "EditDistance()")

    register("cost", "precision_at", f"{c}.ranking:PrecisionAt", "wrong labels among k answered", "PrecisionAt(2)")

    d = "fenchel.decoders"
    register("decoder", "map", f"{d}.map:MAP", "the output of highest score", "MAP()")
    register("decoder", "likeliest", f"{d}.likeliest:Likeliest", "the likeliest answer of the predictor", "Likeliest()")
    register("decoder", "calibrated", f"{d}.calibrated:Calibrated", "the answer of least expected cost",
             "Calibrated(Simplex(3), ZeroOne())")  # fmt: skip

    register("decoder", "randomized", f"{d}.randomized:Randomized",
             "near a vertex that vertex, else a draw with the right mean", "Randomized(Simplex(3))")  # fmt: skip
    register(
        "decoder", "nearest", f"{d}.randomized:Nearest", "the vertex nearest to the prediction", "Nearest(Simplex(3))"
    )
    register("decoder", "always_random", f"{d}.randomized:AlwaysRandom", "a draw whose mean is the prediction",
             "AlwaysRandom(Simplex(3))")  # fmt: skip

    register("decoder", "uniform_exploration", f"{d}.randomized:UniformExploration",
             "the best class, or any class where the margin is small", "UniformExploration(Simplex(3))")  # fmt: skip

    a = "fenchel.decoders.answers"
    register("answers", "candidates", f"{a}.candidates:Candidates", "the best of a list, by default the training outputs",
             "Candidates()")  # fmt: skip
    register("answers", "structure", f"{a}.structure:StructureAnswers", "one argmax, where the cost is affine",
             "StructureAnswers(Simplex(3))")  # fmt: skip
    register("answers", "line", f"{a}.line:Line", "a real number, for any cost of numbers", "Line()")
    register("answers", "histogram", f"{a}.histogram:Histogram", "any histogram, for Hellinger and chi-squared costs",
             "Histogram()")  # fmt: skip
    register("answers", "ranking", f"{a}.ranking:Ranking", "a ranking, from truths that rate some items", "Ranking()")
    register("answers", "sphere", f"{a}.manifold:Sphere", "unit vectors, by Riemannian steps", "Sphere()")
    register("answers", "rotations", f"{a}.manifold:Rotations", "rotations, by Riemannian steps", "Rotations()")
    register("answers", "mean", f"{a}.own:WeightedMean", "the weighted mean: kernel ridge regression", "WeightedMean()")
    register(
        "answers", "pre_image", f"{a}.candidates:PreImage", "kernel dependency estimation's own decoding", "PreImage()"
    )
    register("answers", "function", f"{a}.own:FunctionAnswers", "a search of your own")

    register("scorer", "linear", "fenchel.scorers.linear:Linear", "scores linear in dense or sparse rows")

    register("scorer", "linear_graph", "fenchel.scorers.linear_graph:LinearGraph",
             "scores of labelled graphs, with features of nodes and edges")  # fmt: skip

    register("scorer", "linear_chain", "fenchel.scorers.linear_chain:LinearChain",
             "scores of label sequences, with transition or pair features")  # fmt: skip

    register("scorer", "thresholds", "fenchel.scorers.thresholds:Thresholds",
             "scores of thresholds between grades, with one direction for all")  # fmt: skip
    register("scorer", "pairs", "fenchel.scorers.pairs:Pairs", "scores of matchings, from features of pairs")

    register("scorer", "bilinear", "fenchel.scorers.bilinear:Bilinear", "scores of arcs, bilinear in words and heads")
    register("scorer", "kernel", "fenchel.scorers.kernel:Kernel", "scores from a kernel between inputs")

    v = "fenchel.solvers"
    register("solver", "lbfgs", f"{v}.lbfgs:LBFGS", "limited-memory BFGS, for smooth losses", "LBFGS()")
    register("solver", "bcfw", f"{v}.bcfw:BlockFrankWolfe", "block-coordinate Frank-Wolfe, for every loss",
             "BlockFrankWolfe()")  # fmt: skip
    register("solver", "dual_projected", f"{v}.dual_projected:DualProjected",
             "accelerated projected steps on the dual, for losses with a smooth Ω", "DualProjected()")  # fmt: skip
    register("solver", "dual_frank_wolfe", f"{v}.dual_frank_wolfe:DualFrankWolfe",
             "Frank-Wolfe on the dual of all examples, for losses with a smooth Ω", "DualFrankWolfe()")  # fmt: skip
    register("solver", "bundle", f"{v}.bundle:Bundle", "a bundle method, for every loss: the fastest where there are kinks",
             "Bundle()")  # fmt: skip
    register("solver", "dual_coordinate", f"{v}.dual_coordinate:DualCoordinate",
             "exact moves of one dual variable at a time, for losses with kinks between classes: for kernels",
             "DualCoordinate()")  # fmt: skip
    register("solver", "pegasos", f"{v}.pegasos:Pegasos", "subgradient steps of length 1/(alpha t), for every loss",
             "Pegasos()")  # fmt: skip
    register("solver", "proximal", f"{v}.proximal:Proximal", "accelerated proximal gradient, for smooth losses, l2 or l1",
             "Proximal()")  # fmt: skip
    register("solver", "adam", f"{v}.adam:Adam", "Adam on mini-batches, for every loss, l2 or l1", "Adam()")
    register("solver", "sgd", f"{v}.sgd:SGD", "stochastic gradients on mini-batches, for every loss, l2 or l1", "SGD()")
    register("solver", "perceptron", f"{v}.perceptron:AveragedPerceptron", "the averaged perceptron, a rule of updates",
             "AveragedPerceptron()")  # fmt: skip

    register("state", "ragged", "fenchel._core.ragged:Ragged", "items of different sizes")
    register("state", "bcfw_dual", f"{v}.bcfw:DualState", "where block-coordinate Frank-Wolfe goes on from")
    register("state", "bundle", f"{v}.bundle:BundleState", "where the bundle method goes on from")
    register("state", "pegasos", f"{v}.pegasos:PegasosState", "where Pegasos goes on from")
    register("state", "stream", f"{v}.sgd:StreamState", "where one-by-one learning goes on from")

    x = "fenchel.experiments"
    register("experiment", "projection-sets", f"{x}.projection_sets:run",
             "what a smaller set to project on is worth, on scikit-learn's bundled sets")  # fmt: skip
    register("experiment", "label-ranking", f"{x}.label_ranking:run",
             "rankings by sets to project on and to decode to (Blondel 2019, Tables 1 and 2)")  # fmt: skip
    register("experiment", "ordinal", f"{x}.ordinal:run",
             "grades: ridge against the order simplex and its supersets (Blondel 2019, section 6)")  # fmt: skip

    register("experiment", "multilabel", f"{x}.multilabel:run",
             "label sets: the unit cube against the budget (Blondel 2019, section 6)")  # fmt: skip

    register("experiment", "zero-one", f"{x}.zero_one:run",
             "accuracy beside multiclass support vector machines (Fathony 2019, Tables I and II)")  # fmt: skip
    register("experiment", "ordinal-adversarial", f"{x}.ordinal_adversarial:run",
             "absolute error on grades beside margin losses (Fathony 2019, Tables III to V)")  # fmt: skip
    register("experiment", "abstention", f"{x}.abstention:run",
             "answers where no answer costs one half (Fathony 2019, Table VI)")  # fmt: skip
    register("experiment", "sequence", f"{x}.graded_sequences:run",
             "graded sequences for six costs: adversarial, CRF, hinge (Fathony 2019, Table VII)")  # fmt: skip
    register("experiment", "tree-labelling", f"{x}.tree_labelling:run",
             "labels of nodes of dependency trees with a cost matrix (Fathony 2019, Table VIII)")  # fmt: skip
    register("experiment", "letters", f"{x}.letters:run",
             "OCR letters in ten folds: chains by four losses against no structure (Taskar et al. 2003)")  # fmt: skip
    register("experiment", "entities", f"{x}.entities:run",
             "names in Dutch newspapers: F1 of entities by loss")  # fmt: skip

    register("experiment", "matching", f"{x}.matching:run",
             "matchings of boxes in videos: adversarial against hinge (Fathony et al. 2018, Tables 1 and 2)")  # fmt: skip
    register("experiment", "online-regret", f"{x}.online_regret:run",
             "surrogate regret of online learners by structure, step rule and decoder, beside its bounds")  # fmt: skip
    register("experiment", "projection-convergence", f"{x}.projection_convergence:run",
             "trees: how fast methods of projection converge (Li et al. 2022, figure 1)")  # fmt: skip
    register("experiment", "robust-theory", f"{x}.robust_theory:run",
             "moment-robust trees: what is proved, measured on known populations (Li et al. 2022, section 3.5)")  # fmt: skip
    register("experiment", "parsing", f"{x}.parsing:run",
             "parsing from few sentences, robust trainers against head selection (Li et al. 2022, tables 1 and 2)")  # fmt: skip
    register("experiment", "robust-sensitivity", f"{x}.robust_sensitivity:run",
             "smoothing and radius of the moment-robust loss (Li et al. 2022, figure 2)")  # fmt: skip
    register("experiment", "lower-bound", f"{x}.lower_bound:run",
             "what the worst stream forces on every online learner")  # fmt: skip

    register("experiment", "robust", f"{x}.robust:run",
             "regression with outliers by the loss trick (Ciliberto et al. 2016, Figure 1)")  # fmt: skip
    register("experiment", "digits", f"{x}.digits:run",
             "the lower half of a digit from its upper half (Ciliberto et al. 2016, Table 2)")  # fmt: skip
    register("experiment", "loss-trick-rates", f"{x}.loss_trick_rates:run",
             "how the loss trick's risk falls with the examples (Ciliberto et al. 2016, Theorems 2, 4, 5)")  # fmt: skip
    register("experiment", "loss-trick-ranking", f"{x}.loss_trick_ranking:run",
             "films in the order of a user's ratings (Ciliberto et al. 2016, Table 1)")  # fmt: skip

    register("transformer", "table_encoder", "fenchel.data.encoder:TableEncoder",
             "columns of a table as a matrix: numbers standardised, texts one-hot", "TableEncoder()")  # fmt: skip

    register("transformer", "sequence_encoder", "fenchel.data.sequences:SequenceEncoder",
             "feature dicts of sequences as a sparse matrix", "SequenceEncoder()")  # fmt: skip

    e = "fenchel.estimators"
    register("estimator", "fenchel_young_classifier", f"{e}.classify:FenchelYoungClassifier",
             "a class, by a projection loss", "FenchelYoungClassifier()")  # fmt: skip
    register("estimator", "adversarial_classifier", f"{e}.adversarial:AdversarialClassifier",
             "a class, trained for exactly the cost of a mistake", "AdversarialClassifier()")  # fmt: skip
    register("estimator", "margin_classifier", f"{e}.margin:MarginClassifier",
             "a class or a grade, by a margin loss", "MarginClassifier()")  # fmt: skip
    register("estimator", "ordinal_classifier", f"{e}.ordinal:OrdinalClassifier", "an ordered grade",
             "OrdinalClassifier()")  # fmt: skip
    register("estimator", "multilabel_classifier", f"{e}.multilabel:MultilabelClassifier", "a set of labels",
             "MultilabelClassifier()")  # fmt: skip
    register("estimator", "label_ranker", f"{e}.rank:LabelRanker", "a ranking of labels",
             "LabelRanker()")  # fmt: skip
    register("estimator", "graph_labeler", f"{e}.graph:GraphLabeler", "a label for each node of a tree or graph",
             "GraphLabeler()")  # fmt: skip
    register("estimator", "sequence_labeler", f"{e}.tag:SequenceLabeler", "a label for each position of a sequence",
             "SequenceLabeler()")  # fmt: skip
    register("estimator", "tree_predictor", f"{e}.tree:TreePredictor", "trees over the nodes of each input",
             "TreePredictor()")  # fmt: skip
    register("estimator", "dependency_parser", f"{e}.parse:DependencyParser", "heads and labels of the words of sentences",
             "DependencyParser()")  # fmt: skip
    register("features", "neural", f"{e}.neural:NeuralFeatures", "vectors of words from a network, for a dependency parser",
             "NeuralFeatures()")  # fmt: skip
    register("estimator", "bipartite_matcher", f"{e}.match:BipartiteMatcher", "a matching between two sets",
             "BipartiteMatcher()")  # fmt: skip
    o = "fenchel.online"
    register("state", "online_constants", f"{o}.constants:Constants", "the constants of a regret bound")
    register("step", "constant", f"{o}.steps:ConstantStep", "gradient descent with one rate", "ConstantStep(0.1)")
    register("step", "adaptive", f"{o}.steps:AdaptiveStep", "on a ball, with a rate that follows the gradients",
             "AdaptiveStep(10.0)")  # fmt: skip
    register("step", "parameter_free", f"{o}.steps:ParameterFree", "bets instead of a rate", "ParameterFree(1.0)")
    register("learner", "records", f"{o}.stream:RecordLearner", "a learner on records with named fields",
             'RecordLearner("classify")')  # fmt: skip
    register("learner", "learner", f"{o}.learner:Learner", "plays, is told the truth, learns", "Learner(Simplex(3))")

    register("estimator", "loss_trick", f"{e}.loss_trick:LossTrickPredictor", "any output, with any cost between two outputs",
             "LossTrickPredictor()")  # fmt: skip
    register("learner", "online_to_batch", f"{o}.batch:OnlineToBatch", "a learner's averaged weights as an estimator",
             "OnlineToBatch(Learner(Simplex(3)))")  # fmt: skip

    register(
        "estimator", "match_model", "fenchel.cli.match_model:MatchModel", "a matcher of tables of pairs or of boxes"
    )
    register("estimator", "parse_model", "fenchel.cli.parse_model:ParseModel", "a parser of CoNLL-U files")
    register("estimator", "tag_model", "fenchel.cli.tag_model:TagModel", "a tagger of column files")
    register("estimator", "table_model", "fenchel.cli.model:TableModel", "a model with the table encoder before it")

    n = "fenchel.nn"  # needs PyTorch
    register("layer", "project", f"{n}.layers:Project", "Euclidean projection: sparsemax, SparseMAP, soft ranks")
    register("layer", "kl_project", f"{n}.layers:KLProject", "Kullback-Leibler projection: softmax, Sinkhorn")
    register("layer", "marginals", f"{n}.layers:Marginals", "Gibbs marginals")
    register("layer", "argmax", f"{n}.layers:Argmax", "a vertex of highest score, with the derivative zero")
    register("layer", "structured_loss", f"{n}.losses:StructuredLoss", "any loss of the library")
    register("layer", "fenchel_young_loss", f"{n}.losses:FenchelYoungLoss", "the loss of a regularizer on a structure")
    register("layer", "crf_loss", f"{n}.losses:CRFLoss", "minus the log-probability of the truth")
    register("layer", "adversarial_loss", f"{n}.losses:AdversarialLoss", "the loss of a mistake cost, as a game")
    register("layer", "hinge_loss", f"{n}.losses:HingeLoss", "structured hinge")
    register("layer", "biaffine_scorer", f"{n}.biaffine:BiaffineScorer", "a network that scores the arcs of sentences")
    register("layer", "parsing_network", f"{n}.parser:ParsingNetwork", "it, trained, for sentences of a treebank")
    register("layer", "word_index", f"{n}.biaffine:WordIndex", "numbers for words and characters, for it")


_fill()
