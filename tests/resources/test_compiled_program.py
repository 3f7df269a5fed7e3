"""The parser of compiled programs, on a hand-written one."""

import pytest

from zoo.resources.compiled_program import Collective, CompiledProgram

TEXT = """HloModule jit_step, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%inner (p: (s32[], f32[8,16])) -> (s32[], f32[8,16]) {
  %p = (s32[], f32[8,16]{1,0}) parameter(0)
  %x = f32[8,16]{1,0} get-tuple-element(%p), index=1
  %w = f32[16,16]{1,0} constant({...})
  %gathered = f32[32,16]{1,0} all-gather(%x), channel_id=1, replica_groups=[2,4]<=[8], dimensions={0}
  %product = f32[8,16]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(step)/while/dot_general"}
  ROOT %out = (s32[], f32[8,16]{1,0}) tuple(%i, %product)
}

%condition (p: (s32[], f32[8,16])) -> pred[] {
  ROOT %less = pred[] constant(true)
}

ENTRY %main (x: f32[8,16]) -> f32[8,16] {
  %x = f32[8,16]{1,0} parameter(0)
  %start = (s32[], f32[8,16]{1,0}) tuple(%zero, %x)
  %loop = (s32[], f32[8,16]{1,0}, /*index=2*/bf16[5,8]{1,0}) while(%start), condition=%condition, body=%inner, backend_config={"known_trip_count":{"n":"5"}}
  %y = f32[8,16]{1,0} get-tuple-element(%loop), index=1
  %both = (f32[8,16]{1,0}, bf16[4]{0}) all-reduce(%y, %z), replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}, to_apply=%add
  %part = f32[4]{0} reduce-scatter(%y), replica_groups={{0,1},{2,3}}, to_apply=%add
  ROOT %end = f32[8,16]{1,0} get-tuple-element(%both), index=0
}
"""


def test_loop_bodies_are_multiplied_by_their_trip_count():
    program = CompiledProgram(TEXT)
    (product,) = program.products()
    assert (product.flops, product.count, product.in_loop) == (2 * 8 * 16 * 16, 5, True)
    assert product.op_name == "jit(step)/while/dot_general"
    gather, reduce, scatter = program.collectives()
    assert (gather.kind, gather.count, gather.group_size, gather.in_loop) == ("all-gather", 5, 4, True)
    assert gather.wire_bytes == 5 * (32 * 16 * 4) * 3 / 4
    assert (reduce.group_size, reduce.result_bytes) == (4, 8 * 16 * 4 + 8)
    assert reduce.wire_bytes == 2 * (8 * 16 * 4 + 8) * 3 / 4
    assert (scatter.group_size, scatter.wire_bytes) == (2, 2 * 16 / 2)
    assert program.loop_arrays() == [(8 * 16 * 4, "f32[8,16]"), (80, "bf16[5,8]"), (4, "s32[]")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("all-reduce", 150), ("all-gather", 75), ("reduce-scatter", 300), ("all-to-all", 75), ("collective-permute", 100)],
)
def test_bytes_on_the_wire(kind, expected):
    assert Collective(kind, 100, 4, 1, "", False).wire_bytes == pytest.approx(expected)
    assert Collective(kind, 100, 1, 1, "", False).wire_bytes == 0


# As libtpu writes it: no number of turns, and a collective at its start and at its end.
TPU = """HloModule jit_step, is_scheduled=true

%started (a: f32[4,8]) -> (f32[4,8], f32[8,8], u32[]) {
  %a = f32[4,8]{1,0:T(8,128)S(1)} parameter(0)
  %gather.1 = f32[8,8]{1,0:T(8,128)} all-gather(%a), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}
  ROOT %call.1 = (f32[4,8]{1,0:T(8,128)}, f32[8,8]{1,0:T(8,128)}, u32[]{:S(2)}) custom-call(%gather.1), custom_call_target="AsyncCollectiveStart"
}

%ended (b: f32[4,8]) -> f32[8,8] {
  %b = f32[4,8]{1,0:T(8,128)S(1)} parameter(0)
  %gather.2 = f32[8,8]{1,0:T(8,128)} all-gather(%b), channel_id=1, replica_groups={{0,1},{2,3}}, dimensions={0}
  ROOT %call.2 = f32[8,8]{1,0:T(8,128)} custom-call(%b, %gather.2), custom_call_target="AsyncCollectiveDone"
}

%body (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %p = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) parameter(0)
  %x = f32[4,8]{1,0:T(8,128)} get-tuple-element(%p), index=1
  %start = (f32[4,8]{1,0}, f32[8,8]{1,0}, u32[]{:S(2)}) fusion(%x), kind=kCustom, calls=%started
  %end = f32[8,8]{1,0} fusion(%x), kind=kCustom, calls=%ended
  %kernel.12.1 = f32[4,8]{1,0} custom-call(%x), custom_call_target="tpu_custom_call"
  %i = s32[]{:T(128)} get-tuple-element(%p), index=0
  %one = s32[]{:T(128)} constant(1)
  %next = s32[]{:T(128)} add(%i, %one)
  ROOT %out = (s32[]{:T(128)}, f32[4,8]{1,0}) tuple(%next, %kernel.12.1)
}

%test (p.1: (s32[], f32[4,8])) -> pred[] {
  %limit = s32[]{:T(128)} constant(7)
  %p.1 = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) parameter(0)
  %counter = s32[]{:T(128)} get-tuple-element(%p.1), index=0
  ROOT %less = pred[]{:T(512)} compare(%counter, %limit), direction=LT
}

ENTRY %main (x: f32[4,8]) -> f32[4,8] {
  %x.1 = f32[4,8]{1,0:T(8,128)} parameter(0)
  %first = s32[]{:T(128)} constant(2)
  %copied = s32[]{:T(128)} copy(%first)
  %carried = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) tuple(%copied, %x.1)
  %loop = (s32[]{:T(128)}, f32[4,8]{1,0:T(8,128)}) while(%carried), condition=%test, body=%body
  %y = f32[4,8]{1,0} get-tuple-element(%loop), index=1
  %sent = (f32[4,8]{1,0}, f32[4,8]{1,0}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%y), source_target_pairs={{0,1},{1,0}}
  ROOT %done = f32[4,8]{1,0} collective-permute-done(%sent)
}
"""


def test_programs_for_tpus_are_read():
    program = CompiledProgram(TPU)
    gather, permute = program.collectives()
    assert (gather.kind, gather.count, gather.group_size, gather.result_bytes) == ("all-gather", 5, 2, 8 * 8 * 4)
    assert (permute.kind, permute.count, permute.wire_bytes) == ("collective-permute", 1, 4 * 8 * 4)
    # A kernel of a TPU is named by its instruction, without the numbers that tell instructions apart.
    assert program.custom_calls()["kernel"] == 5


@pytest.mark.parametrize(
    ("old", "new", "turns"),
    [("direction=LT", "direction=LE", 6), ("constant(2)", "constant(0)", 7), ("copy(%first)", "negate(%first)", 7),
     ("constant(1)", "constant(2)", 3), ("%next = s32[]{:T(128)} add", "%next = s32[]{:T(128)} subtract", 5),
     ("constant(7)", "parameter(7)", 1), ("direction=LT", "direction=GT", 1)],
)  # fmt: skip
def test_turns_of_a_loop_follow_from_its_condition(old, new, turns):
    """A condition that is not understood counts as one turn."""
    assert CompiledProgram(TPU.replace(old, new)).custom_calls()["kernel"] == turns
