"""Column files, the OCR letters, features of words; scores of entities; cross-validation of ragged outputs."""

import gzip

import numpy as np
import pytest
from sklearn.model_selection import KFold

from fenchel import SequenceLabeler
from fenchel.data import SequenceEncoder, read_conll, read_letters, word_features
from fenchel.data.sequences import features_of
from fenchel.errors import InvalidInput
from fenchel.metrics import entities, entity_scores
from fenchel.model_selection import cross_val_predict


def test_column_files_with_tabs_spaces_comments_and_document_marks(tmp_path):
    tabs = tmp_path / "a.tsv.gz"
    tabs.write_bytes(gzip.compress(b"# doc = 1\nNew York\tB-LOC\n#\tO\n\n\n-DOCSTART-\tO\n\nAda\tB-PER"))
    assert read_conll(tabs, 0, 1) == ([["New York", "#"], ["Ada"]], [["B-LOC", "O"], ["B-PER"]])
    spaces = tmp_path / "b.txt"
    spaces.write_bytes(b"\xef\xbb\xbf-DOCSTART- -X- O\r\n\r\nEU NNP B-ORG\r\n# NN O\r\n# a comment of many words\r\n")
    assert read_conll(spaces, -1) == ([["B-ORG", "O"]],)
    assert len(read_conll(spaces)) == 3
    universal = tmp_path / "c.conllu"
    rows = [f"{i}\t{w}" + "\t_" * 8 for i, w in (("1-2", "zum"), ("1", "zu"), ("2", "dem"), ("2.1", "-"))]
    universal.write_text("# sent_id = 1\n" + "\n".join(rows))
    assert read_conll(universal, 1) == ([["zu", "dem"]],)
    broken = tmp_path / "d.tsv"
    broken.write_text("a\tO\nb\n")
    with pytest.raises(InvalidInput, match="line 2: it has 1 columns, but the first token has 2"):
        read_conll(broken)
    with pytest.raises(InvalidInput, match="no column 4"):
        read_conll(tabs, 4)
    broken.write_text("\n\n")
    with pytest.raises(InvalidInput, match="no tokens"):
        read_conll(broken)
    with pytest.raises(FileNotFoundError, match="no file"):
        read_conll(tmp_path / "none")


def test_letters_in_both_of_their_forms(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 2, size=(5, 128))
    letters, ends, folds = "catdo", [0, 0, 1, 0, 1], [3, 3, 3, 0, 0]
    lines = [
        "\t".join([str(i + 1), c, "-1" if ends[i] else str(i + 2), "1", str(i), str(folds[i]), *map(str, pixels[i])])
        + "\t\n"
        for i, c in enumerate(letters)
    ]
    published, packed = tmp_path / "letter.data", tmp_path / "letters.npz"
    published.write_text("".join(lines))
    np.savez(packed, pixels_packed=np.packbits(pixels.astype(np.uint8), axis=1), letter=[ord(c) - 97 for c in letters],
             word_start=[0, 3, 5], fold=[3, 0])  # fmt: skip
    for path in (published, packed):
        X, y, fold = read_letters(path)
        assert y == [["c", "a", "t"], ["d", "o"]]
        assert np.array_equal(np.concatenate(X), pixels)
        assert fold.tolist() == [3, 0]
    published.write_text(lines[0] + "1\ta\n")
    with pytest.raises(InvalidInput, match="line 2: it has 2 fields"):
        read_letters(published)
    np.savez(packed, fold=[1])
    with pytest.raises(InvalidInput, match="lacks the array 'pixels_packed'"):
        read_letters(packed)


def test_the_encoder_reads_every_kind_of_value_by_the_rules_of_features_of():
    item = {"a": "x", "b": ["x", "y"], "c": 2, "d": True, "e": {"f": "z", "g": 0.5}, "h": {"u", "v"}, "i": np.float32(3),
            "j": ("x",), 7: "number"}  # fmt: skip
    sequences = [[item, ["n", "m"], {"s"}, {}], [{"a": ["x"], "b": "y", "c": False}]]
    encoder = SequenceEncoder()
    matrix = encoder.fit_transform(sequences).toarray()
    names = encoder.get_feature_names_out().tolist()
    positions = [position for sequence in sequences for position in sequence]
    assert len(matrix) == len(positions)
    for row, position in zip(matrix, positions, strict=True):
        assert {n: v for n, v in zip(names, row, strict=True) if v} == {n: v for n, v in features_of(position) if v}
    twice = encoder.transform([[["n", "n"]]]).toarray()
    assert twice[0, names.index("n")] == 2


def test_word_features():
    found = word_features(["De", "McDonald's", "2e"], window=2, affix=2)
    assert found[1]["shape"] == "XxXx.x"
    assert found[2]["-2"] == {"word": "de", "shape": "Xx"}
    assert found[0]["-1"] == ["begin"]
    assert "-2" not in found[0]
    assert found[2]["prefix"] == ["2", "2e"]
    assert word_features([]) == []


def test_entities_by_the_rules_of_conll():
    assert entities([]) == []
    assert entities(["O", "I-LOC", "I-LOC", "I-PER", "B-PER"]) == [("LOC", 1, 3), ("PER", 3, 4), ("PER", 4, 5)]
    scores = entity_scores([["B-A", "I-A", "O", "B-B"], ["O"]], [["B-A", "I-A", "O", "B-A"], ["B-B"]])
    assert (scores.true, scores.predicted, scores.right) == (3, 2, 1)
    assert scores.f1 == pytest.approx(2 * 0.5 * (1 / 3) / (0.5 + 1 / 3))
    assert scores.by_kind["A"].recall == 0.5
    assert scores.by_kind["B"].precision == scores.by_kind["B"].f1 == 0.0
    assert entity_scores([["O"]], [["O"]]).f1 == 0.0
    with pytest.raises(InvalidInput, match="sample 0: the tag at position 1 is 'X'"):
        entity_scores([["O", "X"]], [["O", "O"]])
    with pytest.raises(InvalidInput, match="sample 0 has 1 predicted tags but 2"):
        entity_scores([["O"]], [["O", "O"]])


def test_every_example_is_predicted_by_a_model_that_did_not_see_it():
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=n).tolist() for n in rng.integers(0, 6, size=30)]
    X = [np.array(labels).reshape(-1, 1) + rng.normal(size=(len(labels), 1)) for labels in y]
    answers = cross_val_predict(SequenceLabeler(), X, y, cv=KFold(3, shuffle=True, random_state=0))
    inside, outside = next(KFold(3, shuffle=True, random_state=0).split(X))
    model = SequenceLabeler().fit([X[i] for i in inside], [y[i] for i in inside])
    assert [answers[i] for i in outside] == model.predict([X[i] for i in outside])
    marginals = cross_val_predict(SequenceLabeler(), X, y, cv=3, method="predict_marginals",
                                  fit_params={"sample_weight": np.ones(30)})  # fmt: skip
    assert [m.shape for m in marginals] == [(len(labels), 2) for labels in y]
    with pytest.raises(InvalidInput, match="tests sample 2 0 times"):
        cross_val_predict(SequenceLabeler(), X, y, cv=[(np.arange(10, 30), np.arange(2))])
    with pytest.raises(InvalidInput, match="method"):
        cross_val_predict(SequenceLabeler(), X, y, method="fit")
