"""A treebank from a small grammar."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.checks import check_count, check_generator
from .conllu import Sentence

__all__ = ["small_treebank"]

_WORDS = {
    "DET": ["the", "a", "every", "some"],
    "ADJ": ["old", "small", "clever", "green", "tired"],
    "NOUN": ["dog", "cat", "child", "bird", "telescope", "garden", "song"],
    "VERB": ["saw", "chased", "liked", "heard"],
    "ADV": ["quickly", "often", "again"],
    "ADP": ["with", "in", "near"],
    "SCONJ": ["that"],
    "CCONJ": ["and"],
    "PUNCT": ["."],
}
# Verbs that a sentence can be the object of, and prepositions by what they like to hang on.
_THAT = {"saw", "heard"}
_ON_VERBS = {"with": 0.8, "in": 0.4, "near": 0.1}
_Node = list[Any]  # form, tag, label, nodes to its left, nodes to its right


def small_treebank(n: int, random_state: Any = None) -> list[Sentence]:
    """Sentences of a small made-up English with their parses, as Universal Dependencies would draw them.

    Subjects and objects with articles, adjectives and prepositional phrases, adverbs, sentences as objects, and
    coordination. Prepositional phrases after an object hang on the verb or the object, by chance, depending on the preposition:
    so no parser is right everywhere, and words matter.

    >>> from fenchel.data import small_treebank
    >>> sentence = small_treebank(1, random_state=1)[0]
    >>> sentence.heads.min(), "nsubj" in sentence.labels
    (np.int64(0), True)
    """
    check_count(n, "n", minimum=0)
    rng = check_generator(random_state, "random_state")
    return [_sentence(rng) for _ in range(n)]


def _word(rng: np.random.Generator, tag: str, label: str) -> _Node:
    return [str(rng.choice(_WORDS[tag])), tag, label, [], []]


def _noun(rng: np.random.Generator, label: str, *, depth: int = 0) -> _Node:
    noun = _word(rng, "NOUN", label)
    noun[3].append(_word(rng, "DET", "det"))
    noun[3] += [_word(rng, "ADJ", "amod") for _ in range(int(rng.choice(3, p=[0.6, 0.3, 0.1])))]
    if depth < 1 and rng.random() < 0.15:
        noun[4].append(_phrase(rng, "nmod"))
    if depth < 1 and rng.random() < 0.1:
        other = _noun(rng, "conj", depth=1)
        other[3].insert(0, _word(rng, "CCONJ", "cc"))
        noun[4].append(other)
    return noun


def _phrase(rng: np.random.Generator, label: str) -> _Node:
    noun = _noun(rng, label, depth=1)
    noun[3].insert(0, _word(rng, "ADP", "case"))
    return noun


def _clause(rng: np.random.Generator, label: str, depth: int = 0) -> _Node:
    verb = _word(rng, "VERB", label)
    verb[3].append(_noun(rng, "nsubj"))
    if rng.random() < 0.3:
        verb[3].append(_word(rng, "ADV", "advmod"))
    if depth < 2 and verb[0] in _THAT and rng.random() < 0.4:
        inner = _clause(rng, "ccomp", depth + 1)
        inner[3].insert(0, _word(rng, "SCONJ", "mark"))
        verb[4].append(inner)
        return verb
    thing = _noun(rng, "obj")
    verb[4].append(thing)
    if rng.random() < 0.5:
        phrase = _phrase(rng, "obl")
        if rng.random() < _ON_VERBS[phrase[3][0][0]]:
            verb[4].append(phrase)
        else:
            phrase[2] = "nmod"
            thing[4].append(phrase)
    return verb


def _sentence(rng: np.random.Generator) -> Sentence:
    root = _clause(rng, "root")
    root[4].append(_word(rng, "PUNCT", "punct"))
    order: list[tuple[_Node, _Node | None]] = []

    def walk(node: _Node, head: _Node | None) -> None:
        for child in node[3]:
            walk(child, node)
        order.append((node, head))
        for child in node[4]:
            walk(child, node)

    walk(root, None)
    place = {id(node): i for i, (node, _) in enumerate(order, 1)}
    words = Sentence.of([node[0] for node, _ in order], [node[1] for node, _ in order])
    return words.with_parse(
        [0 if head is None else place[id(head)] for _, head in order], [node[2] for node, _ in order]
    )
