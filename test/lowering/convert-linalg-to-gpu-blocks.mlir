// RUN: cria-opt --convert-linalg-to-gpu --split-input-file --remarks-filter=.* %s -o %t.mlir 2> %t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Products with matrices in blocks.

#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// A block of threads lays the input out as the weights lie, zeros where these
// have scales. Lanes copy pieces of 16 bytes ahead, from before that on, and
// multiply four bytes at once; of a piece's words some are the next block's.
// CHECK-LABEL: gpu.func @few(
// CHECK: nvgpu.device_async_copy {{.*}}, 16 {bypassL1} : memref<6528xi8> to
// CHECK: nvvm.cp.async.commit.group
// CHECK: vector.store {{.*}} vector<2xi8>
// CHECK: gpu.barrier
// CHECK: nvvm.cp.async.wait.group 3
// CHECK: nvvm.bar.warp.sync
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : {{.*}}, vector<16xi8>
// CHECK-COUNT-4: nvvm.dot.accumulate.4way {{.*}} <signed>, {{.*}} <signed>
// CHECK: arith.select
// CHECK: arith.sitofp {{.*}} : i32 to f32
// CHECK-COUNT-5: gpu.shuffle xor
func.func private @few(%x: tensor<1x8x32xi8>, %dx: tensor<1x8xf16>, %w: tensor<24x8x34xi8>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %e = tensor.empty() : tensor<1x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x24xf32>) -> tensor<1x24xf32>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 32] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<1x8x32xi8>, tensor<1x8xf16>, tensor<24x8x32xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<1x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x24xf32>) outs(%out : tensor<1x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<1x24xf32>
  return %r : tensor<1x24xf32>
}

// -----

#codes = affine_map<(t, n, b, h, j) -> (t, b, h, j)>
#scales = affine_map<(t, n, b, h, j) -> (t, b)>
#bytes = affine_map<(t, n, b, h, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, h, j) -> (n, b)>
#sum = affine_map<(t, n, b, h, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Both halves of bytes have a row of the input each; that a weight is eight less
// than its bits say is a product of the input with -8.
// CHECK-LABEL: gpu.func @few_nibbles(
// CHECK: nvgpu.device_async_copy {{.*}}, 16 {bypassL1} : memref<3456xi8> to
// CHECK: %[[EIGHTS:.*]] = arith.constant -117901064 : i32
// CHECK: %[[OFFSET:.*]] = llvm.bitcast %[[EIGHTS]] : i32 to vector<4xi8>
// CHECK: nvvm.dot.accumulate.4way {{.*}} <signed>, %[[OFFSET]] <signed>
// CHECK: arith.andi {{.*}} : i32
func.func private @few_nibbles(%x: tensor<1x8x32xi8>, %dx: tensor<1x8xf16>, %w: tensor<24x8x18xi8>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %two = arith.constant 2 : i8
  %mask = arith.constant 15 : i8
  %eight = arith.constant 8 : i8
  %e = tensor.empty() : tensor<1x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x24xf32>) -> tensor<1x24xf32>
  %halves = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, 8, 2, 16] : tensor<1x8x32xi8> into tensor<1x8x2x16xi8>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 16] [1, 1, 1] : tensor<24x8x18xi8> to tensor<24x8x16xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x18xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x18xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%halves, %dx, %codes, %low, %high : tensor<1x8x2x16xi8>, tensor<1x8xf16>, tensor<24x8x16xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<1x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %h = linalg.index 3 : index
    %hb = arith.index_cast %h : index to i8
    %shift = arith.shli %hb, %two : i8
    %down = arith.shrui %q, %shift : i8
    %nibble = arith.andi %down, %mask : i8
    %code = arith.subi %nibble, %eight : i8
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %code : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x24xf32>) outs(%out : tensor<1x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<1x24xf32>
  return %r : tensor<1x24xf32>
}

// -----

