// RUN: cria-opt --assign-slots --convert-llama-to-linalg=chunk=64 --split-input-file %s | FileCheck %s

// Weights and tables become functions that carry their slots: a weight with a
// count takes as many, a table two.
// CHECK: func private @embed() -> tensor<16x8xf32> attributes {cria.weight = {slot = 0 : index, source = "embed"}}
// CHECK: func private @w(index) -> tensor<6x8xf32> attributes {cria.weight = {slot = 1 : index, source = "l.{}.w"}}
// CHECK: func private @rope.cos() -> tensor<4x2xf32> attributes {cria.rope = {slot = 4 : index}}
// CHECK: func private @rope.sin() -> tensor<4x2xf32> attributes {cria.rope = {slot = 5 : index}}
llama.weight @embed : tensor<16x8xf32> from "embed"
llama.weight @w[3] : tensor<6x8xf32> from "l.{}.w"
llama.rope_table @rope {positions = 4 : i64, inv_freq = array<f32: 1.0, 0.1>}

// A kernel is a function of its name and the entry's. What it makes goes into a
// tensor that it is given; the head writes into the logits.
// CHECK: func private @embed_prefill(%[[IDS:.*]]: tensor<?xi32>, %[[TABLE:.*]]: tensor<16x8xf32>, %[[INTO:.*]]: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {cria.chunk = 64 : index, no_inline}
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}} ins(%[[IDS]] : tensor<?xi32>)
// CHECK: tensor.extract %[[TABLE]]
// CHECK: %[[X:.*]] = bufferization.materialize_in_destination %[[ROWS]] in %[[INTO]]
// CHECK: return %[[X]]
// CHECK: func private @head_prefill(%[[X:.*]]: tensor<?x8xf32>, %{{.*}}: tensor<16x8xf32>, %[[LOGITS:.*]]: tensor<64x16xf32>) -> tensor<64x16xf32>
// CHECK: %[[COUNT:.*]] = tensor.dim %[[X]]
// CHECK: %[[INTO:.*]] = tensor.extract_slice %[[LOGITS]][0, 0] [%[[COUNT]], 16]
// CHECK: %[[ZERO:.*]] = linalg.fill {{.*}} outs(%[[INTO]]
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}}"reduction"]} {{.*}} outs(%[[ZERO]]
// Sums may be taken in any order.
// CHECK: arith.mulf {{.*}} fastmath<reassoc,contract>
// CHECK: arith.addf {{.*}} fastmath<reassoc,contract>
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[ROWS]] into %[[LOGITS]]
// CHECK: return %[[ALL]]

// An entry has room for a chunk of ids and logits.
// CHECK-LABEL: func @prefill
// CHECK-SAME: (%[[IDS:.*]]: tensor<64xi32>, %[[TOKENS:[^:]*]]: index, %{{[^:]*}}: index, %{{[^:]*}}: index, %{{[^:]*}}: index, %[[LOGITS:.*]]: tensor<64x16xf32>, %[[K:.*]]: tensor<1x1x4x8xf32>) -> (tensor<64x16xf32>, tensor<1x1x4x8xf32>) attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 64 : index}
// CHECK: %[[USED:.*]] = tensor.extract_slice %[[IDS]][0] [%[[TOKENS]]] [1]
// CHECK: %[[TABLE:.*]] = call @embed()
// CHECK: %[[NEW:.*]] = tensor.empty(%[[TOKENS]]) : tensor<?x8xf32>
// CHECK: %[[X:.*]] = call @embed_prefill(%[[USED]], %[[TABLE]], %[[NEW]])
// CHECK: %[[ALL:.*]] = call @head_prefill(%[[X]], %[[TABLE]], %[[LOGITS]])
// CHECK: return %[[ALL]], %[[K]]
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>)
    -> (tensor<?x16xf32>, tensor<1x1x4x8xf32>) {
  %t = llama.get_weight @embed : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %0 = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %0 : tensor<?x8xf32>
  }
  %l = llama.kernel "head" -> tensor<?x16xf32> {
    %0 = llama.head %x, %t : tensor<?x8xf32>, tensor<16x8xf32>
    llama.yield %0 : tensor<?x16xf32>
  }
  return %l, %k : tensor<?x16xf32>, tensor<1x1x4x8xf32>
}

