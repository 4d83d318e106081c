"""Phrases by dicts of tuples, as gensim's Phrases counts, scores and joins."""

from __future__ import annotations

from collections import Counter
from math import log

Sentences = list[list[str]]
Found = dict[tuple[str, ...], float]


def find(
    sentences: Sentences, connectors: frozenset[str], min_count: int, threshold: float, scoring: str
) -> Found:  # fmt: skip
    words, pairs, total = Counter[str](), Counter[tuple[str, ...]](), 0
    for sentence in sentences:
        before: tuple[str, ...] = ()
        for word in sentence:
            total += 1
            if word in connectors:
                before = (*before, word) if before else ()
                continue
            words[word] += 1
            if before:
                pairs[*before, word] += 1
            before = (word,)
    found = {}
    for phrase, count in pairs.items():
        a, b = words[phrase[0]], words[phrase[-1]]
        if scoring == "default":
            score = (count - min_count) / float(a * b) * (len(words) + len(pairs))
        elif count < min_count:
            continue
        else:
            score = log(count / total / (a / total * (b / total))) / -log(count / total)
        if score > threshold:
            found[phrase] = score
    return found


def join(sentence: list[str], found: Found, connectors: frozenset[str], delimiter: str) -> list[str]:
    out: list[str] = []
    at = 0
    while at < len(sentence):
        end = at + 1
        while end < len(sentence) and sentence[end] in connectors:
            end += 1
        phrase = tuple(sentence[at : end + 1])
        if sentence[at] not in connectors and end < len(sentence) and phrase in found:
            out.append(delimiter.join(phrase))
            at = end + 1
        else:
            out.append(sentence[at])
            at += 1
    return out
