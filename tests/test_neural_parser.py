"""The parser with a network: vectors of words, training end to end or with a frozen network, saving."""

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fenchel  # noqa: E402
from fenchel import DependencyParser  # noqa: E402
from fenchel.data import Sentence, small_treebank  # noqa: E402
from fenchel.errors import InvalidInput  # noqa: E402
from fenchel.estimators import NeuralFeatures  # noqa: E402
from fenchel.metrics import attachment_scores  # noqa: E402
from fenchel.nn import ParsingNetwork, train_network  # noqa: E402

pytestmark = pytest.mark.torch

SMALL = {
    "word_size": 16, "character_size": 8, "tag_size": 8, "hidden": 16, "layers": 1, "arc_size": 16, "label_size": 12,
    "dropout": 0.0,
}  # fmt: skip
TRAIN = small_treebank(10, random_state=0)
TEST = small_treebank(30, random_state=1)
LOSSES = ["crf", "softmax-margin", "hinge", "robust-stochastic", "binary", "head-selection"]


def features(**options):
    return NeuralFeatures(**{**SMALL, "epochs": 50, "learning_rate": 1e-2, "batch_words": 40, **options})


@pytest.mark.parametrize("loss", LOSSES)
def test_end_to_end_learns_ten_sentences_by_heart_and_saves(loss, tmp_path):
    game = loss == "robust-stochastic"  # each step plays a game for each sentence
    train = TRAIN[:3] if game else TRAIN
    locally = loss in ("binary", "head-selection")  # what says nothing of trees takes longer
    made = features(epochs=60 if game else 100 if locally else 50, batch_words=16 if game else 40)
    parser = DependencyParser(loss, features=made, random_state=0).fit(train)
    scores = attachment_scores(train, parser.predict(train))
    assert scores.uas == 1.0
    assert scores.las > 0.95
    assert parser.objective_ < 6.0  # with dropped words
    parses = parser.predict(TEST)
    fenchel.save(parser, tmp_path / "parser")
    again = fenchel.load(tmp_path / "parser")
    assert [str(s) for s in again.predict(TEST)] == [str(s) for s in parses]
    for mu, other in zip(parser.predict_marginals(TEST[:2]), again.predict_marginals(TEST[:2]), strict=True):
        assert np.array_equal(mu, other)
        assert np.allclose(mu.sum(axis=1), 1)


def test_frozen_vectors_and_the_linear_model_on_them_are_the_same():
    made = features(frozen=True, epochs=20, hidden=10, arc_size=6)
    parser = DependencyParser(features=made, alpha=0.1, tol=1e-8, random_state=0).fit(TRAIN)
    network, d = parser.network_, 6
    assert parser.coef_.shape == (d + 1, d + 1)
    assert parser.converged_

    def outer(sentence):
        ((x, h),) = network.vectors([sentence])
        x, h = (np.concatenate([a, np.ones((len(a), 1))], axis=1) for a in (x, h))
        return np.einsum("ia,hb->ihab", x, h).reshape(len(x), len(h), -1)

    linear = DependencyParser(features=outer, alpha=0.1, tol=1e-8, labels=False).fit(TRAIN)
    assert parser.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    assert np.allclose(parser.coef_.ravel(), linear.coef_, atol=1e-3)
    for a, b in zip(parser.predict(TEST), linear.predict(TEST), strict=True):
        assert a.heads.tolist() == b.heads.tolist()

    again = DependencyParser(features=network, alpha=0.1, tol=1e-8).fit(TRAIN)  # the same network, given
    assert np.allclose(again.coef_, parser.coef_)
    assert [str(s) for s in again.predict(TEST)] == [str(s) for s in parser.predict(TEST)]
    hinge = parser.set_params(loss="hinge", warm_start=True, tol=0.1, alpha=1.0).fit(TRAIN)
    assert hinge.network_ is network
    assert (hinge.coef_ != again.coef_).any()


def test_the_same_seed_gives_the_same_network_and_leaves_torch_alone():
    torch.manual_seed(5)
    wanted, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(5)
    made = [DependencyParser(features=features(epochs=2), random_state=seed).fit(TRAIN) for seed in (0, 0, 1)]
    assert torch.equal(torch.rand(1), wanted)
    assert torch.get_num_threads() == threads
    assert np.array_equal(made[0].coef_, made[1].coef_)
    assert not np.array_equal(made[0].coef_, made[2].coef_)


