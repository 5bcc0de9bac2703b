"""Whatever order news come in that causality leaves open, all nodes end with the same groups."""

import itertools

import pytest

from causalcast.core import made_groups
from causalcast.core.made_groups import MAKE, REMOVE, MadeGroups, News, decode_news


def after(*news: News) -> MadeGroups:
    groups = MadeGroups()
    for one in news:
        groups.take(one)
    return groups


def standing(groups: MadeGroups) -> list[tuple[str, int, int, int, bool]]:
    return sorted(groups.standing())


def there(groups: MadeGroups) -> dict[str, tuple[int | None, int]]:
    """What there is, and what the next group of a name would be."""
    return {name: (groups.id_of(name), groups.making(name).epoch) for name in ("a", "b", "doc")}


CONCURRENT = [
    # Two nodes make it; one of them removes it before it has heard of the other.
    [News(MAKE, "doc", 1), News(REMOVE, "doc", 1)],
    # Made again by one who knows of the removal, while another removes the first one, too.
    [News(MAKE, "doc", 1), News(REMOVE, "doc", 1), News(MAKE, "doc", 2), News(REMOVE, "doc", 1)],
    [News(MAKE, "a", 1), News(MAKE, "b", 1), News(REMOVE, "a", 1), News(MAKE, "a", 2)],
]


@pytest.mark.parametrize("story", CONCURRENT)
def test_all_orders_end_alike(story: list[News]) -> None:
    ends = [there(after(*order, *order)) for order in itertools.permutations(story)]
    assert all(end == ends[0] for end in ends)


def test_an_old_group_does_not_come_back() -> None:
    groups = after(News(MAKE, "doc", 1), News(REMOVE, "doc", 1))
    assert groups.id_of("doc") is None
    assert not groups.take(News(MAKE, "doc", 1)).made
    assert groups.making("doc").epoch == 2
    first = made_groups.id_of_made("doc", 1, 0)
    assert groups.take(groups.making("doc")).made != [first]
    assert not groups.has(first)


def test_who_knows_of_a_group_of_that_id_takes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """And two that did not know of each other have a group that nobody can use."""
    monkeypatch.setattr(made_groups, "_IDS", 1)
    groups = after(News(MAKE, "a", 1))
    change = groups.take(News(MAKE, "b", 1))
    (group,) = change.contested
    assert groups.is_contested(group)
    again = MadeGroups()
    again.restore(groups.standing())
    assert again.is_contested(group)
    assert standing(again) == standing(groups)
    monkeypatch.undo()
    assert MadeGroups().making("b").salt == 0


def test_a_second_salt_of_one_name_contests_it() -> None:
    groups = after(News(MAKE, "a", 1, 0), News(MAKE, "a", 1, 1))
    assert groups.is_contested(groups.id_of("a"))  # type: ignore[arg-type]
    assert groups.take(News(REMOVE, "a", 1)).removed
    assert groups.take(groups.making("a")).made
    assert not groups.is_contested(groups.id_of("a"))  # type: ignore[arg-type]


def test_news_are_read_as_they_were_written_and_nonsense_is_none() -> None:
    news = decode_news(News(MAKE, "doc/4 2 ö", 3, 7).encode())
    assert news is not None
    assert (news.kind, news.name, news.epoch, news.salt) == (MAKE, "doc/4 2 ö", 3, 7)
    for body in (b"", b"make 1 0 ", b"make 0 0 a", b"make 1 -1 a", b"eat 1 0 a", b"make 01 0 a"):
        assert decode_news(body) is None
    for body in (b"make x 0 a", b"\xff", b"make 1 0", b"remove +1 0 a"):
        assert decode_news(body) is None
