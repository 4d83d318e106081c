"""A stream of planted lines whose words never stop, and what memory it has early and late. Prints JSON."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile

from any2vec.models.stream.config import StreamSkipGram
from any2vec.tasks.stream import progress as stream_progress
from any2vec.tasks.stream.models import budget
from any2vec.tasks.stream.options import StreamOptions
from any2vec.tasks.stream.stream import stream
from any2vec.testing.planted_stream import PlantedSource, PlantedStream

MEMORY = 20_000_000
DIM, WORDS_PER_LINE, WINDOW_LINES, REPEAT_DISTANCE, REPEAT_SHARE, ZIPF = 16, 50, 100_000, 150_000, 0.1, 1.5
SPAN = 9
"""memory early and late is the median over so many records before that place"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--early", type=int, required=True)
    parser.add_argument("--late", type=int, required=True)
    options = parser.parse_args()
    early, late = options.early, options.late
    stream_progress.RECORD_SECONDS = 0.02  # batches are many a second: each is looked at, about
    planted = PlantedStream(
        words_per_line=WORDS_PER_LINE, zipf=ZIPF, repeat_share=REPEAT_SHARE, repeat_distance=REPEAT_DISTANCE
    )
    looked: list[tuple[int, int]] = []

    def look(record: stream_progress.StreamProgress) -> None:
        looked.append((record.words, record.rss_bytes))

    model = StreamSkipGram(dim=DIM, window=3)
    with tempfile.TemporaryDirectory() as folder:
        run = StreamOptions(window_lines=WINDOW_LINES, words=late, checkpoint_seconds=0.3, snapshot_seconds=0.3)
        source = PlantedSource(planted)
        reported = stream(model, source, out=folder, options=run, storage=MEMORY, callback=look).summary
    (read,) = reported["sources"].values()
    places = {"early": early, "late": late + late // 100}  # the last batch reaches over it
    spans = {name: ([one for one in looked if one[0] <= place] or looked[:1])[-SPAN:] for name, place in places.items()}
    room = budget(model, MEMORY)
    print(json.dumps({
        "resident_bytes": {name: statistics.median(one[1] for one in span) for name, span in spans.items()},
        "largest_bytes": max(one[1] for one in looked),
        "records": {name: len(span) for name, span in spans.items()},
        "words": reported["words"], "words_per_s": reported["words_per_s"], "vocabulary": reported["vocabulary"],
        "max_types": room.max_types, "max_rows": room.max_rows, "types_seen": round(late ** (1 / ZIPF)),
        "repeats": round(REPEAT_SHARE * read["lines"]), "duplicates": read["duplicates"],
        "budget_bytes": MEMORY,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