#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Rows of an odd number of blocks begin at any even byte: lanes read two bytes
// where they lie.
// CHECK-LABEL: gpu.func @few_odd(
// CHECK-SAME: memref<24x3x34xi8> {llvm.noalias, llvm.readonly}
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: vector.load {{.*}} {alignment = 2 : i64} : memref<2448xi8>, vector<2xi8>
// CHECK: nvvm.dot.accumulate.4way
func.func private @few_odd(%x: tensor<1x3x32xi8>, %dx: tensor<1x3xf16>, %w: tensor<24x3x34xi8>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %e = tensor.empty() : tensor<1x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x24xf32>) -> tensor<1x24xf32>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 3, 32] [1, 1, 1] : tensor<24x3x34xi8> to tensor<24x3x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 3, 1] [1, 1, 1] : tensor<24x3x34xi8> to tensor<24x3xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 3, 1] [1, 1, 1] : tensor<24x3x34xi8> to tensor<24x3xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<1x3x32xi8>, tensor<1x3xf16>, tensor<24x3x32xi8>, tensor<24x3xi8>, tensor<24x3xi8>) outs(%z : tensor<1x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x24xf32>) outs(%out : tensor<1x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<1x24xf32>
  return %r : tensor<1x24xf32>
}

// -----

#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Many rows: a product of tensor cores for each block, whose scales multiply its
// sums. Every other block's codes are shifted together from two words.
// CHECK-LABEL: gpu.func @many(
// CHECK: nvgpu.device_async_copy {{.*}}, 16, {{.*}} {bypassL1} : memref<?xi8> to
// CHECK: nvgpu.device_async_copy {{.*}}, 8, {{.*}} : memref<6528xi8> to
// CHECK: nvgpu.device_async_copy {{.*}}, 4, {{.*}} : memref<?xf16> to
// CHECK: nvgpu.ldmatrix {{.*}} -> vector<4x4xi8>
// CHECK: arith.shrui
// CHECK: nvvm.mma.sync {{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 32>
// CHECK: arith.sitofp {{.*}} : i32 to f32
func.func private @many(%x: tensor<?x8x32xi8>, %dx: tensor<?x8xf16>, %w: tensor<24x8x34xi8>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8x32xi8>
  %e = tensor.empty(%n) : tensor<?x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 32] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<?x8x32xi8>, tensor<?x8xf16>, tensor<24x8x32xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<?x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x24xf32>) outs(%out : tensor<?x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<?x24xf32>
  return %r : tensor<?x24xf32>
}

// -----

#codes = affine_map<(t, n, b, h, j) -> (t, b, h, j)>
#scales = affine_map<(t, n, b, h, j) -> (t, b)>
#bytes = affine_map<(t, n, b, h, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, h, j) -> (n, b)>
#sum = affine_map<(t, n, b, h, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Halves of the same bytes are both operands' registers.
// CHECK-LABEL: gpu.func @many_nibbles(
// CHECK: arith.constant 252645135 : i32
// CHECK: arith.xori
// CHECK: nvvm.mma.sync
func.func private @many_nibbles(%x: tensor<?x8x32xi8>, %dx: tensor<?x8xf16>, %w: tensor<24x8x18xi8>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %two = arith.constant 2 : i8
  %mask = arith.constant 15 : i8
  %eight = arith.constant 8 : i8
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8x32xi8>
  %e = tensor.empty(%n) : tensor<?x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
  %halves = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%n, 8, 2, 16] : tensor<?x8x32xi8> into tensor<?x8x2x16xi8>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 16] [1, 1, 1] : tensor<24x8x18xi8> to tensor<24x8x16xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x18xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x18xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%halves, %dx, %codes, %low, %high : tensor<?x8x2x16xi8>, tensor<?x8xf16>, tensor<24x8x16xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<?x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %h = linalg.index 3 : index
    %hb = arith.index_cast %h : index to i8
    %shift = arith.shli %hb, %two : i8
    %down = arith.shrui %q, %shift : i8
    %nibble = arith.andi %down, %mask : i8
    %code = arith.subi %nibble, %eight : i8
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %code : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x24xf32>) outs(%out : tensor<?x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<?x24xf32>
  return %r : tensor<?x24xf32>
}

