"""Tables: what is read as what, what is refused and with which words, and columns as features."""

from __future__ import annotations

import codecs
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fenchel
from fenchel.data import Table, TableEncoder, read_table
from fenchel.errors import InvalidInput, MissingDependency


def put(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# -- reading CSV -------------------------------------------------------------------------------------------------------


def test_numbers_texts_and_missing_values(tmp_path):
    table = read_table(put(tmp_path, "a,b,c\n1,x,\n2.5e3, y ,NA\n?,,nan\n"))
    assert table.names == ["a", "b", "c"]
    assert len(table) == 3
    np.testing.assert_array_equal(table["a"], [1, 2500, np.nan])
    assert table["b"].tolist() == ["x", "y", None]
    assert np.isnan(table["c"]).all()
    assert table.first_missing("b") == 2
    assert table.where(2) == "line 4"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_and_line_ends(tmp_path, delimiter, end):
    text = end.join([delimiter.join(["a", "b c", '"d,;e"']), delimiter.join(["1", "2", '"x\ny"'])]) + end
    table = read_table(put(tmp_path, text))
    assert table.names == ["a", "b c", "d,;e"]
    assert table["d,;e"].tolist() == ["x\ny"]


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv.gz", "T.CSV.GZ"])
def test_gzip(tmp_path, name):
    table = read_table(put(tmp_path, gzip.compress(b"a\tb\n1\t2\n", mtime=0), name))
    assert table.names == ["a", "b"]


def test_tsv_is_not_sniffed(tmp_path):
    assert read_table(put(tmp_path, "a,b\tc,d,e\n1\t2\n", "t.tsv")).names == ["a,b", "c,d,e"]


def test_byte_order_mark_empty_lines_and_lines_of_quoted_fields(tmp_path):
    table = read_table(put(tmp_path, codecs.BOM_UTF8 + b'a,b\n\n1,"x\ny"\n\n2,z\n'))
    assert table.names == ["a", "b"]
    assert [table.where(i) for i in range(2)] == ["line 3", "line 6"]


def test_text_after_many_numbers_keeps_what_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr("fenchel.data.delimited._CELLS_AT_ONCE", 4)
    table = read_table(put(tmp_path, "a,b\n01,1\n002,2\n,3\n1.50,4\nx,5\n7,inf\n".replace("inf", "6")))
    assert table["a"].tolist() == ["01", "002", None, "1.50", "x", "7"]
    np.testing.assert_array_equal(table["b"], [1, 2, 3, 4, 5, 6])


def test_missing_pieces_before_text(tmp_path, monkeypatch):
    monkeypatch.setattr("fenchel.data.delimited._CELLS_AT_ONCE", 4)
    assert read_table(put(tmp_path, "a,b\n,1\n,1\n,1\nx,1\n"))["a"].tolist() == [None, None, None, "x"]


def test_columns_taken_as_text(tmp_path):
    assert read_table(put(tmp_path, "a,b\n01,1\n1.0,2\n"), text=["a", "absent"])["a"].tolist() == ["01", "1.0"]


def test_names_with_underscores_are_no_numbers(tmp_path):
    assert read_table(put(tmp_path, "a\n1_000\n2_000\n"))["a"].tolist() == ["1_000", "2_000"]


def test_infinite_words_in_a_text_column_are_words(tmp_path):
    assert read_table(put(tmp_path, "a\ninf\nabc\n"))["a"].tolist() == ["inf", "abc"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"t\.csv is empty"),
        ("\n\n", r"t\.csv is empty"),
        ("a,b\n", "a header but no rows"),
        ("a,b\n1,2\n3\n", r"t\.csv, line 3: 1 field, but the header names 2 columns"),
        ("a,b\n1,2,3\n", r"line 2: 3 fields"),
        ("a,b,a\n1,2,3\n", r"line 1: two columns are named 'a'"),
        (",b\n1,2\n", r"line 1: column 1 has no name"),
        ("0.5,1.5\n1,2\n", "the header holds only numbers"),
        (b"a,b\n1,2\n\xe9,3\n", r"line 3: byte 0xe9 is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), r"line 1: byte 0xff is not UTF-8"),
        ('a,b\n1,"2\n3,4\n', "line 2: a quotation mark is opened here and never closed"),
        ('a,b\n1,"2"x\n', "line 2: a value goes on after its closing quotation mark"),
        ("a,b\r1,2\r", "bare carriage returns"),
        ('a,b\n1,"' + "x" * 200_000, "longer than 131072 characters"),
        ("a,b\n1,2\n3,inf\n", r"line 3: column 'b' holds 'inf'; numbers must be finite"),
        ("a,b\n1,2\n3,-1e999\n", r"line 3: column 'b' holds '-1e999'"),
        (b"PK\x03\x04abc", "a zip archive or an Excel file"),
        (b"PAR1abc", "a Parquet file"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "compressed by gzip"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(tmp_path, content, message):
    path = put(tmp_path, content)
    with pytest.raises(InvalidInput, match=message) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("keep", [5, 25, -6])
def test_damaged_gzip(tmp_path, keep):
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 50, mtime=0)
    with pytest.raises(InvalidInput, match="gzip archive is damaged"):
        read_table(put(tmp_path, data[:keep], "t.csv.gz"))
    with pytest.raises(InvalidInput, match="gzip archive is damaged"):
        read_table(put(tmp_path, "a,b\n1,2\n", "t.csv.gz"))


def test_no_file_folder_and_foreign_ending(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file '.*none\.csv'"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(InvalidInput, match=r"no known kind of table; names of tables end in \.csv"):
        read_table(put(tmp_path, "a\n1\n", "t.xlsx"))


CELLS = st.one_of(
    st.floats(-1e9, 1e9).map(repr), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=8))
def test_whatever_csv_writes_is_read_or_refused(tmp_path_factory, rows):
    import csv

    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["a", "b"], *rows])
    path = put(tmp_path_factory.mktemp("csv"), stream.getvalue())
    try:
        table = read_table(path)
    except InvalidInput:
        return
    assert len(table) == len(rows)
    for j, name in enumerate("ab"):
        if table.is_numeric(name):
            continue
        for value, row in zip(table[name], rows, strict=True):
            assert value is None or value == row[j].strip()


