"""ARFF and svmlight files: what is read as what, what is refused and with which words; sparse columns as features."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import fenchel
from fenchel.data import SparseColumns, Table, TableEncoder, read_table
from fenchel.data.labels import meka_labels, read_label_names
from fenchel.errors import InvalidInput


def put(folder: Path, content: str | bytes, name: str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def arff(folder: Path, content: str, name: str = "t.arff") -> Path:
    return put(folder, content, name)


HEADER = "@relation r\n@attribute a numeric\n@attribute b {x, 'y z'}\n@attribute s string\n@data\n"

# -- ARFF --------------------------------------------------------------------------------------------------------------


def test_arff_attributes_of_every_kind(tmp_path):
    path = arff(
        tmp_path,
        """% a comment
@RELATION 'with spaces'

@Attribute 'it\\'s "size"' REAL
@attribute "col our" {red, 'dark blue', "o'k"}  % with a comment
@attribute flag {0,1}
@attribute grade {1,2,3}
@attribute note string
@attribute day date "yyyy-MM-dd"
@attribute n integer
@data
% another
1.5, red, 1, 3, 'a, b % c', 2001-01-02, 7
?, 'dark blue', 0, 1, "it's", ?, -2  % the end

-1e3,"o'k",?,2,?,"2001-01-03",0
""",
    )
    table = read_table(path, text=["n"])
    assert table.names == ['it\'s "size"', "col our", "flag", "grade", "note", "day", "n"]
    np.testing.assert_array_equal(table['it\'s "size"'], [1.5, np.nan, -1000])
    np.testing.assert_array_equal(table["flag"], [1, 0, np.nan])
    assert table["col our"].tolist() == ["red", "dark blue", "o'k"]
    assert table["grade"].tolist() == ["3", "1", "2"]
    assert table["note"].tolist() == ["a, b % c", "it's", None]
    assert table["day"].tolist() == ["2001-01-02", None, "2001-01-03"]
    assert table["n"].tolist() == ["7", "-2", "0"]
    assert [table.where(i) for i in range(3)] == ["line 13", "line 14", "line 16"]


def test_sparse_arff_leaves_out_zeros_and_first_values(tmp_path):
    rows = "{}\n{0 2, 1 'y z'}  % c\n{ 2 \"o}, h\" }\n{0 ?, 1 x}\n"
    table = read_table(arff(tmp_path, HEADER + rows))
    np.testing.assert_array_equal(table["a"], [0, 2, 0, np.nan])
    assert table["b"].tolist() == ["x", "y z", "x", "x"]
    assert table["s"].tolist() == [None, None, "o}, h", None]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.one_of(st.none(), st.floats(-1e6, 1e6)), st.sampled_from(["x", "y z"]), st.text("ab '\",%\\{}?é")),
        min_size=1,
        max_size=6,
    )
)
def test_dense_and_sparse_arff_hold_the_same(tmp_path_factory, rows):
    def quoted(text):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    folder = tmp_path_factory.mktemp("arff")
    cells = [["?" if a is None else repr(a), quoted(b), quoted(s)] for a, b, s in rows]
    dense = arff(folder, HEADER + "".join(", ".join(row) + "\n" for row in cells), "d.arff")
    items = ["{" + ",".join(f"{j} {cell}" for j, cell in enumerate(row)) + "}\n" for row in cells]
    sparse = arff(folder, HEADER + "".join(items), "s.arff")
    for path in (dense, sparse):
        table = read_table(path)
        np.testing.assert_array_equal(table["a"], [np.nan if a is None else a for a, _, _ in rows])
        assert table["b"].tolist() == [b for _, b, _ in rows]
        assert table["s"].tolist() == [s for _, _, s in rows]


def test_many_zeros_stay_sparse(tmp_path):
    names = [f"w{j}" for j in range(50)]
    head = "@relation r\n" + "".join(f"@attribute {n} {{0,1}}\n" for n in names) + "@attribute t numeric\n@data\n"
    rows = "".join(f"{{{j} 1, 50 {j + 0.5}}}\n" for j in range(0, 50, 5))
    table = read_table(arff(tmp_path, head + rows))
    assert table.sparse is not None
    assert table.sparse.matrix.nnz == 20
    assert table.names == [*names, "t"]
    assert table["w5"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert table["t"][3] == 15.5
    holed = read_table(arff(tmp_path, head + rows + "{3 ?}\n"))
    assert np.isnan(holed["w3"][-1])
    assert not holed.is_sparse("w3")
    assert holed.is_sparse("w4")


def test_arff_in_pieces_and_gzip(tmp_path, monkeypatch):
    monkeypatch.setattr("fenchel.data.arff._AT_ONCE", 2)
    content = HEADER + "1,x,p\n2,'y z',q\n3,x,r\n"
    table = read_table(put(tmp_path, gzip.compress(content.encode(), mtime=0), "t.ARFF.gz"))
    assert table["a"].tolist() == [1, 2, 3]
    assert table["s"].tolist() == ["p", "q", "r"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no ARFF file: it has no line @attribute"),
        ("a,b\n1,2\n", r"line 1: 'a,b' is no line of an ARFF header"),
        ("@relation r\n@data\n1\n", "line 2: there is no @attribute before @data"),
        ("@attribute a numeric\n", "has no line @data"),
        ("@attribute a numeric\n@data\n% c\n", "has no rows under @data"),
        ("@attribute\n@data\n1\n", "line 1: '@attribute' does not say @attribute NAME TYPE"),
        ("@attribute a relational\n@data\n", "line 1: attribute 'a' has the type 'relational', expected one of"),
        ("@attribute a\n@data\n", "attribute 'a' has the type 'of nothing'"),
        ("@attribute a {x,y\n@data\n", "line 1: the values of 'a' are not written"),
        ("@attribute a {}\n@data\n", "line 1: the values of 'a' are not written"),
        ("@attribute a real\n@attribute a real\n@data\n1,2\n", "line 2: two attributes are named 'a'"),
        (HEADER + "1,x\n", "line 6: 2 values, but the header has 3 attributes"),
        (HEADER + "1,x,p\nz,x,p\n", r"line 7: 'a' is 'z', expected a finite number \(\? where it is missing\)"),
        (HEADER + "1_0,x,p\n", "line 6: 'a' is '1_0'"),
        (HEADER + "inf,x,p\n", "line 6: 'a' is 'inf', expected a finite number"),
        (HEADER + "nan,x,p\n", "line 6: 'a' is 'nan', expected a finite number"),
        (HEADER + "1,z,p\n", "line 6: 'b' is 'z', which is none of its values 'x', 'y z'"),
        (HEADER + "1,x,'p\n", "line 6: the quotation marks of .* do not match"),
        (HEADER + "1,x,p\n{0 1}\n", "line 7: a sparse row among rows that are not"),
        (HEADER + "{0 1}\n1,x,p\n", "line 7: '1,x,p' is no sparse row"),
        (HEADER + "{0 1\n", "line 6: '{0 1' is no sparse row such as"),
        (HEADER + "{0}\n", "is no sparse row"),
        (HEADER + "{0 1} 2\n", "is no sparse row"),
        (HEADER + "{2 'p} \n", "is no sparse row"),
        (HEADER + "{-1 2}\n", "is no sparse row"),
        (HEADER + "{3 2}\n", "line 6: there is no attribute 3; the header has 3, counted from 0"),
        (HEADER + "{0 1, 0 2}\n", r"line 6: attribute 0 \('a'\) is given twice"),
        (HEADER + "{}\n{0 z}\n", "line 7: 'a' is 'z', expected a finite number"),
        (HEADER + "{}\n{1 z}\n", "line 7: 'b' is 'z', which is none of its values"),
        ("@attribute a {0,1}\n@data\n{0 2}\n", "line 3: 'a' is '2', which is none of its values"),
    ],
)
def test_what_is_wrong_with_arff_is_said_with_file_and_line(tmp_path, content, message):
    path = arff(tmp_path, content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_that_mulan_and_meka_name(tmp_path):
    xml = '<?xml version="1.0"?>\n<labels xmlns="http://m.net/labels">\n<label name="a &amp; b"></label>\n<label\n'
    xml += "name='c'/></labels>\n"
    assert read_label_names(put(tmp_path, xml, "t.xml")) == ["a & b", "c"]
    assert read_label_names(put(tmp_path, "one\n\n two words \n", "t.txt")) == ["one", "two words"]
    with pytest.raises(InvalidInput, match="names no labels"):
        read_label_names(put(tmp_path, "<labels/>", "t.xml"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_label_names(tmp_path / "none.txt")
    rest = "@attribute a {0,1}\n@attribute b {0,1}\n@attribute c real\n@data\n1,0,2\n"
    assert meka_labels(arff(tmp_path, "@relation 'songs: -C 2 -split 0.5'\n" + rest)) == ["a", "b"]
    assert meka_labels(arff(tmp_path, "% hi\n@RELATION 'x: -C -1'\n" + rest)) == ["c"]
    assert meka_labels(arff(tmp_path, "@relation songs\n" + rest)) == []
    assert meka_labels(tmp_path / "t.csv") == []


# -- svmlight ----------------------------------------------------------------------------------------------------------


def test_svmlight_with_one_label(tmp_path):
    path = put(tmp_path, "# head\n1 3:0.5 1:2 # c\n\n-1 qid:4 7:1e-3\n2.5\n", "t.svm")
    table = read_table(path)
    assert table.names == ["label", "x1", "x3", "x7"]
    assert table["label"].tolist() == [1, -1, 2.5]
    assert table["x1"].tolist() == [2, 0, 0]
    assert table["x7"].tolist() == [0, 1e-3, 0]
    assert [table.where(i) for i in range(3)] == ["line 2", "line 4", "line 5"]
    assert read_table(path, text=["label"])["label"].tolist() == ["1", "-1", "2.5"]
    words = read_table(put(tmp_path, "a>b 1:1\n b:1\n".replace("b:1", "2:1"), "w.svm"))
    assert words["label"].tolist() == ["a>b", None]


def test_svmlight_with_label_sets(tmp_path):
    path = put(tmp_path, gzip.compress(b"3,0 1:1 2:1\n 1:1\n2:3\n10 1:1 2:2\n", mtime=0), "t.svmlight.gz")
    table = read_table(path, label_sets=True)
    assert table.names == ["label0", "label3", "label10", "x1", "x2"]
    np.testing.assert_array_equal(
        [table[name] for name in table.names],
        [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 0, 1], [1, 0, 3, 2]],
    )


def test_what_svmlight_does_not_mention_is_zero_where_it_is_needed(tmp_path):
    path = put(tmp_path, "0 2:1\n0 2:3\n", "t.svm")
    table = read_table(path, label_sets=True, needed=["x1", "x10", "label4"])
    assert table.names == ["label0", "label4", "x1", "x2", "x10"]
    assert table["x10"].tolist() == table["label4"].tolist() == [0, 0]
    with pytest.raises(InvalidInput, match="lacks the column 'size', .*it has 'label', 'x2'"):
        read_table(path, needed=["size"])


def test_needed_columns_of_other_files_must_be_there(tmp_path):
    path = put(tmp_path, "Petal Length,b\n1,2\n", "t.csv")
    with pytest.raises(InvalidInput, match=r"lacks the column 'petal length', .*did you mean 'Petal Length'\?"):
        read_table(path, needed=["b", "petal length"])
    with pytest.raises(InvalidInput, match="lacks the columns 'c', 'd'"):
        read_table(path, needed=["b", "c", "d"])


@pytest.mark.parametrize("n_labels", [None, 4])
@pytest.mark.parametrize("density", [0.05, 0.9])
def test_it_reads_what_scikit_learn_writes(tmp_path, n_labels, density):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < density)
    dense[:, 0] = 1.0  # no row is empty
    X = sp.csr_matrix(dense)
    y = rng.integers(0, 3, 40) if n_labels is None else (rng.random((40, n_labels)) < 0.4).astype(int)
    path = tmp_path / "t.svm"
    dump_svmlight_file(X, y, str(path), multilabel=n_labels is not None, zero_based=False)
    table = read_table(path, label_sets=n_labels is not None, needed=[f"x{j}" for j in range(1, 31)])
    theirs, _ = load_svmlight_file(str(path), n_features=30, zero_based=False, multilabel=n_labels is not None)
    ours = np.column_stack([table[f"x{j}"] for j in range(1, 31)])
    np.testing.assert_array_equal(ours, theirs.toarray())
    assert (table.sparse is not None) == (density < 0.25)
    labels = table["label"] if n_labels is None else np.column_stack([table[f"label{j}"] for j in range(n_labels)])
    np.testing.assert_array_equal(labels, y)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected lines such as"),
        ("# only a comment\n", "is empty"),
        ("1 2:1\n1 2\n", "line 2: '2' is no feature, expected index:value such as 7:0.5"),
        ("1 a:1\n", "line 1: 'a:1' is no feature"),
        ("1 2:x\n", "line 1: '2:x' is no feature"),
        ("1 2:3:4\n", "line 1: '2:3:4' is no feature"),
        ("1 2.5:3\n", "line 1: '2.5:3' is no feature"),
        ("1 1_0:3\n", "line 1: '1_0:3' is no feature"),
        ("1 -2:3\n", "line 1: feature -2: indices are whole numbers from 0 on"),
        ("1 2:3 2:4\n", "line 1: feature 2 is given twice"),
        ("1 2:3\n1 2:inf\n", "line 2: feature 2 is inf; numbers must be finite"),
        ("1 2:nan\n", "line 1: feature 2 is nan"),
        (b"PAR1", "is a Parquet file"),
        (b"1 2:3\n\xff\n", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_what_is_wrong_with_svmlight_is_said_with_file_and_line(tmp_path, content, message):
    path = put(tmp_path, content, "t.svm")
    with pytest.raises(InvalidInput, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("label", ["a", "1.5", "-1", "0,,3", "0,"])
def test_labels_of_sets_are_whole_numbers(tmp_path, label):
    with pytest.raises(InvalidInput, match=rf"line 2: the labels are '{label}', expected whole numbers such as 0,3"):
        read_table(put(tmp_path, f"0 1:1\n{label} 1:1\n", "t.svm"), label_sets=True)


def test_rows_without_any_label_have_no_label_sets(tmp_path):
    path = put(tmp_path, " 1:1\n 1:2\n", "t.svm")
    with pytest.raises(InvalidInput, match="no row has a label"):
        read_table(path, label_sets=True)
    assert read_table(path, label_sets=True, needed=["label0"])["label0"].tolist() == [0, 0]


def test_damaged_gzip_and_wrong_endings(tmp_path):
    data = gzip.compress(b"1 2:3\n" * 50, mtime=0)
    for name in ("t.svm.gz", "t.arff.gz"):
        with pytest.raises(InvalidInput, match="gzip archive is damaged"):
            read_table(put(tmp_path, data[:8], name))
    with pytest.raises(InvalidInput, match="compressed by gzip, whatever its name says; expected ARFF"):
        read_table(put(tmp_path, data, "t.arff"))
    with pytest.raises(InvalidInput, match="no known kind of table"):
        read_table(put(tmp_path, data, "t.parquet.gz"))


# -- sparse columns ----------------------------------------------------------------------------------------------------


def tables(seed=0, n=60, d=12):
    """A table with sparse columns, and the same one dense."""
    rng = np.random.default_rng(seed)
    matrix = sp.csc_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2))
    names = [f"s{j}" for j in range(d)]
    size = np.random.default_rng(seed).normal(size=n)
    kind = ["a" if x > 0 else "b" for x in size]
    sparse = Table({"size": size, "kind": kind}, sparse=SparseColumns(names, matrix))
    dense = Table({"size": size, "kind": kind, **dict(zip(names, matrix.toarray().T, strict=True))})
    return sparse, dense


def test_a_table_with_sparse_columns_is_as_one_without():
    sparse, dense = tables()
    assert sparse.names == dense.names
    assert len(sparse) == len(dense) == 60
    rows = np.array([5, 3, 3, 59])
    for a, b in ((sparse, dense), (sparse.take(rows), dense.take(rows)), (sparse.drop(["s1"]), dense.drop(["s1"]))):
        assert a.names == b.names
        for name in a.names:
            np.testing.assert_array_equal(a[name], b[name])
    assert sparse.is_numeric("s3")
    assert sparse.drop([f"s{j}" for j in range(12)]).sparse is None
    assert len(sparse.drop(["size", "kind"])) == 60
    with pytest.raises(InvalidInput, match="has no column 'S4', .*did you mean 's4'"):
        sparse["S4"]


def test_sparse_columns_keep_their_zeros_as_features():
    sparse, dense = tables()
    encoder = TableEncoder().fit(sparse)
    X = encoder.transform(sparse)
    assert sp.issparse(X)
    assert X.shape == (60, len(encoder.get_feature_names_out()))
    assert encoder.get_feature_names_out()[3:].tolist() == [f"s{j}" for j in range(12)]
    block = sparse.sparse.matrix.toarray()
    np.testing.assert_allclose(X.toarray()[:, 3:], block / np.abs(block).max(axis=0))
    np.testing.assert_array_equal(X.toarray()[:, :3], TableEncoder().fit_transform(dense)[:, :3])
    # What is sparse now does not matter, only what was in training.
    np.testing.assert_array_equal(encoder.transform(dense).toarray(), X.toarray())
    np.testing.assert_allclose(
        TableEncoder().fit(dense).transform(sparse), TableEncoder().fit_transform(dense), atol=1e-15
    )
    holed = Table({**dense.columns, "s2": [None, *dense["s2"][1:]]})
    assert encoder.transform(holed).toarray()[0, 5] == pytest.approx(block[:, 2].mean() / np.abs(block[:, 2]).max())


def test_sparse_columns_that_never_differ_are_left_out():
    matrix = sp.csc_array([[0, 3.0, 0, -1e300], [0, 3.0, 0, 1e300], [0, 3.0, 0, 0]])
    encoder = TableEncoder().fit(Table({}, sparse=SparseColumns(["a", "b", "c", "d"], matrix)))
    assert encoder.get_feature_names_out().tolist() == ["d"]
    assert encoder.notes_ == ["3 columns are left out because they never differ: 'a', 'b', 'c'"]
    np.testing.assert_array_equal(
        encoder.transform(Table({"a": [1], "b": [1], "c": [1], "d": [5e299]})).toarray(), [[0.5]]
    )
    one = TableEncoder().fit(Table({}, sparse=SparseColumns(["b", "d"], matrix[:, [1, 3]])))
    assert one.notes_ == ["column 'b' is left out: it is always 3"]


def test_what_sparse_columns_refuse():
    two = sp.csc_array(np.eye(2))
    for names, columns, message in (
        (["a"], {}, "one name each"),
        (["a", "a"], {}, "all different"),
        (["a", "b"], {"a": [1, 2]}, "none used twice"),
        (["a", "b"], {"c": [1, 2, 3]}, "the sparse columns have 2 rows, the others 3"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Table(columns, sparse=SparseColumns(names, two))
    with pytest.raises(InvalidInput, match="not finite"):
        Table({}, sparse=SparseColumns(["a", "b"], two * np.inf))


def test_an_encoder_of_sparse_columns_is_saved(tmp_path):
    sparse, _ = tables()
    encoder = TableEncoder().fit(sparse)
    again = fenchel.load(fenchel.save(encoder, tmp_path / "e"))
    np.testing.assert_array_equal(again.transform(sparse).toarray(), encoder.transform(sparse).toarray())