// -----

// Inside a kernel f32 is kept: the product is not rounded before the addition,
// which starts from the stream's buffer and rounds once.
// CHECK: func private @out_decode(%[[X:.*]]: tensor<1x8xbf16>, %{{.*}}: tensor<8x8xbf16>) -> tensor<1x8xbf16> attributes {cria.chunk = 1 : index, no_inline}
// CHECK: %[[Y:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]]
// CHECK-NOT: arith.truncf
// CHECK: %[[Z:.*]] = linalg.generic {{.*}} ins(%[[Y]] : tensor<1x8xf32>) outs(%[[X]] : tensor<1x8xbf16>)
// CHECK-NEXT: ^bb0(%[[UPDATE:.*]]: f32, %[[OLD:.*]]: bf16)
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[OLD]] : bf16 to f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[WIDE]], %[[UPDATE]] : f32
// CHECK-NEXT: arith.truncf %[[SUM]] : f32 to bf16
// CHECK: return %[[Z]]
// CHECK-LABEL: func @decode
// CHECK-SAME: cria.chunk = 1 : index
// CHECK: %[[X:.*]] = call @embed_decode
// CHECK: call @out_decode(%[[X]]
llama.weight @w : tensor<8x8xbf16> from "w"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %w = llama.get_weight @w : tensor<8x8xbf16>
  %x = llama.kernel "embed" -> tensor<1x8xbf16> {
    %0 = llama.embed %ids, %w : tensor<1xi32>, tensor<8x8xbf16>
    llama.yield %0 : tensor<1x8xbf16>
  }
  %z = llama.kernel "out" -> tensor<1x8xbf16> {
    %y = llama.linear %x, %w : tensor<1x8xbf16>, tensor<8x8xbf16>
    %0 = llama.residual %x, %y : tensor<1x8xbf16>
    llama.yield %0 : tensor<1x8xbf16>
  }
  %l = llama.head %z, %w : tensor<1x8xbf16>, tensor<8x8xbf16>
  return %l : tensor<1x8xf32>
}

// -----

// The norm is rounded to the type of x before its weight multiplies it.
// CHECK-LABEL: func @norm
// CHECK: math.rsqrt
// CHECK: %[[N:.*]] = arith.mulf
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[N]] : f32 to f16
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[ROUNDED]]
// CHECK-NEXT: arith.mulf %{{.*}}, %[[WIDE]]
llama.weight @x : tensor<1x8xf16> from "x"
llama.weight @g : tensor<8xf16> from "g"
llama.weight @e : tensor<8x8xf16> from "e"
func.func @norm(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %x = llama.get_weight @x : tensor<1x8xf16>
  %g = llama.get_weight @g : tensor<8xf16>
  %e = llama.get_weight @e : tensor<8x8xf16>
  %y = llama.rmsnorm %x, %g {eps = 1.0e-05} : tensor<1x8xf16>, tensor<8xf16>
  %l = llama.head %y, %e : tensor<1x8xf16>, tensor<8x8xf16>
  return %l : tensor<1x8xf32>
}

// -----

