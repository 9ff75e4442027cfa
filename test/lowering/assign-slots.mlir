// RUN: cria-opt --assign-slots --split-input-file %s | FileCheck %s

// In module order: a weight with a count has as many, a table two.
// CHECK: llama.weight @a[3] {{.*}} {slot = 0 : index}
llama.weight @a[3] : tensor<4xf32> from "a.{}"
// CHECK: llama.rope_table @r {{{.*}}slot = 3 : index}
llama.rope_table @r {positions = 8 : i64, inv_freq = array<f32: 1.0>}
// CHECK: llama.weight @b {{.*}} {slot = 5 : index}
llama.weight @b : tensor<4xf32> from "b"

// -----

// Those that are there stay, in any order.
// CHECK: llama.weight @a {{.*}} {slot = 1 : index}
llama.weight @a : tensor<4xf32> from "a" {slot = 1 : index}
// CHECK: llama.weight @b {{.*}} {slot = 0 : index}
llama.weight @b : tensor<4xf32> from "b" {slot = 0 : index}
