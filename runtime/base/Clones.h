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

/// The same, also by Clang, and for AVX2, of a function that calls no template:
/// Clang does not compile these for clones.
#if defined(__x86_64__) && defined(__GNUC__)
#define CRIA_PLAIN_CLONES                                                      \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CRIA_PLAIN_CLONES
#endif
