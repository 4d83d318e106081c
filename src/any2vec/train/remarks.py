"""Sentences about data that a person should read."""

from __future__ import annotations

from typing import Any


def remarks(facts: dict[str, Any]) -> list[str]:
    """What a person should hear of the data: a sentence for each thing that was mended on the way in, or is in vain."""
    item = "triples" if facts.get("kind") == "triples" else "edges"
    odd = {
        "bad_bytes": "invalid bytes in the text, treated as --bad-bytes says",
        "duplicates": f"{item} given more than once, merged",
        "self_loops": "self-loops, kept",
        "isolated": "nodes without edges, whose vectors stay near where they start",
        "header": "first line taken as a header (--no-header reads it as an edge)",
    }
    found = ((words, facts.get(name)) for name, words in odd.items())
    told = [f"{words}: {value if isinstance(value, str) else format(value, ',')}" for words, value in found if value]
    if facts.get("kind") == "clicks" and facts["num_clicks"] in (0, facts["num_examples"]):
        label = int(facts["num_clicks"] > 0)
        told.append(
            f"All {facts['num_examples']:,} examples have the label {label}: nothing can be learned from them; give "
            "examples of both labels, and check the schema's label."
        )
    return told
