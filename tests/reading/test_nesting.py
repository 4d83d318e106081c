"""JSON and TOML of strangers: parsed, or refused in one sentence, however deep they are nested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from any2vec.checks import MOST_LEVELS, parse_json, parse_toml
from cli_runs import done, refused


def nested(levels: int) -> str:
    return "[" * levels + "1" + "]" * levels


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 900, 200_000])
def test_what_is_nested_too_deep_is_no_value(levels: int) -> None:
    for text in (nested(levels), '{"a":' * levels + "1" + "}" * levels, ("[" * levels).encode()):
        with pytest.raises(ValueError):
            parse_json(text)
    with pytest.raises(ValueError, match="stand in each other"):
        parse_toml("a = " + nested(levels))


def test_all_else_is_parsed_as_it_is() -> None:
    for value in (json.loads(nested(MOST_LEVELS)), [[1.5] * 200, {"a": ["["] * 200}], {"a.b": "{[" * 200}, 3, None):
        assert parse_json(json.dumps(value)) == value
    assert parse_json('{"a": "ä"}'.encode()) == {"a": "ä"}
    assert parse_toml(".".join("a" * MOST_LEVELS) + " = 1")["a"]["a"]
    with pytest.raises(ValueError, match="stand in each other"):
        parse_toml(".".join("a" * (MOST_LEVELS + 1)) + " = 1")


def test_commands_refuse_them_in_one_sentence(tmp_path: Path) -> None:
    config, text, run = tmp_path / "deep.toml", tmp_path / "a.txt", tmp_path / "run"
    text.write_text("a b\n" * 9)
    config.write_text("dim = " + "[" * 5000)
    said = refused("train", "skipgram", str(text), "--config", str(config), "--out", str(run))
    assert "stand in each other" in said
    config.write_text("label = " + "[" * 5000)
    said = refused("train", "deepfm", str(text), "--schema", str(config), "--out", str(run))
    assert "stand in each other" in said
    run.mkdir()
    (run / "progress.jsonl").write_text('{"words": ' + nested(MOST_LEVELS) + "}\n")
    (run / "run.json").write_text("[" * 200_000)
    assert "run.json, line 1: not JSON" in refused("report", str(run))
    assert "No record yet" in done("watch", str(run), "--once")
    assert json.loads(done("watch", str(run), "--json"))["about"] == {}
