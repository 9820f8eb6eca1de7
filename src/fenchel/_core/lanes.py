"""Eight numbers abreast: a type for kernels that work on eight items of a batch at once.

numba makes vector code of long plain loops only. Where the work on an item consists of many short ones (eliminating a 5 x 5
system, say), the items themselves can be the lanes of a vector: code that reads like that for one item does eight. Arrays
hold the eight numbers of a place side by side, so ``load(A, i)`` is A[8 i : 8 i + 8]. ``+ - * /`` work between lanes, and with
floats; comparisons are ``pick(a, b, x, y)``, x where a < b and y elsewhere (also where something is NaN).
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.extending import intrinsic, lower_builtin, register_model
from numba.core.typing import templates

__all__ = ["LANES", "exp", "load", "log", "low", "pick", "splat", "store", "top"]

LANES = 8

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_FLAGS = ("nsz", "contract", "arcp", "reassoc")


def _primitive(function: Any) -> Any:
    return intrinsic(function)


class _LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes8")


_lanes = _LanesType()


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)  # type: ignore[no-untyped-call]


def _place(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """A pointer to the eight numbers of a place of a contiguous array."""
    struct = context.make_array(array_type)(context, builder, array)
    at = builder.mul(index, ir.Constant(index.type, LANES))
    return builder.bitcast(builder.gep(struct.data, [at]), _VECTOR.as_pointer())


def _spread(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


@_primitive
def load(typingctx, array, index):  # type: ignore[no-untyped-def]
    """The eight numbers of place ``index``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        found = builder.load(_place(context, builder, signature.args[0], args[0], args[1]))
        found.align = 8
        return found

    return _lanes(array, types.intp), codegen


@_primitive
def store(typingctx, array, index, x):  # type: ignore[no-untyped-def]
    """Write the eight numbers of place ``index``."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        builder.store(args[2], _place(context, builder, signature.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), codegen


@_primitive
def splat(typingctx, x):  # type: ignore[no-untyped-def]
    """The same number eight times."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return _spread(builder, args[0])

    return _lanes(types.float64), codegen


@_primitive
def pick(typingctx, a, b, x, y):  # type: ignore[no-untyped-def]
    """x where a < b, else y."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return _lanes(_lanes, _lanes, _lanes, _lanes), codegen


@_primitive
def top(typingctx, a, b):  # type: ignore[no-untyped-def]
    """The larger one in each lane."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[1], args[0])

    return _lanes(_lanes, _lanes), codegen


@_primitive
def low(typingctx, a, b):  # type: ignore[no-untyped-def]
    """The smaller one in each lane."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[0], args[1])

    return _lanes(_lanes, _lanes), codegen


def _constant(x: float) -> Any:
    return ir.Constant(_VECTOR, [x] * LANES)


def _whole(x: int) -> Any:
    return ir.Constant(_INTEGERS, [x] * LANES)


_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
_ROUNDS = (
    6755399441055744.0  # 1.5 * 2^52: a number added to this is rounded to a whole one, which its last bits then are
)
_CONTRACT = ("contract",)


@_primitive
def exp(typingctx, x):  # type: ignore[no-untyped-def]
    """exp in each lane, to an ulp or two; arguments below -700 count as -700, those above 700 as 700."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        def fma(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=_CONTRACT), c, flags=_CONTRACT)

        x = args[0]
        x = builder.select(builder.fcmp_ordered("<", x, _constant(-700.0)), _constant(-700.0), x)
        x = builder.select(builder.fcmp_ordered(">", x, _constant(700.0)), _constant(700.0), x)
        # not by adding and taking off a large number: kernels may be compiled so that sums are reassociated
        rint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.rint.v{LANES}f64"
        )
        k = builder.call(rint, [builder.fmul(x, _constant(1.4426950408889634))])
        rounded = builder.fadd(k, _constant(_ROUNDS))
        r = fma(k, _constant(-0.693145751953125), x)
        r = fma(k, _constant(-1.42860682030941723212e-6), r)
        found = _constant(1 / 479001600)
        for d in (39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1):
            found = fma(found, r, _constant(1 / d))
        power = builder.shl(builder.add(builder.bitcast(rounded, _INTEGERS), _whole(1023)), _whole(52))
        return builder.fmul(found, builder.bitcast(power, _VECTOR))

    return _lanes(_lanes), codegen


@_primitive
def log(typingctx, x):  # type: ignore[no-untyped-def]
    """The logarithm of positive normal numbers in each lane, to about 1e-12; of zero a number below -700."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        def fma(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=_CONTRACT), c, flags=_CONTRACT)

        bits = builder.bitcast(args[0], _INTEGERS)
        # x = 2^e m with m from 0.7 to 1.4
        moved = builder.sub(bits, _whole(0x3FE6A09E667F3BCD))
        e = builder.ashr(moved, _whole(52))
        m = builder.bitcast(builder.sub(bits, builder.shl(e, _whole(52))), _VECTOR)
        as_number = builder.bitcast(builder.add(e, _whole(0x4338000000000000)), _VECTOR)
        k = builder.fsub(as_number, _constant(_ROUNDS))
        s = builder.fdiv(builder.fsub(m, _constant(1.0)), builder.fadd(m, _constant(1.0)))
        z = builder.fmul(s, s)
        found = _constant(2 / 17)
        for d in (15, 13, 11, 9, 7, 5, 3, 1):
            found = fma(found, z, _constant(2 / d))
        return fma(k, _constant(0.6931471805599453), builder.fmul(found, s))

    return _lanes(_lanes), codegen


_templates: Any = templates
_lower: Any = lower_builtin


class _Between(templates.ConcreteTemplate):
    """Arithmetic between lanes, and with floats. (Overloads would do, but take numba three times as long to compile.)"""

    cases: ClassVar[list[Any]] = [
        _templates.signature(_lanes, _lanes, _lanes),
        _templates.signature(_lanes, _lanes, types.float64),
        _templates.signature(_lanes, types.float64, _lanes),
    ]


def _arithmetic(name: str, function: Any) -> None:
    _templates.infer_global(function)(type(f"Lanes_{function.__name__}", (_Between,), {}))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y = (
            value if kind is _lanes else _spread(builder, value) for kind, value in zip(sig.args, args, strict=True)
        )
        return getattr(builder, name)(x, y, flags=_FLAGS)

    for kinds in ((_lanes, _lanes), (_lanes, types.float64), (types.float64, _lanes)):
        _lower(function, *kinds)(codegen)


for _name, _function in (
    ("fadd", operator.add),
    ("fsub", operator.sub),
    ("fmul", operator.mul),
    ("fdiv", operator.truediv),
    ("fadd", operator.iadd),
    ("fsub", operator.isub),
    ("fmul", operator.imul),
):
    _arithmetic(_name, _function)
