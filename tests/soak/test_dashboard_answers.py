"""Twenty lakes broken at random: each answers the engineer on call in two clicks from its first screen."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeaudit.keys import Location
from tests.builders.on_call import CHROMIUM, PATIENCE, WIDE, answers, browsing
from tests.builders.random_results import draw
from tests.builders.results import lake_file
from tests.builders.served import serving

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]
SEEDS = range(20)


def test_every_one_answers(tmp_path: Path) -> None:
    """One server and one browser: the lake file is rewritten for each, so that nothing is cached."""
    place = Location.parse(str(tmp_path / "results"))
    draw(place, 0, datetime.now(UTC).replace(microsecond=0))
    with serving(lake_file(tmp_path, place)) as server, browsing() as browser:
        for seed in SEEDS:
            shutil.rmtree(place.spark_path)
            drawn = draw(place, seed, datetime.now(UTC).replace(microsecond=0))
            lake_file(tmp_path, place)
            context = browser.new_context(viewport=WIDE)
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            answers(page, server.url, drawn, seed)
            context.close()
