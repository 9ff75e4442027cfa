// A program that reads a cache from before an append would need a copy of it.
// It does not compile, and the error names the op.
// RUN: rm -f %t.mlir %t.cria
// RUN: not cria-compile %s --emit=tile -o %t.mlir 2>&1 | FileCheck %s
// RUN: not cria-compile %s -o %t.cria 2>&1 | FileCheck %s
// RUN: not test -e %t.mlir
// RUN: not test -e %t.cria

// CHECK: cria-compile: error: {{.*}}cache-copy.mlir:[[#@LINE+19]]:{{.*}}expected the KV cache to be updated in place, but this op allocates 'memref<1x1x64x8xf32>', as large as the cache

// With the cache that the append returned it compiles.
// RUN: sed 's/%%q, %%k, %%k\[/%%q, %%k1, %%k1[/' %s > %t.good.mlir
// RUN: cria-compile %t.good.mlir --emit=tile -o %t.out

// Scratch as large as a layer of a cache is no copy of it.
// RUN: sed 's/"head_dim": 16/"head_dim": 64/; s/"num_key_value_heads": 2/"num_key_value_heads": 1/' \
// RUN:   %S/../../examples/tiny/config.json > %t.json
// RUN: cria-compile %t.json --max-seq=64 --cpu=x86-64-v3 --emit=tile | grep 'alloca.* : memref<64x64xf32>'
llama.weight @table : tensor<16x8xf32> from "table"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<1x1x64x8xf32>)
    -> (tensor<?x16xf32>, tensor<1x1x64x8xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %t = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xf32>
  %q = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 1, 8]
      : tensor<?x8xf32> into tensor<?x1x8xf32>
  %k1 = llama.kv_append %q into %k[%c0] at %position
      : tensor<?x1x8xf32> into tensor<1x1x64x8xf32>
  %o = llama.gqa %q, %k, %k[%c0] at %position {scale = 1.0, causal}
      : tensor<?x1x8xf32>, tensor<1x1x64x8xf32>
  %f = tensor.collapse_shape %o [[0], [1, 2]]
      : tensor<?x1x8xf32> into tensor<?x8xf32>
  %l = llama.head %f, %t : tensor<?x8xf32>, tensor<16x8xf32>
  return %l, %k1 : tensor<?x16xf32>, tensor<1x1x64x8xf32>
}
