/// Marks a function that is compiled twice, for any CPU and for AVX-512. The
/// program takes the one for its CPU when it starts. The function's loops must
/// not change meaning with the width of vectors; floating-point contraction is
/// off.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CRIA_VECTOR_CLONES                                                     \
  __attribute__((target_clones("arch=x86-64-v4", "default")))
#else
#define CRIA_VECTOR_CLONES
#endif