// Hidden states go where the entry wants them, in f32, each rounded to the type of the
// norm: there is one pass over them.
// CHECK-LABEL: func private @norm_prefill
// CHECK-SAME: %[[HIDDEN:[^:]*]]: tensor<64x8xf32>) -> tensor<64x8xf32>
// CHECK: %[[INTO:.*]] = tensor.extract_slice %[[HIDDEN]][0, 0] [%{{.*}}, 8]
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}} outs(%[[INTO]] : tensor<?x8xf32>)
// CHECK: arith.truncf
// CHECK: %[[ROUNDED:.*]] = arith.truncf %{{.*}} : f32 to bf16
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[ROUNDED]] : bf16 to f32
// CHECK-NEXT: linalg.yield %[[WIDE]]
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[ROWS]] into %[[HIDDEN]]
// CHECK: return %[[ALL]]
// CHECK-LABEL: func @prefill
// CHECK-SAME: -> (tensor<64x8xf32>, tensor<64x8xf32>) attributes {cria.arguments = ["ids", "tokens", "position", "first", "first_hidden", "source", "logits", "hidden"], cria.chunk = 64 : index}
// CHECK: call @norm_prefill
llama.weight @t : tensor<8x8xbf16> from "t"
llama.weight @g : tensor<8xbf16> from "g"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %first_hidden: index)
    -> (tensor<?x8xf32>, tensor<?x8xbf16>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %t = llama.get_weight @t : tensor<8x8xbf16>
  %g = llama.get_weight @g : tensor<8xbf16>
  %x = llama.kernel "embed" -> tensor<?x8xbf16> {
    %0 = llama.embed %ids, %t : tensor<?xi32>, tensor<8x8xbf16>
    llama.yield %0 : tensor<?x8xbf16>
  }
  %rows = arith.subi %n, %first_hidden : index
  %last = tensor.extract_slice %x[%first_hidden, 0] [%rows, 8] [1, 1]
      : tensor<?x8xbf16> to tensor<?x8xbf16>
  %hidden = llama.kernel "norm" -> tensor<?x8xbf16> {
    %0 = llama.rmsnorm %last, %g {eps = 1.0e-05} : tensor<?x8xbf16>, tensor<8xbf16>
    llama.yield %0 : tensor<?x8xbf16>
  }
  %l = llama.kernel "head" -> tensor<?x8xf32> {
    %0 = llama.head %x, %t : tensor<?x8xbf16>, tensor<8x8xbf16>
    llama.yield %0 : tensor<?x8xf32>
  }
  return %l, %hidden : tensor<?x8xf32>, tensor<?x8xbf16>
}

// -----

// Views are taken inside a kernel. Attention is its definition: the scores of
// all keys that are visible to any token, masked, a softmax, and a product. Rows
// are appended where they belong.
// CHECK-LABEL: func private @attn_prefill
// CHECK-SAME: (%[[X:[^:]*]]: tensor<?x32xbf16>, %[[K:[^:]*]]: tensor<2x2x64x8xbf16>, %[[V:[^:]*]]: tensor<2x2x64x8xbf16>, %[[LAYER:[^:]*]]: index, %[[P:[^:]*]]: index, %[[INTO:[^:]*]]: tensor<?x4x8xbf16>)
// CHECK: %[[T:.*]] = tensor.dim %[[X]], %c0
// CHECK: %[[Q:.*]] = tensor.expand_shape %[[X]]
// CHECK: %[[FIRST:.*]] = affine.max #{{.*}}()[%[[P]]{{\]}}
// CHECK: %[[LENGTH:.*]] = affine.min
// CHECK: %[[HEADS:.*]] = tensor.expand_shape %[[Q]] {{\[\[0\], \[1, 2\], \[3\]\]}} output_shape [%[[T]], 2, 2, 8]
// CHECK: %[[KEYS:.*]] = tensor.extract_slice %[[K]][%[[LAYER]], 0, %[[FIRST]], 0] [1, 2, %[[LENGTH]], 8]
// CHECK: %[[SCORES:.*]] = linalg.generic {{.*}} ins(%[[HEADS]], %[[KEYS]] : {{.*}} outs(%{{.*}} : tensor<2x2x?x?xf32>)
// CHECK: %[[MASKED:.*]] = linalg.generic {{.*}} ins(%[[SCORES]]
// CHECK: arith.mulf %{{.*}}, %cst
// CHECK: %[[CAUSAL:.*]] = arith.cmpi sle
// CHECK: %[[RECENT:.*]] = arith.cmpi sgt
// CHECK: %[[SEEN:.*]] = arith.andi %[[CAUSAL]], %[[RECENT]]
// CHECK: arith.select %[[SEEN]], %{{.*}}, %{{.*}} : f32
// CHECK: %[[P:.*]] = linalg.softmax dimension(3) ins(%[[MASKED]]
// CHECK: %[[SHOWN:.*]] = linalg.generic {{.*}} ins(%[[P]]
// CHECK: %[[VALUES:.*]] = tensor.extract_slice %[[V]][%[[LAYER]], 0, %[[FIRST]], 0]
// CHECK: linalg.generic {{.*}} ins(%[[SHOWN]], %[[VALUES]] : {{.*}} outs(%{{.*}} : tensor<?x2x2x8xf32>)
// CHECK: arith.truncf
// CHECK: tensor.expand_shape %[[INTO]]
// CHECK: bufferization.materialize_in_destination

