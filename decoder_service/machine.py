"""Machine operations that Numba lacks: fused multiply-add, bit casts, addresses, an atomic counter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:  # noqa: ANN401
    """``a * b + c``, rounded once (IEEE 754), float32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        single = ir.FloatType()
        function = builder.module.declare_intrinsic(
            "llvm.fma", (single,), ir.FunctionType(single, [single] * 3)
        )
        return builder.call(function, args)

    return types.float32(types.float32, types.float32, types.float32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def float_of_bits(typingctx: Any, bits: Any) -> Any:  # noqa: ANN401
    """The float32 that has these 32 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(typingctx: Any, address: Any) -> Any:  # noqa: ANN401
    """The address as a pointer, for ``numba.carray``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fetch_add(typingctx: Any, address: Any, amount: Any) -> Any:  # noqa: ANN401
    """Add to the int64 at an address atomically; return what was there before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ANN401
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "monotonic")

    return types.int64(types.int64, types.int64), codegen
