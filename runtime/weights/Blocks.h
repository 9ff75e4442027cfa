/// Block formats of weights. All have ggml's bits, except FP8, which ggml does
/// not have. A block has elements of one row; their scales lie before or after
/// their integers:
///
///   Q8_0  32: f16 d, 32 x i8 q                              x = d q
///   Q4_0  32: f16 d, 16 x (q of i | q of i + 16 << 4)       x = d (q - 8)
///   Q4_1  32: f16 d, f16 m, 16 x (as Q4_0)                  x = d q + m
///   Q5_0  32: f16 d, u32 (bit 4 of each q), 16 x (as Q4_0)  x = d (q - 16)
///   Q5_1  32: f16 d, f16 m, the rest as Q5_0                x = d q + m
///   Q2_K 256: 16 x (4 bits s, 4 bits t), 64 x (four q of 2 bits), f16 d, f16 m
///                                                  x = (d s) q - m t
///   Q3_K 256: 32 x (bit 2 of eight q), 64 x (four q of 2 bits), 16 x 6 bits s,
///             f16 d                                x = (d (s - 32)) (q - 4)
///   Q4_K 256: f16 d, f16 m, 8 x (6 bits s, 6 bits t), 128 x (two q of 4 bits)
///                                                  x = (d s) q - m t
///   Q5_K 256: the same with 32 x (bit 4 of eight q) before the 128
///   Q6_K 256: 128 x (two q of 4 bits), 64 x (four q of 2 bits, above those),
///             16 x i8 s, f16 d                     x = (d s) (q - 32)
///   IQ4_NL 32: as Q4_0                                     x = d v[q]
///   IQ4_XS 256: f16 d, 8 x 6 bits s, 8 x (16 x (as Q4_0))
///                         x = (d (s - 32)) v[q], v a table of 16 integers
///   MXFP4 32: u8 s, 16 x (q of i | q of i + 16 << 4), q a float of 4 bits
///                                                  x = 2^(s - 127) q
///   FP8    32: f16 d, 32 x q, a float of 8 bits (E4M3)     x = d q / 256
#pragma once

#include "runtime/base/DType.h"

#include <cstddef>
#include <cstdint>

namespace cria {

/// The f32 values of `count` elements of a block format, whole blocks; `from`
/// needs no alignment. Computed as ggml does. No file has blocks of FP8: these
/// are not read.
void dequantize(const std::byte *from, DType type, float *to, uint64_t count);

/// Writes `count` elements as blocks of Q8_0 or Q4_0, bit for bit as ggml's
/// quantize_row_q8_0_ref and quantize_row_q4_0_ref do, or of FP8, where
/// d = 256 max |x| / 448 and q is the float nearest to 256 x / d. The result of
/// ggml's is undefined for a scale whose reciprocal overflows f32, and for one
/// that is not finite because an element is not. Here such a block has integers
/// that stand for 0. So an element that is not finite makes NaN of its block,
/// and changes nothing else.
void quantize(const float *from, std::byte *to, DType type, uint64_t count);

} // namespace cria
