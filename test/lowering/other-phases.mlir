// Passes leave alone what is not of their phase, and say what they cannot do.
// RUN: cria-opt --lower-contractions --split-input-file %s | FileCheck %s --check-prefix=TENSORS
// RUN: cria-opt --lower-linalg-to-loops --split-input-file %s | FileCheck %s --check-prefix=COPIES
// RUN: cria-opt --convert-linalg-to-gpu --split-input-file --remarks-filter=.* %s 2>&1 >%t | FileCheck %s --check-prefix=SIZES
// RUN: not cria-opt --decompose-softmax --split-input-file %s 2>&1 | FileCheck %s --check-prefix=SOFTMAX

#codes = affine_map<(t, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, n, b, j) -> (t, b)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>

// A product of blocks, of tensors still.
// TENSORS-LABEL: func private @blocks
// TENSORS: linalg.generic
func.func private @blocks(%x: tensor<4x8x32xi8>, %dx: tensor<4x8xf16>, %w: tensor<24x8x34xi8>, %z: tensor<4x24xf32>) -> tensor<4x24xf32> {
  %c8 = arith.constant 8 : i16
  %codes = tensor.extract_slice %w[0, 0, 2] [24, 8, 32] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [24, 8, 1] [1, 1, 1] : tensor<24x8x34xi8> to tensor<24x8xi8>
  %p = linalg.generic {indexing_maps = [#codes, #scales, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %dx, %codes, %low, %high : tensor<4x8x32xi8>, tensor<4x8xf16>, tensor<24x8x32xi8>, tensor<24x8xi8>, tensor<24x8xi8>) outs(%z : tensor<4x24xf32>) {
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
  } -> tensor<4x24xf32>
  return %p : tensor<4x24xf32>
}

// -----

// Copies become loops although nothing else in the module is of linalg. Those of
// unknown rank stay.
// COPIES-LABEL: func @copies
// COPIES: memref.copy %{{.*}}, %{{.*}} : memref<*xf32> to memref<*xf32>
// COPIES: scf.for
func.func @copies(%a: memref<*xf32>, %b: memref<*xf32>, %c: memref<4xf32>, %d: memref<4xf32>) {
  memref.copy %a, %b : memref<*xf32> to memref<*xf32>
  memref.copy %c, %d : memref<4xf32> to memref<4xf32>
  return
}

// -----

// A tensor has no dimension 7: its size is undefined.
// SIZES: Function=undefined {{.*}}Reason="it reads a size of no known dimension"
func.func private @undefined(%x: tensor<?x64xf32>, %w: tensor<32x64xf32>, %out: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {cria.chunk = 8 : index} {
  %c7 = arith.constant 7 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c7 : tensor<?x64xf32>
  %e = tensor.empty(%n) : tensor<?x32xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x32xf32>) -> tensor<?x32xf32>
  %p = linalg.matmul indexing_maps = [affine_map<(t, n, k) -> (t, k)>, affine_map<(t, n, k) -> (n, k)>, affine_map<(t, n, k) -> (t, n)>]
      ins(%x, %w : tensor<?x64xf32>, tensor<32x64xf32>) outs(%z : tensor<?x32xf32>) -> tensor<?x32xf32>
  return %p : tensor<?x32xf32>
}

// -----

// SIZES: Function=empty {{.*}}Reason="a tensor has no elements"
func.func private @empty(%x: tensor<1x64xf32>, %w: tensor<0x64xf32>, %out: tensor<1x0xf32>) -> tensor<1x0xf32> attributes {cria.chunk = 8 : index} {
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%out : tensor<1x0xf32>) -> tensor<1x0xf32>
  %p = linalg.matmul indexing_maps = [affine_map<(t, n, k) -> (t, k)>, affine_map<(t, n, k) -> (n, k)>, affine_map<(t, n, k) -> (t, n)>]
      ins(%x, %w : tensor<1x64xf32>, tensor<0x64xf32>) outs(%z : tensor<1x0xf32>) -> tensor<1x0xf32>
  return %p : tensor<1x0xf32>
}

// -----

// SOFTMAX: error: 'linalg.softmax' op expected a softmax of floats, got 'tensor<4x8xi8>'
func.func private @integers(%x: tensor<4x8xi8>, %y: tensor<4x8xi8>) -> tensor<4x8xi8> {
  %0 = linalg.softmax dimension(1) ins(%x : tensor<4x8xi8>) outs(%y : tensor<4x8xi8>) -> tensor<4x8xi8>
  return %0 : tensor<4x8xi8>
}