def test_gradients_reach_all_weights():
    network = ParsingNetwork.for_sentences(TRAIN, sizes={**SMALL, "layers": 2})
    module = network.module.train()
    with torch.no_grad():
        for biaffine in (module.arc, module.label):
            biaffine.weight.normal_()
    given = network.inputs(TRAIN)
    heads = torch.randint(0, int(given[2].min()) + 1, given[0].shape)
    scores, labels = module.arcs_and_labels(module.features(*given), heads)
    assert scores.shape == (10, given[0].shape[1], given[0].shape[1] + 1)
    assert labels.shape == (*given[0].shape, len(network.labels))
    (scores.sum() + labels.sum()).backward()
    for name, weight in module.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name


def test_labels_of_arcs_are_those_of_all_pairs():
    network = ParsingNetwork.for_sentences(TRAIN, sizes=SMALL)
    module = network.module
    torch.nn.init.normal_(module.label.weight)
    given = network.inputs(TRAIN[:3])
    features = module.features(*given)
    heads = torch.randint(0, 3, features.shape[:2])
    _, some = module.arcs_and_labels(features, heads)
    every = module.label(features, module.with_root(features))
    assert torch.allclose(some, every.gather(2, heads[:, :, None, None].expand(-1, -1, 1, every.shape[3]))[:, :, 0])


def test_what_a_sentence_gets_does_not_depend_on_the_others():
    network = ParsingNetwork.for_sentences(TRAIN, sizes={**SMALL, "layers": 2})
    together = network.vectors(TEST)
    for sentence, (x, h) in zip(TEST, together, strict=True):
        ((own_x, own_h),) = network.vectors([sentence])
        assert x.shape == (len(sentence), 16)
        assert h.shape == (len(sentence) + 1, 16)
        assert np.allclose(x, own_x, atol=1e-5)
        assert np.allclose(h, own_h, atol=1e-5)


def test_rare_words_are_hidden_more_often_and_never_in_use():
    network = ParsingNetwork.for_sentences(TRAIN, sizes=SMALL)
    hiding, counts = network.module.hiding.numpy(), {}
    for word in (word for s in TRAIN for word in s.forms):
        counts[word] = counts.get(word, 0) + 1
    for word, number in network.index.words.items():
        assert hiding[number] == pytest.approx(0.25 / (0.25 + counts[word]))
    assert (hiding[:2] == 0).all()
    unheard = Sentence.of(["xyzzy", "§"], ["NOUN", "X"])
    assert np.isfinite(network.vectors([unheard])[0][0]).all()


def test_early_stopping_keeps_the_best_and_weights_of_sentences_count():
    out = train_network(TRAIN, "head-selection", sizes=SMALL, epochs=30, validation=0.3, patience=2, learning_rate=0.02)
    assert len(out.held_out) == len(out.objectives) <= 30
    assert len(out.held_out) - 1 - int(np.argmax(out.held_out)) <= 2
    weights = np.r_[np.ones(4), np.zeros(6)]
    parser = DependencyParser("head-selection", features=features(), random_state=0).fit(TRAIN, sample_weight=weights)
    assert parser.score(TRAIN[:4]) == 1.0 > parser.score(TRAIN[4:])
    held = DependencyParser(features=features(epochs=3, validation=0.2), random_state=0).fit(TRAIN)
    assert held.held_out_scores_.shape == (3,)


def test_training_goes_on_from_a_network_and_stops_when_asked():
    parser = DependencyParser("crf", features=features(epochs=5), random_state=0, warm_start=True).fit(TRAIN)
    first, network = parser.objective_, parser.network_
    assert parser.fit(TRAIN).objective_ < first
    assert parser.network_ is network
    parser.set_params(loss="minimum-risk").fit(TRAIN)  # not convex, so better begun by another loss
    assert parser.network_ is network
    assert np.isfinite(parser.objective_)
    with pytest.raises(InvalidInput, match="was made without the label 'odd'"):
        parser.fit([s.with_parse(s.heads, ["odd"] * len(s)) for s in TRAIN])

    def stop(epoch, objective, score):
        if epoch == 2:
            raise KeyboardInterrupt

    out = train_network(TRAIN, "binary", sizes=SMALL, epochs=9, report=stop)
    assert out.interrupted
    assert len(out.objectives) == 2
    assert out.network.predict(TRAIN[:1])[0].forms == TRAIN[0].forms
    assert out.network.predict([]) == []