// CHECK-LABEL: func private @append_prefill
// CHECK-SAME: (%[[O:[^:]*]]: tensor<?x4x8xbf16>, %[[T:[^:]*]]: index, %[[CACHE:[^:]*]]: tensor<2x2x64x8xbf16>, %[[LAYER:[^:]*]]: index, %[[P:[^:]*]]: index)
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %[[O]][0, 0, 0] [%[[T]], 2, 8]
// CHECK: %[[TURNED:.*]] = linalg.generic {{.*}} ins(%[[ROWS]]
// CHECK: %[[NEW:.*]] = tensor.insert_slice %[[TURNED]] into %[[CACHE]][%[[LAYER]], 0, %[[P]], 0] [1, 2, %[[T]], 8]
// CHECK: return %[[NEW]]

// One token sees all keys of the part that is read: nothing is masked.
// CHECK-LABEL: func private @attn_decode
// CHECK: linalg.softmax
// CHECK-NOT: arith.select
// CHECK: return
llama.weight @t : tensor<16x32xbf16> from "t"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<2x2x64x8xbf16>, %v: tensor<2x2x64x8xbf16>)
    -> (tensor<2x2x64x8xbf16>, tensor<2x2x64x8xbf16>) {
  %c1 = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %t = llama.get_weight @t : tensor<16x32xbf16>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<16x32xbf16>
  %q = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 4, 8] : tensor<?x32xbf16> into tensor<?x4x8xbf16>
  %o = llama.kernel "attn" -> tensor<?x4x8xbf16> {
    %0 = llama.gqa %q, %k, %v[%first] at %position {scale = 0.5, causal, window = 16} : tensor<?x4x8xbf16>, tensor<2x2x64x8xbf16>
    llama.yield %0 : tensor<?x4x8xbf16>
  }
  %rows = tensor.extract_slice %o[0, 0, 0] [%n, 2, 8] [1, 1, 1] : tensor<?x4x8xbf16> to tensor<?x2x8xbf16>
  %k1 = llama.kernel "append" -> tensor<2x2x64x8xbf16> {
    %0 = llama.kv_append %rows into %k[%first] at %position : tensor<?x2x8xbf16> into tensor<2x2x64x8xbf16>
    llama.yield %0 : tensor<2x2x64x8xbf16>
  }
  return %k1, %v : tensor<2x2x64x8xbf16>, tensor<2x2x64x8xbf16>
}
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<2x2x64x8xbf16>, %v: tensor<2x2x64x8xbf16>)
    -> (tensor<2x2x64x8xbf16>, tensor<2x2x64x8xbf16>) {
  %t = llama.get_weight @t : tensor<16x32xbf16>
  %x = llama.embed %ids, %t : tensor<1xi32>, tensor<16x32xbf16>
  %q = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 4, 8] : tensor<1x32xbf16> into tensor<1x4x8xbf16>
  %o = llama.kernel "attn" -> tensor<1x4x8xbf16> {
    %0 = llama.gqa %q, %k, %v[%first] at %position {scale = 0.5, window = 16} : tensor<1x4x8xbf16>, tensor<2x2x64x8xbf16>
    llama.yield %0 : tensor<1x4x8xbf16>
  }
  %rows = tensor.extract_slice %o[0, 0, 0] [1, 2, 8] [1, 1, 1] : tensor<1x4x8xbf16> to tensor<1x2x8xbf16>
  %k1 = llama.kernel "append" -> tensor<2x2x64x8xbf16> {
    %0 = llama.kv_append %rows into %k[%first] at %position : tensor<1x2x8xbf16> into tensor<2x2x64x8xbf16>
    llama.yield %0 : tensor<2x2x64x8xbf16>
  }
  return %k1, %v : tensor<2x2x64x8xbf16>, tensor<2x2x64x8xbf16>
}

