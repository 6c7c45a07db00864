from twisted_kafka.system.bounded import ENTRY_BYTES, LARGEST_SHARE, BoundedCache, BoundedQueue


def _cache(max_bytes: int) -> BoundedCache[str, str]:
    return BoundedCache(max_bytes, lambda key, value: len(key) + len(value))


def test_a_cache_forgets_the_oldest_entries_beyond_its_bytes() -> None:
    entry_bytes = ENTRY_BYTES + 100
    cache = _cache(10 * entry_bytes)
    for number in range(1000):
        cache.put(f"{number:010}", "x" * 90)
        assert cache.held_bytes <= 10 * entry_bytes
    assert len(cache) == 10
    assert cache.get(f"{989:010}") is None
    assert cache.get(f"{990:010}") == "x" * 90


def test_a_cache_counts_an_entry_once_that_is_replaced_or_discarded() -> None:
    cache = _cache(100_000)
    for size in (1, 5000, 20):
        cache.put("k", "x" * size)
    assert cache.get("k") == "x" * 20
    assert cache.held_bytes == ENTRY_BYTES + 21
    cache.discard("k")
    cache.discard("k")
    assert (cache.get("k"), cache.held_bytes, len(cache)) == (None, 0, 0)


def test_a_cache_keeps_no_entry_that_would_displace_all_others() -> None:
    cache = _cache(80_000)
    cache.put("a", "small")
    cache.put("a", "x" * (80_000 // LARGEST_SHARE))
    assert cache.get("a") is None, "nor the value that it replaces"
    cache.put("b", "x" * (80_000 // LARGEST_SHARE - ENTRY_BYTES - 1))
    assert cache.get("b") is not None


def test_a_cleared_cache_is_empty_and_can_be_filled_again() -> None:
    cache = _cache(10_000)
    cache.put("k", "v")
    cache.clear()
    assert (len(cache), cache.held_bytes) == (0, 0)
    cache.put("k", "w")
    assert cache.get("k") == "w"


def test_a_queue_refuses_what_does_not_fit_until_items_are_taken() -> None:
    queue: BoundedQueue[str] = BoundedQueue(3 * (ENTRY_BYTES + 10))
    assert [queue.put("x" * 10) for _ in range(4)] == [True, True, True, False]
    assert not queue.put(""), "an empty item costs something, too"
    assert queue.take(2) == ["x" * 10] * 2
    assert queue.put("y" * 10)
    assert queue.take(100) == ["x" * 10, "y" * 10]
    assert (len(queue), queue.held_bytes) == (0, 0)
