"""Whatever happens at whatever moment: who is right is not accused, and what was lost is found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.items import item, served, source_spec
from watchcache_server.informer.audit import Audit
from watchcache_server.informer.comparison import Listed
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.model.states import CheckOutcome

_NAMES = ("a", "b", "c", "d")
_FIRST = 10


class Server:
    """The past of a resource: what there was at each version, and the events in between."""

    def __init__(self, writes: list[tuple[str, bool]]) -> None:
        present: dict[str, Item] = {}
        self.states = [dict(present)]
        self.events: list[Delta] = []
        for number, (name, is_unwanted) in enumerate(writes, _FIRST + 1):
            before = present.get(name)
            is_removal = is_unwanted and before is not None
            uid = f"uid-{number}" if before is None else before.uid
            now = item(name, uid=uid, version=str(number))
            if is_removal:
                del present[name]
                self.events.append(Remove(now))
            else:
                present[name] = now
                self.events.append(Upsert(now, is_addition=before is None))
            self.states.append(dict(present))

    def listed(self, at: int) -> list[Listed]:
        """Return a list of the moment after so many events."""
        return [
            Listed(each.namespace, each.name, each.uid, each.resource_version)
            for each in self.states[at].values()
        ]


@st.composite
def courses(draw: st.DrawFn) -> tuple[Server, int, int, int, int]:
    """Draw writes, and how many of them there had been at four moments.

    When the source synced, when the list was asked for and when it was made; and what the source
    had read when the answer came.
    """
    writes = draw(st.lists(st.tuples(st.sampled_from(_NAMES), st.booleans()), max_size=14))
    moments = st.lists(st.integers(0, len(writes)), min_size=3, max_size=3)
    synced, asked, made = sorted(draw(moments))
    arrived = draw(st.integers(asked, len(writes)))
    return Server(writes), synced, asked, made, arrived


def audited(
    course: tuple[Server, int, int, int, int], *, lost: int | None = None, by_number: bool = False
) -> tuple[Source, list[CheckOutcome | None]]:
    """Return a source at the end of all, and what was seen after each event from the answer on."""
    server, synced, asked, made, arrived = course
    source = Source(1, source_spec())
    source.served = served()
    source.stage(server.states[synced].values())
    source.commit(str(_FIRST + synced))
    source.note_position(str(_FIRST + synced), 0)
    audit: Audit | None = None
    seen: list[CheckOutcome | None] = []
    for number in range(synced, len(server.events) + 1):
        if number == asked:
            audit = Audit(source)
        if number == arrived and audit is not None:
            audit.begin(str(_FIRST + made))
            if by_number:
                audit.expect(len(server.states[made]))
            else:
                audit.compare(server.listed(made))
        if number >= arrived and audit is not None:
            seen.append(audit.look())
        if number < len(server.events):
            if number != lost:
                source.apply([server.events[number]])
            source.note_position(str(_FIRST + number + 1), 0)
    return source, seen


@given(course=courses(), by_number=st.booleans())
def test_who_is_right_is_never_accused(
    course: tuple[Server, int, int, int, int], by_number: bool
) -> None:
    """Nor is there any doubt once the stream is at the list."""
    _, seen = audited(course, by_number=by_number)
    assert set(seen) <= {None, CheckOutcome.CONSISTENT}
    assert seen[-1] is CheckOutcome.CONSISTENT


@given(course=courses(), data=st.data())
def test_what_was_lost_before_is_found(
    course: tuple[Server, int, int, int, int], data: st.DataObject
) -> None:
    """Unless a later event has mended it, or touched the object since the list was asked for."""
    server, synced, asked, *_ = course
    if synced == asked:
        return
    lost = data.draw(st.integers(synced, asked - 1))
    source, seen = audited(course, lost=lost)
    name = server.events[lost].item.name
    if any(each.item.name == name for each in server.events[lost + 1 :]):
        return
    assert {entry.name for entry in source.table} != set(server.states[-1]) or (
        isinstance(server.events[lost], Upsert)
    )
    assert seen[-1] is CheckOutcome.MISMATCH