// -----

// A loop, an append and what leaves a kernel may be written over: a weight
// there is copied first.
// CHECK: func private @same_stays(%[[W:[^:]*]]: tensor<1x8xf32>, %{{.*}}: tensor<1x8xf32>)
// CHECK: %[[LEAVES:.*]] = bufferization.materialize_in_destination %[[W]] in
// CHECK: return
// CHECK-LABEL: func @stays
// CHECK: %[[W:.*]] = call @w()
// CHECK: %[[C:.*]] = call @c()
// CHECK: %[[LOOP:.*]] = bufferization.materialize_in_destination %[[W]] in
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[LOOP]])
// CHECK: %[[TURN:.*]] = bufferization.materialize_in_destination %[[W]] in
// CHECK: scf.yield %[[TURN]]
// CHECK: %[[CACHE:.*]] = bufferization.materialize_in_destination %[[C]] in
// CHECK: tensor.insert_slice %{{.*}} into %[[CACHE]]
llama.weight @w : tensor<1x8xf32> from "w"
llama.weight @c : tensor<1x1x4x8xf32> from "c"
llama.weight @e : tensor<8x8xf32> from "e"
func.func @stays(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = llama.get_weight @w : tensor<1x8xf32>
  %c = llama.get_weight @c : tensor<1x1x4x8xf32>
  %e = llama.get_weight @e : tensor<8x8xf32>
  %x = scf.for %i = %c0 to %c1 step %c1 iter_args(%s = %w) -> tensor<1x8xf32> {
    scf.yield %w : tensor<1x8xf32>
  }
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 1, 8] : tensor<1x8xf32> into tensor<1x1x8xf32>
  %k = llama.kv_append %rows into %c[%c0] at %position : tensor<1x1x8xf32> into tensor<1x1x4x8xf32>
  %a = llama.gqa %rows, %k, %k[%c0] at %position {scale = 1.0} : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>
  %b = tensor.collapse_shape %a [[0], [1, 2]] : tensor<1x1x8xf32> into tensor<1x8xf32>
  %y = llama.kernel "same" -> tensor<1x8xf32> {
    llama.yield %w : tensor<1x8xf32>
  }
  %z = llama.residual %y, %b : tensor<1x8xf32>
  %l = llama.head %z, %e : tensor<1x8xf32>, tensor<8x8xf32>
  return %l : tensor<1x8xf32>
}

// -----

// What ranks sum is f32, flat, and takes the place of a rank's part: the product
// is not rounded before. The bias is added to the sum.
// CHECK-NOT: llama.shards
// CHECK-LABEL: func private @down_decode
// CHECK: %[[PART:.*]] = linalg.generic {{.*}}"reduction"]} {{.*}} outs(%{{.*}} : tensor<1x8xf32>)
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[PART]] {{\[\[}}0, 1]] : tensor<1x8xf32> into tensor<8xf32>
// CHECK: %[[MEMORY:.*]] = bufferization.to_buffer %[[FLAT]] : tensor<8xf32> to memref<8xf32>
// CHECK: %[[ALL:.*]] = mpi.comm_world : !mpi.comm
// CHECK: mpi.allreduce(%[[MEMORY]], %[[MEMORY]], MPI_SUM, %[[ALL]]) : memref<8xf32>, memref<8xf32>
// CHECK: %[[SUM:.*]] = bufferization.to_tensor %[[MEMORY]] restrict writable : memref<8xf32> to tensor<8xf32>
// CHECK: %[[ROWS:.*]] = tensor.expand_shape %[[SUM]] {{\[\[}}0, 1]]
// CHECK: %[[BIASED:.*]] = linalg.generic {{.*}} outs(%[[ROWS]] : tensor<1x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[BIASED]] : tensor<1x8xf32>) outs(%{{.*}} : tensor<1x8xbf16>)
module attributes {llama.shards = 2 : i64} {
  llama.weight @w : tensor<8x4xbf16> from "w" split cols
  llama.weight @b : tensor<8xbf16> from "b"
  llama.weight @e : tensor<16x8xbf16> from "e"
  func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x16xf32> {
    %e = llama.get_weight @e : tensor<16x8xbf16>
    %w = llama.get_weight @w : tensor<8x4xbf16>
    %b = llama.get_weight @b : tensor<8xbf16>
    %x = llama.embed %ids, %e : tensor<1xi32>, tensor<16x8xbf16>
    %h = tensor.extract_slice %x[0, 0] [1, 4] [1, 1] : tensor<1x8xbf16> to tensor<1x4xbf16>
    %r = llama.kernel "down" -> tensor<1x8xbf16> {
      %y = llama.linear %h, %w : tensor<1x4xbf16>, tensor<8x4xbf16>
      %s = llama.all_reduce %y bias(%b : tensor<8xbf16>) : tensor<1x8xbf16>
      %z = llama.residual %x, %s : tensor<1x8xbf16>
      llama.yield %z : tensor<1x8xbf16>
    }
    %l = llama.head %r, %e : tensor<1x8xbf16>, tensor<16x8xbf16>
    return %l : tensor<1x16xf32>
  }
}