def test_a_parser_that_had_a_network_forgets_it():
    parser = DependencyParser(features=features(epochs=1)).fit(TRAIN)
    parser.set_params(features="lexical").fit(TRAIN)
    assert parser.network_ is None
    assert parser.coef_.ndim == 1
    assert parser.score(TRAIN) > 0.9


def test_alpha_is_chosen_for_frozen_networks():
    parser = DependencyParser(features=features(frozen=True, epochs=10), alpha="cv", tol=0.1, random_state=0).fit(TRAIN)
    assert parser.alpha_ in parser.cv_results_["alpha"]


def test_without_tags_and_labels_and_with_several_roots():
    bare = [Sentence.of(s.forms).with_parse(s.heads) for s in TRAIN]
    parser = DependencyParser("crf", features=features(epochs=3), labels=False, single_root=False).fit(bare)
    assert parser.network_.tags == {}
    assert parser.labels_ is None
    assert parser.predict(bare)[0].labels == bare[0].labels
    assert parser.predict([]) == []
    same = [s.with_parse(s.heads, ["dep"] * len(s)) for s in TRAIN]
    told = DependencyParser(features=features(epochs=1)).fit(same).predict(TEST)
    assert {label for s in told for label in s.labels} == {"dep"}
    with pytest.raises(InvalidInput, match="trained without labels; say labels=False"):
        DependencyParser(features=parser.network_).fit(TRAIN)


def test_what_is_refused_is_named():
    with pytest.raises(InvalidInput, match="pretraining is 'crf', expected one of 'binary', 'head-selection'"):
        NeuralFeatures(pretraining="crf")
    with pytest.raises(InvalidInput, match="hidden is 0"):
        NeuralFeatures(hidden=0)
    with pytest.raises(InvalidInput, match="dropout is 1"):
        NeuralFeatures(dropout=1)
    with pytest.raises(InvalidInput, match="loss is 'binary'"):
        DependencyParser("binary").fit(TRAIN)
    with pytest.raises(InvalidInput, match="loss is 'x'"):
        train_network(TRAIN, "x")


def test_without_pytorch_the_error_says_what_to_install(tmp_path):
    fenchel.save(DependencyParser(features=features(epochs=1)).fit(TRAIN), tmp_path / "parser")
    code = f"""
import sys
class Without:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
sys.meta_path.insert(0, Without())
import fenchel
from fenchel.data import small_treebank
for what in (
    lambda: fenchel.DependencyParser(features="neural").fit(small_treebank(5, random_state=0)),
    lambda: fenchel.load({str(tmp_path / "parser")!r}),
):
    try:
        what()
    except fenchel.errors.MissingDependency as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["fenchel.nn needs PyTorch: pip install 'fenchel[torch]'"] * 2


def test_the_experiment(tmp_path):
    from fenchel.experiments import parsing
    from fenchel.experiments.resume import keeping

    trainers = {
        "biaffine": parsing.Trainer("one", {"loss": "crf"}, "BiAF"),
        "hinge": parsing.Trainer("hinge", {"loss": "hinge"}, most=10),
    }
    told = []
    for _ in range(2):  # the second time everything is found in the file
        with keeping(tmp_path / "kept"):
            result = parsing.run(
                quick=True,
                splits=2,
                features="neural",
                trainers=trainers,
                progress=lambda share, what: told.append(what),
            )
    assert all(len(row) == len(result["columns"]) for row in result["rows"])
    scores = result["values"]
    assert set(scores) == {"made up: network", "made up: biaffine", "made up: hinge"}
    assert set(scores["made up: biaffine"]) == {"10", "20"}
    assert set(scores["made up: hinge"]) == {"10"}
    assert scores["made up: biaffine"]["20"]["uas"][0] > 50  # a chance of one in ten
    assert all(len(found) == 2 for found in scores["made up: biaffine"]["10"].values())
    assert len(told) == 8
    assert "results were taken from" in result["notes"][-1]
    with pytest.raises(InvalidInput, match="which the experiment parsing reads"):
        parsing.run(tmp_path)


def test_cells_tell_what_differs_from_the_biaffine_layer():
    from fenchel.experiments.parsing import _cell

    base = [50.0, 52.0, 51.0, 49.0, 53.0]
    assert _cell(base, []) == "51.00 ± 1.58"
    assert _cell([x + d for x, d in zip(base, [1, 1.2, 0.9, 1.1, 1], strict=True)], base).endswith("†")
    assert not _cell([x + d for x, d in zip(base, [1, -1.2, 0.9, -1.1, 1], strict=True)], base).endswith("†")
    assert _cell([], base) == "-"