// -----

#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Rows that do not begin at words cannot be copied for many rows.
// REMARK: no-schedule {{.*}}Function=many_odd {{.*}}Reason="many rows are multiplied with rows of an odd number of blocks"
// CHECK-NOT: @many_odd.launch
func.func private @many_odd(%x: tensor<?x3x32xi8>, %dx: tensor<?x3xf16>, %w: tensor<24x3x34xi8>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x3x32xi8>
  %e = tensor.empty(%n) : tensor<?x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 3, 32] [1, 1, 1] : tensor<24x3x34xi8> to tensor<24x3x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 3, 1] [1, 1, 1] : tensor<24x3x34xi8> to tensor<24x3xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 3, 1] [1, 1, 1] : tensor<24x3x34xi8> to tensor<24x3xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<?x3x32xi8>, tensor<?x3xf16>, tensor<24x3x32xi8>, tensor<24x3xi8>, tensor<24x3xi8>) outs(%z : tensor<?x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x24xf32>) outs(%out : tensor<?x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<?x24xf32>
  return %r : tensor<?x24xf32>
}

// -----

#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#all = affine_map<(t, b, j) -> (t, b, j)>
#id = affine_map<(t, n) -> (t, n)>

// An input that is made of another product is stored by a launch, and laid out
// from memory.
// CHECK-LABEL: func.func private @computed.launch(
// CHECK: %[[CODES:.*]] = memref.alloc() : memref<1x8x32xi8>
// CHECK: gpu.launch_func @kernels::@computed_input {{.*}} %[[CODES]] : memref<1x8x32xi8>)
// CHECK: gpu.launch_func @kernels::@computed blocks {{.*}} %[[CODES]] : memref<1x8x32xi8>, %arg2 : memref<1x8xf16>
// CHECK-LABEL: gpu.func @computed(
// CHECK: nvvm.dot.accumulate.4way
func.func private @computed(%y: tensor<1x32xf32>, %before_w: tensor<256x32xf32>, %dx: tensor<1x8xf16>, %w: tensor<24x8x34xi8>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %ep = tensor.empty() : tensor<1x256xf32>
  %zp = linalg.fill ins(%zero : f32) outs(%ep : tensor<1x256xf32>) -> tensor<1x256xf32>
  %before = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%y, %before_w : tensor<1x32xf32>, tensor<256x32xf32>) outs(%zp : tensor<1x256xf32>) -> tensor<1x256xf32>
  %blocks = tensor.expand_shape %before [[0], [1, 2]] output_shape [1, 8, 32] : tensor<1x256xf32> into tensor<1x8x32xf32>
  %ex = tensor.empty() : tensor<1x8x32xi8>
  %x = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%blocks : tensor<1x8x32xf32>) outs(%ex : tensor<1x8x32xi8>) {
  ^bb0(%number: f32, %o: i8):
    %rounded = arith.fptosi %number : f32 to i8
    linalg.yield %rounded : i8
  } -> tensor<1x8x32xi8>
  %e = tensor.empty() : tensor<1x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x24xf32>) -> tensor<1x24xf32>
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 32] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<1x8x32xi8>, tensor<1x8xf16>, tensor<24x8x32xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<1x24xf32>) {
  ^bb0(%a: i8, %da: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x24xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x24xf32>) outs(%out : tensor<1x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<1x24xf32>
  return %r : tensor<1x24xf32>
}

// -----

#choice = affine_map<(t, s, n, b, j) -> (t, s)>
#codes = affine_map<(t, s, n, b, j) -> (t, s, b, j)>
#scales = affine_map<(t, s, n, b, j) -> (t, s, b)>
#sum = affine_map<(t, s, n, b, j) -> (t, s, n)>

// A row that chooses its matrices, with codes of its own for each choice: the
// block has the codes of both, and weights are asked for by the chosen number.
// CHECK-LABEL: gpu.func @chosen(
// CHECK: memref.load {{.*}} : memref<2xi32>
// CHECK: nvgpu.device_async_copy {{.*}}, 16 {bypassL1} : memref<26112xi8> to
// CHECK: gpu.barrier
// CHECK: nvvm.dot.accumulate.4way {{.*}} <signed>, {{.*}} <signed>
func.func private @chosen(%x: tensor<1x2x8x32xi8>, %dx: tensor<1x2x8xf16>, %e: tensor<1x2xi32>, %w: tensor<4x24x8x34xi8>, %out: tensor<1x2x24xf32>) -> tensor<1x2x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : i16
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1x2x24xf32>) -> tensor<1x2x24xf32>
  %p = linalg.generic {indexing_maps = [#choice, #codes, #scales, #sum], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%e, %x, %dx : tensor<1x2xi32>, tensor<1x2x8x32xi8>, tensor<1x2x8xf16>) outs(%z : tensor<1x2x24xf32>) {
  ^bb0(%number: i32, %a: i8, %da: f16, %acc: f32):
    %expert = arith.index_cast %number : i32 to index
    %n = linalg.index 2 : index
    %b = linalg.index 3 : index
    %j = linalg.index 4 : index
    %byte = arith.addi %j, %c2 : index
    %q = tensor.extract %w[%expert, %n, %b, %byte] : tensor<4x24x8x34xi8>
    %lo = tensor.extract %w[%expert, %n, %b, %c0] : tensor<4x24x8x34xi8>
    %hi = tensor.extract %w[%expert, %n, %b, %c1] : tensor<4x24x8x34xi8>
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x2x24xf32>
  return %p : tensor<1x2x24xf32>
}

// -----

#choice = affine_map<(t, s, n, b, j) -> (t, s)>
#codes = affine_map<(t, s, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, s, n, b, j) -> (t, b)>
#sum = affine_map<(t, s, n, b, j) -> (t, s, n)>

// Many rows that choose: tiles have rows of one matrix.
// CHECK-LABEL: func.func private @many_chosen.launch(
// CHECK: gpu.launch_func @kernels::@many_chosen_groups
// CHECK: gpu.launch_func @kernels::@many_chosen blocks
// CHECK: gpu.func @many_chosen(
// CHECK: nvvm.mma.sync {{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 32>
func.func private @many_chosen(%x: tensor<?x8x32xi8>, %dx: tensor<?x8xf16>, %e: tensor<?x2xi32>, %w: tensor<4x24x8x34xi8>, %out: tensor<?x2x24xf32>) -> tensor<?x2x24xf32> attributes {cria.chunk = 64 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : i16
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<?x2x24xf32>) -> tensor<?x2x24xf32>
  %p = linalg.generic {indexing_maps = [#choice, #codes, #scales, #sum], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%e, %x, %dx : tensor<?x2xi32>, tensor<?x8x32xi8>, tensor<?x8xf16>) outs(%z : tensor<?x2x24xf32>) {
  ^bb0(%number: i32, %a: i8, %da: f16, %acc: f32):
    %expert = arith.index_cast %number : i32 to index
    %n = linalg.index 2 : index
    %b = linalg.index 3 : index
    %j = linalg.index 4 : index
    %byte = arith.addi %j, %c2 : index
    %q = tensor.extract %w[%expert, %n, %b, %byte] : tensor<4x24x8x34xi8>
    %lo = tensor.extract %w[%expert, %n, %b, %c0] : tensor<4x24x8x34xi8>
    %hi = tensor.extract %w[%expert, %n, %b, %c1] : tensor<4x24x8x34xi8>
    %fa = arith.sitofp %a : i8 to f32
    %fda = arith.extf %da : f16 to f32
    %xa = arith.mulf %fa, %fda fastmath<reassoc> : f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %wq = arith.mulf %fq, %scale fastmath<reassoc> : f32
    %term = arith.mulf %xa, %wq fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?x2x24xf32>
  return %p : tensor<?x2x24xf32>
}

// -----

#x = affine_map<(t, n, b, j) -> (t, b, j)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Widened weights: their bytes are copied as they lie, 16 at once. A lane takes
// the bytes that it multiplies, places each in an f32, takes the bias off,
// scales and rounds it, two numbers for each register of a product in 16 bits.
// CHECK-LABEL: gpu.func @widened(
// CHECK: nvgpu.device_async_copy {{.*}}, 16 {bypassL1} : memref<17408xi8> to
// CHECK: nvvm.cp.async.wait.group
// CHECK: vector.load {{.*}} {alignment = 2 : i64} : {{.*}}, vector<2xi8>
// CHECK: nvvm.prmt <default>
// CHECK: arith.constant -3.289600e+04 : f32
// CHECK: nvvm.prmt <default>
// CHECK: %[[BASED:.*]] = llvm.bitcast %{{.*}} : i32 to f32
// CHECK: math.fma %[[BASED]], {{.*}} : f32
// CHECK: arith.truncf {{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK: nvgpu.ldmatrix
// CHECK: nvvm.mma.sync {{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @widened(%x: tensor<20x256xbf16>, %w: tensor<64x8x34xi8>, %out: tensor<20x64xf32>) -> tensor<20x64xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %e = tensor.empty() : tensor<20x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<20x64xf32>) -> tensor<20x64xf32>
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [20, 8, 32] : tensor<20x256xbf16> into tensor<20x8x32xbf16>
  %codes = tensor.extract_slice %w[0, 0, 2] [64, 8, 32] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %p = linalg.generic {indexing_maps = [#x, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : tensor<20x8x32xbf16>, tensor<64x8x32xi8>, tensor<64x8xi8>, tensor<64x8xi8>) outs(%z : tensor<20x64xf32>) {
  ^bb0(%a: bf16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %wide = arith.extf %a : bf16 to f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %number = arith.mulf %fq, %scale : f32
    %rounded = arith.truncf %number : f32 to bf16
    %factor = arith.extf %rounded : bf16 to f32
    %term = arith.mulf %wide, %factor fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<20x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<20x64xf32>) outs(%out : tensor<20x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<20x64xf32>
  return %r : tensor<20x64xf32>
}

// -----

#x = affine_map<(t, n, b, j) -> (t, b, j)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Floats that become f16: a product of two rounds them.
// CHECK-LABEL: gpu.func @widened_floats(
// CHECK: nvvm.prmt <default>
// CHECK: arith.shrui
// CHECK: arith.mulf {{.*}} : vector<2xf16>
// CHECK: nvvm.mma.sync {{.*}} shape = #nvvm.shape<m = 16, n = 8, k = 16>
func.func private @widened_floats(%x: tensor<20x256xf16>, %w: tensor<64x8x34xi8>, %out: tensor<20x64xf32>) -> tensor<20x64xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %c7 = arith.constant 7 : i16
  %mask = arith.constant -16385 : i16
  %e = tensor.empty() : tensor<20x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<20x64xf32>) -> tensor<20x64xf32>
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [20, 8, 32] : tensor<20x256xf16> into tensor<20x8x32xf16>
  %codes = tensor.extract_slice %w[0, 0, 2] [64, 8, 32] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %p = linalg.generic {indexing_maps = [#x, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : tensor<20x8x32xf16>, tensor<64x8x32xi8>, tensor<64x8xi8>, tensor<64x8xi8>) outs(%z : tensor<20x64xf32>) {
  ^bb0(%a: f16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %wide = arith.extf %a : f16 to f32
    %signed = arith.extsi %q : i8 to i16
    %shifted = arith.shli %signed, %c7 : i16
    %bits = arith.andi %shifted, %mask : i16
    %part = arith.bitcast %bits : i16 to f16
    %code = arith.extf %part : f16 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %number = arith.mulf %code, %scale : f32
    %rounded = arith.truncf %number : f32 to f16
    %factor = arith.extf %rounded : f16 to f32
    %term = arith.mulf %wide, %factor fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<20x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<20x64xf32>) outs(%out : tensor<20x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<20x64xf32>
  return %r : tensor<20x64xf32>
}

// -----

#x = affine_map<(t, n, b, j) -> (t, b, j)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Floats and one row: the input lies in 16 bits where it meets the weights. A
// word's products are added in f32, and its block's scale multiplies the sum.
// CHECK-LABEL: gpu.func @few_floats(
// CHECK: nvgpu.device_async_copy {{.*}}, 16 {bypassL1} : memref<17408xi8> to
// CHECK: vector.store {{.*}} vector<2xbf16>
// CHECK: gpu.barrier
// CHECK: nvvm.cp.async.wait.group 3
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : {{.*}}, vector<16xi8>
// CHECK: vector.load {{.*}} {alignment = 16 : i64} : {{.*}}, vector<8xbf16>
// CHECK: llvm.bitcast {{.*}} : i32 to vector<2xf16>
// CHECK: arith.select
// CHECK: math.fma
// CHECK-NOT: arith.truncf {{.*}} to vector<2xbf16>
// CHECK: gpu.shuffle xor
func.func private @few_floats(%x: tensor<1x256xbf16>, %w: tensor<64x8x34xi8>, %out: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %c7 = arith.constant 7 : i16
  %mask = arith.constant -16385 : i16
  %e = tensor.empty() : tensor<1x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x64xf32>) -> tensor<1x64xf32>
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 8, 32] : tensor<1x256xbf16> into tensor<1x8x32xbf16>
  %codes = tensor.extract_slice %w[0, 0, 2] [64, 8, 32] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %p = linalg.generic {indexing_maps = [#x, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : tensor<1x8x32xbf16>, tensor<64x8x32xi8>, tensor<64x8xi8>, tensor<64x8xi8>) outs(%z : tensor<1x64xf32>) {
  ^bb0(%a: bf16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %wide = arith.extf %a : bf16 to f32
    %signed = arith.extsi %q : i8 to i16
    %shifted = arith.shli %signed, %c7 : i16
    %bits = arith.andi %shifted, %mask : i16
    %part = arith.bitcast %bits : i16 to f16
    %code = arith.extf %part : f16 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %number = arith.mulf %code, %scale fastmath<reassoc> : f32
    %term = arith.mulf %wide, %number fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x64xf32>) outs(%out : tensor<1x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<1x64xf32>
  return %r : tensor<1x64xf32>
}

// -----

#x = affine_map<(t, n, b, j) -> (t, b, j)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Tensor cores would round them.
// REMARK: no-schedule {{.*}}Function=many_floats {{.*}}Reason="many rows are multiplied with floats in blocks that are not rounded"
// CHECK-NOT: @many_floats.launch
func.func private @many_floats(%x: tensor<20x256xbf16>, %w: tensor<64x8x34xi8>, %out: tensor<20x64xf32>) -> tensor<20x64xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %c7 = arith.constant 7 : i16
  %mask = arith.constant -16385 : i16
  %e = tensor.empty() : tensor<20x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<20x64xf32>) -> tensor<20x64xf32>
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [20, 8, 32] : tensor<20x256xbf16> into tensor<20x8x32xbf16>
  %codes = tensor.extract_slice %w[0, 0, 2] [64, 8, 32] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %p = linalg.generic {indexing_maps = [#x, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : tensor<20x8x32xbf16>, tensor<64x8x32xi8>, tensor<64x8xi8>, tensor<64x8xi8>) outs(%z : tensor<20x64xf32>) {
  ^bb0(%a: bf16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %wide = arith.extf %a : bf16 to f32
    %signed = arith.extsi %q : i8 to i16
    %shifted = arith.shli %signed, %c7 : i16
    %bits = arith.andi %shifted, %mask : i16
    %part = arith.bitcast %bits : i16 to f16
    %code = arith.extf %part : f16 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %number = arith.mulf %code, %scale fastmath<reassoc> : f32
    %term = arith.mulf %wide, %number fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<20x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<20x64xf32>) outs(%out : tensor<20x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<20x64xf32>
  return %r : tensor<20x64xf32>
}