# -- Parquet -----------------------------------------------------------------------------------------------------------


def test_parquet_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import datetime
    import decimal

    import pyarrow.parquet as pq

    content = pa.table(
        {
            "int": pa.array([1, None, 3], pa.int32()),
            "float": pa.array([1.5, float("nan"), None], pa.float32()),
            "decimal": [decimal.Decimal("1.25"), None, decimal.Decimal("2.50")],
            "bool": [True, False, None],
            "text": ["x", None, "y"],
            "category": pa.array(["u", "v", None]).dictionary_encode(),
            "day": [datetime.date(2020, 1, 2), None, None],
            "nothing": pa.nulls(3),
        }
    )
    pq.write_table(content, tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", text=["int"])
    assert table["int"].tolist() == ["1", None, "3"]
    np.testing.assert_array_equal(table["float"], [1.5, np.nan, np.nan])
    np.testing.assert_array_equal(table["decimal"], [1.25, np.nan, 2.5])
    assert table["bool"].tolist() == ["True", "False", None]
    assert table["text"].tolist() == ["x", None, "y"]
    assert table["category"].tolist() == ["u", "v", None]
    assert table["day"].tolist() == ["2020-01-02", None, None]
    assert np.isnan(table["nothing"]).all()
    assert table.where(2) == "row 3"


def test_parquet_refusals(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    with pytest.raises(InvalidInput, match="no Parquet file, or a damaged one"):
        read_table(put(tmp_path, "a,b\n1,2\n", "t.parquet"))
    pq.write_table(pa.table({"a": [[1], [2]]}), path)
    with pytest.raises(InvalidInput, match="column 'a' has type list"):
        read_table(path)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(InvalidInput, match="is empty"):
        read_table(path)
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(InvalidInput, match="two columns are named 'a'"):
        read_table(path)
    pq.write_table(pa.table({"a": [1.0, float("inf")]}), path)
    with pytest.raises(InvalidInput, match="row 2: column 'a' holds inf"):
        read_table(path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InvalidInput, match="no Parquet file, or a damaged one"):
        read_table(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match=r"pip install 'fenchel\[parquet\]'"):
        read_table(put(tmp_path, b"PAR1", "t.parquet"))


# -- the table ---------------------------------------------------------------------------------------------------------


def test_columns_of_many_kinds():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "ext": pd.array([1, None], dtype="Int64"),
            "b": [True, False],
            "s": ["x", None],
            "c": pd.Categorical(["u", "v"]),
            "t": pd.to_datetime(["2020-01-02", None]),
            "o": [1.0, "z"],
            "n": pd.Series([1, None], dtype=object),
        }
    )
    table = Table(frame)
    assert table["i"].dtype == np.float64
    np.testing.assert_array_equal(table["ext"], [1, np.nan])
    assert table["b"].tolist() == ["True", "False"]
    assert table["s"].tolist() == ["x", None]
    assert table["c"].tolist() == ["u", "v"]
    assert table["t"][0].startswith("2020-01-02")
    assert table["t"][1] is None
    assert table["o"].tolist() == ["1", "z"]
    np.testing.assert_array_equal(table["n"], [1, np.nan])


def test_table_refusals_and_selection():
    with pytest.raises(InvalidInput, match="different lengths"):
        Table({"a": [1, 2], "b": [1]})
    with pytest.raises(InvalidInput, match="one value in each row"):
        Table({"a": [[1, 2]]})
    with pytest.raises(InvalidInput, match="expected numbers or texts"):
        Table({"a": np.array([1j])})
    with pytest.raises(InvalidInput, match="row 2: column 'a' holds inf"):
        Table({"a": [1, np.inf]})
    table = Table({"size": [1, 2, 3], "kind": ["x", "y", None]})
    with pytest.raises(InvalidInput, match="has no column 'sise', it has 'size', 'kind'; did you mean 'size'"):
        table["sise"]
    with pytest.raises(InvalidInput, match="did you mean 'kind'"):
        table["KIND"]
    with pytest.raises(InvalidInput, match="has no column 'b'"):
        table.drop(["b"])
    part = table.take(np.array([2, 0]))
    assert part["kind"].tolist() == [None, "x"]
    assert table.drop(["size"]).names == ["kind"]
    assert "size" in table
    assert "3 rows" in repr(table)


