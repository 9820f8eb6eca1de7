"""CoNLL-U files survive being read and written; attachment scores by both rules."""

import gzip

import pytest

from fenchel.data import Sentence, read_conllu, write_conllu
from fenchel.errors import InvalidInput
from fenchel.metrics import attachment_scores

ROWS = """# sent_id = a-1
# text = Vámonos al mar # with a sign
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=Yes
1\tVamos\tir\tVERB\t_\tMood=Imp|Number=Plur\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t1:obj\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t5:case\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t5:det\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl:arg\t1:obl:a\t_

# sent_id = a-2
0.1\t_\t_\tPRON\t_\t_\t_\t_\t2:nsubj\tCopyOf=-1
1\tNew York\tNew York\tPROPN\tNNP\t_\t2\tnsubj\t2:nsubj|3.1:nsubj\t_
2\tshone\tshine\tVERB\tVBD\t_\t0\troot\t0:root\t_
3\tand\tand\tCCONJ\tCC\t_\t2\tcc\t3.1:cc\t_
3.1\tshone\tshine\tVERB\t_\t_\t_\t_\t2:conj\t_
3.2\tBoston\t_\tPROPN\t_\t_\t_\t_\t3.1:nsubj\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t2:punct\t_

"""


@pytest.mark.parametrize("name", ["file.conllu", "file.conllu.gz"])
def test_everything_survives_a_round_trip(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(ROWS.encode()) if name.endswith("gz") else ROWS.encode())
    sentences = read_conllu(path)
    write_conllu(path, sentences)
    raw = path.read_bytes()
    assert (gzip.decompress(raw) if name.endswith("gz") else raw).decode() == ROWS
    assert [len(s) for s in sentences] == [5, 4]
    assert sentences[0].forms == ("Vamos", "nos", "a", "el", "mar")
    assert sentences[0].heads.tolist() == [0, 1, 5, 5, 1]
    assert sentences[1].forms[0] == "New York"
    assert sentences[1].column("DEPS")[0] == "2:nsubj|3.1:nsubj"
    assert sentences[0].comments[1] == "# text = Vámonos al mar # with a sign"


def test_a_new_parse_changes_heads_and_labels_alone(tmp_path):
    (tmp_path / "a.conllu").write_text(ROWS, encoding="utf8")
    before = read_conllu(tmp_path / "a.conllu")[1]
    after = before.with_parse([2, 0, 4, 2], ["a", "b", "c", "d"])
    assert after.heads.tolist() == [2, 0, 4, 2]
    assert after.labels == ("a", "b", "c", "d")
    changed = [(a, b) for a, b in zip(before.lines, after.lines, strict=True) if a != b]
    assert len(changed) == 4
    for a, b in changed:
        assert [i for i, (x, y) in enumerate(zip(a.split("\t"), b.split("\t"), strict=True)) if x != y] in ([7], [6, 7])
    assert before.with_parse(before.heads, before.labels) == before
    with pytest.raises(InvalidInput, match="the head of word 1 is 1"):
        before.with_parse([1, 0, 2, 2])
    with pytest.raises(InvalidInput, match="4 words, but there are 3"):
        before.with_parse([2, 0, 2])


GOOD = "1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t0\tx\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (GOOD.replace("2\tb", "3\tb"), 2, "word 3 follows word 1"),
        (GOOD.replace("\t2\tx", "\t3\tx"), 1, "HEAD of word 1 is '3'"),
        (GOOD.replace("\t2\tx", "\t1\tx"), 1, "HEAD of word 1 is '1'"),
        (GOOD.replace("\t2\tx", "\ttwo\tx"), 1, "HEAD of word 1 is 'two'"),
        (GOOD.replace("b\t_", "b", 1), 2, "it has 9 columns, expected 10"),
        (GOOD.replace("\t", " "), 1, r"separated by tabs"),
        (GOOD.replace("2\tb\t_", "2\tb\t", 1), 2, "column LEMMA is empty"),
        (GOOD.replace("2\tb", "x\tb"), 2, "ID is 'x'"),
        ("2-3" + "\t_" * 9 + "\n" + GOOD, 1, "does not begin with the next word, 1"),
        ("1-3" + "\t_" * 9 + "\n" + GOOD, 3, "reaches to word 3, but the last word is 2"),
        ("1.1" + "\t_" * 9 + "\n" + GOOD, 1, "the empty node 1.1 does not follow word 0"),
        (GOOD + "# late\n", 3, "comments stand before"),
        ("# alone\n", 1, "a sentence without words"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_line(tmp_path, text, line, message):
    path = tmp_path / "bad.conllu"
    path.write_text("# first\n" + GOOD + "\n" + text, encoding="utf8")
    with pytest.raises(InvalidInput, match=rf"bad.conllu, line {line + 4}: .*{message}"):
        read_conllu(path)


def test_plain_words_have_no_heads_yet():
    sentence = Sentence.of(["Dogs", "bark"])
    assert sentence.heads.tolist() == [-1, -1]
    assert sentence.with_parse([2, 0]).labels == ("_", "_")
    with pytest.raises(InvalidInput, match="2 forms but 1 parts of speech"):
        Sentence.of(["Dogs", "bark"], ["NOUN"])


def test_attachment_scores_by_both_rules(tmp_path):
    (tmp_path / "a.conllu").write_text(ROWS, encoding="utf8")
    gold = read_conllu(tmp_path / "a.conllu")
    system = [
        gold[0].with_parse([0, 1, 5, 5, 1], ["root", "obj", "case", "det", "obl"]),
        gold[1].with_parse([2, 0, 4, 3], ["nsubj", "root", "cc", "punct"]),
    ]
    scores = attachment_scores(gold, system)
    assert (scores.words, scores.heads, scores.labelled) == (9, 7, 7)  # obl:arg counts as obl
    assert (scores.sentences, scores.whole, scores.whole_labelled) == (2, 1, 1)
    by_tags = attachment_scores(gold, system, rule="tags")
    assert (by_tags.words, by_tags.heads, by_tags.labelled) == (8, 7, 6)  # no full stop, and obl:arg is not obl
    assert (by_tags.ucm, by_tags.lcm) == (0.5, 0.0)
    assert attachment_scores(gold, gold, rule="tags", tags={"NNP"}).words == 8
    with pytest.raises(InvalidInput, match="sentence 0 has other words"):
        attachment_scores(gold, gold[::-1])
    with pytest.raises(InvalidInput, match="rule"):
        attachment_scores(gold, gold, rule="conll06")
