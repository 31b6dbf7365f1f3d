"""A hint to the processor that a row of an array will be read soon.

A trie of a million tokens lies in main memory, an access to which costs as much as hundreds of operations;
hints let several of them run at once.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_FOR_READING = 0
_KEEP_IN_ALL_CACHES = 3
_DATA = 1


@intrinsic  # type: ignore[untyped-decorator]
def prefetch_row(typing_context: Any, array: Any, row: Any) -> Any:  # noqa: ANN401
    """Fetch the cache line in which row ``row`` of an array begins; any row is harmless."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        array_type, row_type = signature.args
        view = context.make_array(array_type)(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, view.strides, array_type.ndim)[0]
        offset = builder.mul(context.cast(builder, arguments[1], row_type, types.intp), stride)
        byte = ir.IntType(8).as_pointer()
        address = builder.gep(builder.bitcast(view.data, byte), [offset])
        number = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
        hints = [number(_FOR_READING), number(_KEEP_IN_ALL_CACHES), number(_DATA)]
        builder.call(function, [address, *hints])
        return context.get_dummy_value()

    return types.void(array, row), generate