def test_input_is_not_changed_by_a_table():
    values = np.array([1.0, 2.0])
    Table({"a": values})["a"][0] = 9
    assert values[0] == 1


# -- features ----------------------------------------------------------------------------------------------------------


def test_encoder_standardises_imputes_and_names():
    table = Table({"n": [1, 2, 6, None], "c": ["r", "b", "r", None], "k": [7, 7, 7, 7], "m": [3, None, 3, 3]})
    encoder = TableEncoder().fit(table)
    assert encoder.get_feature_names_out().tolist() == ["n", "n missing", "c=b", "c=r", "c missing", "m missing"]
    X = encoder.transform(table)
    known = np.array([1, 2, 6.0])
    np.testing.assert_allclose(X[:3, 0], (known - known.mean()) / known.std())
    assert X[3, 0] == 0
    np.testing.assert_array_equal(X[:, 1:], [[0, 0, 1, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0]])
    assert encoder.notes_ == [
        "column 'k' is left out: it is always 7",
        "column 'm' is left out: it is always 3 where it is known",
    ]
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), X)


def test_encoder_on_new_rows():
    encoder = TableEncoder().fit(Table({"n": [1, 3], "c": ["r", "b"], "g": ["1", "x"]}))
    X = encoder.transform({"other": ["z", "z", "z"], "g": [1.0, 1.0, 2.0], "c": ["r", "new", None], "n": [2, None, 3]})
    np.testing.assert_array_equal(X, [[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])
    with pytest.raises(InvalidInput, match="lacks the column 'c', which the model was trained with"):
        encoder.transform(Table({"n": [1], "g": ["1"]}))
    with pytest.raises(InvalidInput, match="lacks the columns 'n', 'c'"):
        encoder.transform(Table({"g": ["1"]}))
    with pytest.raises(InvalidInput, match="row 2: column 'n' holds 'many', but held only numbers in training"):
        encoder.transform(Table({"n": ["5", "many"], "c": ["r", "r"], "g": ["1", "1"]}))
    all_missing = encoder.transform(Table({"n": [None], "c": [None], "g": [None]}))
    np.testing.assert_array_equal(all_missing, np.zeros((1, 5)))


def test_encoder_takes_pandas_and_sets_output():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"n": [1.0, 2.0], "c": ["r", "b"]})
    out = TableEncoder().set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["n", "c=b", "c=r"]


def test_encoder_refusals():
    many = Table({"id": [f"u{i}" for i in range(60)], "n": np.arange(60)})
    with pytest.raises(InvalidInput, match=r"'id' holds 60 different values.*--drop id "):
        TableEncoder().fit(many)
    assert TableEncoder(max_categories=60).fit_transform(many).shape == (60, 61)
    with pytest.raises(InvalidInput, match=r"not 'unknown'"):
        TableEncoder().fit(Table({"x": [*map(str, range(60)), "unknown"]}))
    with pytest.raises(InvalidInput, match=r"'0,5' has a comma"):
        TableEncoder().fit(Table({"x": [f"{i},5" for i in range(60)]}))
    with pytest.raises(InvalidInput, match=r"no column to learn from: column 'a' is left out: it is always 1"):
        TableEncoder().fit(Table({"a": [1, 1], "b": ["x", "x"], "c": [None, None]}))
    with pytest.raises(InvalidInput, match="max_categories is 0"):
        TableEncoder(max_categories=0).fit(many)
    with pytest.raises(InvalidInput, match="has no rows"):
        TableEncoder().fit(Table({"a": []}))
    with pytest.raises(InvalidInput, match="expected a Table"):
        TableEncoder().fit(np.ones((2, 2)))


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_encoder_at_extreme_scales(scale):
    X = TableEncoder().fit_transform(Table({"a": np.array([1.0, 2.0, 6.0]) * scale}))
    np.testing.assert_allclose(X[:, 0], TableEncoder().fit_transform(Table({"a": [1, 2, 6]}))[:, 0], rtol=1e-12)


def test_encoder_is_saved(tmp_path):
    table = Table({"n": [1, 2, None], "c": ["r", "b", None], "k": [1, 1, 1]})
    encoder = TableEncoder(max_categories=5).fit(table)
    again = fenchel.load(fenchel.save(encoder, tmp_path / "encoder"))
    np.testing.assert_array_equal(again.transform(table), encoder.transform(table))
    assert again.get_feature_names_out().tolist() == encoder.get_feature_names_out().tolist()
    assert again.notes_ == encoder.notes_
