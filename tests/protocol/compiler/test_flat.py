import pytest

from twisted_kafka.protocol.compiler.flat import FlatForm
from twisted_kafka.protocol.compiler.message import Message, Struct, field
from twisted_kafka.protocol.compiler.types import Bytes, Int32, String


class Part(Struct):
    number: Int32 = 0
    blob: Bytes = b""


class Thing(Struct):
    name: String = ""
    parts: list[Part] = field(factory=list)


class Order(Message, key=0, versions=(0, 2), flexible=1):
    numbers: list[Int32] = field(factory=list)
    note: String | None = None
    only: Thing = field(factory=Thing, since=2)
    things: list[Thing] = field(factory=list)


class OneThing(FlatForm, of=Order):
    note: str
    name: str
    number: int = 5


def test_the_constructor_takes_the_fields_in_order_and_their_defaults() -> None:
    assert OneThing("n", "a").number == 5
    assert OneThing("n", "a", number=6).number == 6


def test_a_name_that_the_message_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match="Order has no fields nmae"):

        class Misspelt(FlatForm, of=Order):
            nmae: str


def test_arrays_of_values_structs_and_bytes_are_refused() -> None:
    class Numbers(FlatForm, of=Order):
        numbers: int

    class Blob(FlatForm, of=Order):
        blob: bytes

    frame = Order(things=[Thing(name="a", parts=[Part()])])
    with pytest.raises(TypeError, match=r"Order v0: Order\.numbers is an array"):
        Numbers.read(frame.encode(0), 0, 0)
    with pytest.raises(TypeError, match=r"Order v2: Order\.only is a struct"):
        OneThing.read(frame.encode(2), 2, 0)
    with pytest.raises(TypeError, match=r"Order v0: Part\.blob is bytes"):
        Blob(b"").write(0)


def test_what_was_written_is_read() -> None:
    written = OneThing("note", "a", 7).write(1, b"head")
    assert written == b"head" + Order(note="note", things=[Thing(name="a", parts=[Part(number=7)])]).encode(1)
    read = OneThing.read(written, 1, 4)
    assert read is not None
    assert (read.note, read.name, read.number) == ("note", "a", 7)
