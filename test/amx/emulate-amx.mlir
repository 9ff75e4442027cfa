// The ops of AMX as linalg on buffers, for CPUs without it.
// RUN: %{build}/test/amx/emulate-amx --emulate-amx %s | FileCheck %s

// A tile is a buffer, allocated outside of loops; the products of even and odd k
// are summed separately.
// CHECK-LABEL: func @product
// CHECK-SAME: %[[A:.*]]: memref<4x64x64xbf16>, %[[B:.*]]: memref<16x32xbf16>, %[[C:.*]]: memref<16x16xf32>
// CHECK-COUNT-5: memref.alloca()
// CHECK-NOT: memref.alloca()
// CHECK: linalg.fill
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (memref<16x16xf32>)
// CHECK: %[[TILE:.*]] = memref.subview %[[A]][2, %{{.*}}, 0] [1, 16, 32] [1, 1, 1]
// CHECK: memref.copy %[[TILE]]
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : memref<16x16x2xbf16>, memref<16x16x2xbf16>) outs(%{{.*}} : memref<16x16x2xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : memref<16x16x2xf32>) outs(%{{.*}} : memref<16x16xf32>)
// CHECK: memref.copy
// CHECK-NOT: amx
func.func @product(%a: memref<4x64x64xbf16>, %b: memref<16x32xbf16>, %c: memref<16x16xf32>) {
  %0 = arith.constant 0 : index
  %2 = arith.constant 2 : index
  %16 = arith.constant 16 : index
  %64 = arith.constant 64 : index
  %zero = amx.tile_zero : !amx.tile<16x16xf32>
  %sum = scf.for %i = %0 to %64 step %16 iter_args(%acc = %zero) -> (!amx.tile<16x16xf32>) {
    %x = amx.tile_load %a[%2, %i, %0] : memref<4x64x64xbf16> into !amx.tile<16x32xbf16>
    %y = amx.tile_load %b[%0, %0] : memref<16x32xbf16> into !amx.tile<16x32xbf16>
    %next = amx.tile_mulf %x, %y, %acc : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
    scf.yield %next : !amx.tile<16x16xf32>
  }
  amx.tile_store %c[%0, %0], %sum : memref<16x16xf32>, !amx.tile<16x16xf32>
  return
}