// -----

// A norm of all heads together: each rank's squares are summed in a column, ranks
// add the columns, and the mean divides by the numbers of all ranks.
// CHECK-LABEL: func private @norm_decode
// CHECK: %[[OWN:.*]] = linalg.generic {{.*}}"reduction"]} ins(%{{.*}} : tensor<1x8xf32>)
// CHECK: %[[COLUMN:.*]] = tensor.expand_shape %[[OWN]]
// CHECK: tensor.insert_slice %[[COLUMN]] into %{{.*}}[0, 0] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<1x2xf32>
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[0, 1] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<1x2xf32>
// CHECK: mpi.allreduce
// CHECK: tensor.extract_slice %{{.*}}[0, 1] [1, 1] [1, 1] : tensor<1x2xf32> to tensor<1x1xf32>
// CHECK: arith.divf
// CHECK: math.rsqrt
module attributes {llama.shards = 2 : i64} {
  llama.weight @e : tensor<16x8xf32> from "e"
  func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x16xf32> {
    %e = llama.get_weight @e : tensor<16x8xf32>
    %x = llama.embed %ids, %e : tensor<1xi32>, tensor<16x8xf32>
    %n = llama.kernel "norm" -> tensor<1x8xf32> {
      %part = llama.square_sums %x, %x : tensor<1x8xf32>, tensor<1x8xf32>
      %sums = llama.all_reduce %part : tensor<1x2xf32>
      %y = llama.rmsnorm %x squares(%sums : tensor<1x2xf32>) {eps = 1.0e-5, column = 1, size = 16} : tensor<1x8xf32>
      llama.yield %y : tensor<1x8xf32>
    }
    %l = llama.head %n, %e : tensor<1x8xf32>, tensor<16x8xf32>
    return %l : tensor<1x16xf32>
  }
}

// -----

// An elementwise op of arith or math becomes the same op of numbers, into a tensor of its
// own. A constant becomes a number of it. Numbers are not widened.
// CHECK-LABEL: func private @select_prefill
// CHECK-SAME: (%[[X:.*]]: tensor<?x8xbf16>, %{{.*}}: index, %[[INTO:.*]]: tensor<?x8xbf16>)
// CHECK: %[[HALF:.*]] = arith.constant 5.0{{.*}} : bf16
// CHECK: %[[OVER:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<?x8xbf16>) outs(%{{.*}} : tensor<?x8xi1>)
// CHECK: arith.cmpf ogt, %{{.*}}, %[[HALF]] : bf16
// CHECK: linalg.generic {{.*}} ins(%[[OVER]], %[[X]] : tensor<?x8xi1>, tensor<?x8xbf16>)
// CHECK: arith.select %{{.*}}, %{{.*}}, %[[HALF]] : bf16
// CHECK: bufferization.materialize_in_destination %{{.*}} in %[[INTO]]
llama.weight @embed : tensor<16x8xbf16> from "embed"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index)
    -> tensor<?x16xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %half = arith.constant 5.0e-01 : bf16
  %s = tensor.splat %half[%n] : tensor<?x8xbf16>
  %t = llama.get_weight @embed : tensor<16x8xbf16>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xbf16>
  %y = llama.kernel "select" -> tensor<?x8xbf16> {
    %c = arith.cmpf ogt, %x, %s : tensor<?x8xbf16>
    %0 = arith.select %c, %x, %s : tensor<?x8xi1>, tensor<?x8xbf16>
    llama.yield %0 : tensor<?x8xbf16>
  }
  %l = llama.head %y, %t : tensor<?x8xbf16>, tensor<16x8xbf16>
  return %l : tensor<?x16xf32>
}

