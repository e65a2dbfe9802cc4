"""Cost per step depends on what is new, not on how much there is. Ratios in one run, never absolute times."""

from tests.scale.measure import crowd, handoffs, opening


async def test_the_last_hundred_of_800_handoffs_cost_what_the_first_hundred_did_and_the_file_weighs_at_most_1_5_times_the_words(tmp_path):
    figures = await handoffs(tmp_path / "s.db")
    assert figures["last/first"] < 1.6, "noise on a shared machine is within this; anything that grows with the conversation is not"
    assert figures["file/said"] <= 1.5


async def test_ten_thousand_facts_open_within_a_small_multiple_of_parsing_them(tmp_path):
    figures = await opening(tmp_path / "s.db")
    assert figures["facts"] >= 10_000
    assert figures["open/bare"] < 8


async def test_a_thousand_conversations_at_once_none_sees_anothers_words():
    assert (await crowd())["sessions"] == 1_000