// -----

// The product of each head reads a slice of the weight in place. What is joined is
// copied into the result. Values are the first numbers of the rows of keys.
// CHECK-DAG: #[[COLUMNS:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d3, d2)>
// CHECK-LABEL: func private @q_prefill
// CHECK-SAME: (%[[W:.*]]: tensor<2x5x4xf32>, %[[X:.*]]: tensor<?x4xf32>, %[[OUT:.*]]: tensor<?x2x12xf32>)
// CHECK: %[[ROWS:.*]] = tensor.extract_slice %[[W]][0, 0, 0] [2, 2, 4]
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[COLUMNS]], #{{.*}}"reduction"]} ins(%{{.*}}, %[[ROWS]] :
// CHECK: %[[COPY:.*]] = linalg.generic {{.*}} ins(%[[Y]]
// CHECK: %[[PART:.*]] = tensor.insert_slice %[[COPY]] into %[[OUT]][0, 0, 0]
// CHECK: tensor.insert_slice %{{.*}} into %[[PART]][0, 0, 4]
// CHECK-LABEL: func private @attn_prefill
// CHECK: %[[KEYS:.*]] = tensor.extract_slice %{{.*}}[%{{.*}}, 0, 0, 0] [1, 1, %[[N:.*]], 12]
// CHECK-SAME: tensor<1x?x12xf32>
// CHECK-NOT: tensor<2x1x64x12xf32>
// CHECK: %[[VALUES:.*]] = tensor.extract_slice %[[KEYS]][0, 0, 0] [1, %[[N]], 8]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[VALUES]] :
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<2x1x64x12xf32>)
    -> (tensor<?x4xf32>, tensor<2x1x64x12xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @table : tensor<4x4xf32>
  %w = llama.get_weight @w : tensor<2x5x4xf32>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<4x4xf32>
  %h = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 2] : tensor<?x4xf32> into tensor<?x2x2xf32>
  %q = llama.kernel "q" -> tensor<?x2x12xf32> {
    %0 = tensor.extract_slice %w[0, 0, 0] [2, 2, 4] [1, 1, 1] : tensor<2x5x4xf32> to tensor<2x2x4xf32>
    %1 = llama.head_linear %h, %0 transposed : tensor<?x2x2xf32>, tensor<2x2x4xf32>
    %2 = tensor.concat dim(2) %1, %1, %1 : (tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x4xf32>) -> tensor<?x2x12xf32>
    llama.yield %2 : tensor<?x2x12xf32>
  }
  %o = llama.kernel "attn" -> tensor<?x2x8xf32> {
    %a = llama.gqa %q, %k, %k[%c0] at %position values 8 {scale = 0.5, causal} : tensor<?x2x12xf32>, tensor<2x1x64x12xf32>
    llama.yield %a : tensor<?x2x8xf32>
  }
  %f = tensor.collapse_shape %o [[0], [1, 2]] : tensor<?x2x8xf32> into tensor<?x16xf32>
  %head = llama.get_weight @head : tensor<4x16xf32>
  %l = llama.head %f, %head : tensor<?x16xf32>, tensor<4x16xf32>
  return %l, %k : tensor<?x4xf32>, tensor<2x1x64x12xf32>
}
llama.weight @table : tensor<4x4xf32> from "t"
llama.weight @w : tensor<2x5x4xf32> from "w"
llama.weight @head : tensor<4x16xf32> from "h"
