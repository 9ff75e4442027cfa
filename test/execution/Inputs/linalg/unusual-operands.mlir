// Operands that schedules do not take for granted, side by side: columns of x and
// of weights with a stride; weights of two types; a row that is not the first; a
// statistic that reads one; entries of a table.
#id = affine_map<(t, n) -> (t, n)>
#t = affine_map<(t, n) -> (t)>
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

func.func private @x() -> tensor<20x64xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<37x20xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}
func.func private @u() -> tensor<37x40xf32> attributes {cria.weight = {slot = 2 : index, source = "u"}}
func.func private @h() -> tensor<37x20xbf16> attributes {cria.weight = {slot = 3 : index, source = "h"}}
func.func private @codes() -> tensor<20x32xi8> attributes {cria.weight = {slot = 4 : index, source = "codes"}}
func.func private @entries() -> tensor<256xf32> attributes {cria.weight = {slot = 5 : index, source = "entries"}}

func.func private @unusual_operands(%x: tensor<20x64xf32>, %w: tensor<37x20xf32>, %u: tensor<37x40xf32>, %h: tensor<37x20xbf16>, %codes: tensor<20x32xi8>, %entries: tensor<256xf32>, %n: index, %out: tensor<20x175xf32>) -> tensor<20x175xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 64.0 : f32
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>

  // x[:, 1:61:3] W^T + x[:, :20] U[:, ::2]^T
  %thirds = tensor.extract_slice %x[0, 1] [%n, 20] [1, 3] : tensor<20x64xf32> to tensor<?x20xf32>
  %left = tensor.extract_slice %x[0, 0] [%n, 20] [1, 1] : tensor<20x64xf32> to tensor<?x20xf32>
  %even = tensor.extract_slice %u[0, 0] [37, 20] [1, 2] : tensor<37x40xf32> to tensor<37x20xf32>
  %a = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%thirds, %w : tensor<?x20xf32>, tensor<37x20xf32>) outs(%z : tensor<?x37xf32>) -> tensor<?x37xf32>
  %b = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%left, %even : tensor<?x20xf32>, tensor<37x20xf32>) outs(%z : tensor<?x37xf32>) -> tensor<?x37xf32>
  %ab = linalg.add ins(%a, %b : tensor<?x37xf32>, tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %0 = tensor.insert_slice %ab into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x175xf32>

  // x[:, :20] W^T times x[:, :20] H^T
  %c = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%left, %w : tensor<?x20xf32>, tensor<37x20xf32>) outs(%z : tensor<?x37xf32>) -> tensor<?x37xf32>
  %d = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%left, %h : tensor<?x20xf32>, tensor<37x20xbf16>) outs(%z : tensor<?x37xf32>) -> tensor<?x37xf32>
  %cd = linalg.mul ins(%c, %d : tensor<?x37xf32>, tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %1 = tensor.insert_slice %cd into %0[0, 37] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x175xf32>

  // x[:, :32] / sum (x - sum x / 64)^2: the terms of one sum read the other one.
  %rows = tensor.extract_slice %x[0, 0] [%n, 64] [1, 1] : tensor<20x64xf32> to tensor<?x64xf32>
  %es = tensor.empty(%n) : tensor<?xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#id, #t], iterator_types = ["parallel", "reduction"]} ins(%rows : tensor<?x64xf32>) outs(%zs : tensor<?xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %next = arith.addf %acc, %v fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  %squares = linalg.generic {indexing_maps = [#id, #t, #t], iterator_types = ["parallel", "reduction"]} ins(%rows, %sum : tensor<?x64xf32>, tensor<?xf32>) outs(%zs : tensor<?xf32>) {
  ^bb0(%v: f32, %s: f32, %acc: f32):
    %mean = arith.divf %s, %count : f32
    %off = arith.subf %v, %mean : f32
    %square = arith.mulf %off, %off : f32
    %next = arith.addf %acc, %square fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  %first = tensor.extract_slice %x[0, 0] [%n, 32] [1, 1] : tensor<20x64xf32> to tensor<?x32xf32>
  %f = tensor.empty(%n) : tensor<?x32xf32>
  %norm = linalg.generic {indexing_maps = [#id, #t, #id], iterator_types = ["parallel", "parallel"]} ins(%first, %squares : tensor<?x32xf32>, tensor<?xf32>) outs(%f : tensor<?x32xf32>) {
  ^bb0(%v: f32, %s: f32, %o: f32):
    %q = arith.divf %v, %s : f32
    linalg.yield %q : f32
  } -> tensor<?x32xf32>
  %2 = tensor.insert_slice %norm into %1[0, 74] [%n, 32] [1, 1] : tensor<?x32xf32> into tensor<20x175xf32>

  // entries[codes]
  %some = tensor.extract_slice %codes[0, 0] [%n, 32] [1, 1] : tensor<20x32xi8> to tensor<?x32xi8>
  %read = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%some : tensor<?x32xi8>) outs(%f : tensor<?x32xf32>) {
  ^bb0(%code: i8, %o: f32):
    %i = arith.index_castui %code : i8 to index
    %entry = tensor.extract %entries[%i] : tensor<256xf32>
    linalg.yield %entry : f32
  } -> tensor<?x32xf32>
  %3 = tensor.insert_slice %read into %2[0, 106] [%n, 32] [1, 1] : tensor<?x32xf32> into tensor<20x175xf32>

  // Row 2 of |x[:4, :20]| W^T, in row 0.
  %four = tensor.extract_slice %x[0, 0] [4, 20] [1, 1] : tensor<20x64xf32> to tensor<4x20xf32>
  %g = tensor.empty() : tensor<4x20xf32>
  %abs = linalg.abs ins(%four : tensor<4x20xf32>) outs(%g : tensor<4x20xf32>) -> tensor<4x20xf32>
  %l = tensor.empty() : tensor<4x37xf32>
  %zl = linalg.fill ins(%zero : f32) outs(%l : tensor<4x37xf32>) -> tensor<4x37xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%abs, %w : tensor<4x20xf32>, tensor<37x20xf32>) outs(%zl : tensor<4x37xf32>) -> tensor<4x37xf32>
  %third = tensor.extract_slice %y[2, 0] [1, 37] [1, 1] : tensor<4x37xf32> to tensor<1x37xf32>
  %4 = tensor.insert_slice %third into %3[0, 138] [1, 37] [1, 1] : tensor<1x37xf32> into tensor<20x175xf32>
  return %4 : tensor<20x175xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x175xf32>) -> tensor<20x175xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x64xf32>
  %w = call @w() : () -> tensor<37x20xf32>
  %u = call @u() : () -> tensor<37x40xf32>
  %h = call @h() : () -> tensor<37x20xbf16>
  %codes = call @codes() : () -> tensor<20x32xi8>
  %entries = call @entries() : () -> tensor<256xf32>
  %made = call @unusual_operands(%x, %w, %u, %h, %codes, %entries, %tokens, %logits) : (tensor<20x64xf32>, tensor<37x20xf32>, tensor<37x40xf32>, tensor<37x20xbf16>, tensor<20x32xi8>, tensor<256xf32>, index, tensor<20x175xf32>) -> tensor<20x175xf32>
  return %made : tensor<20x175xf32>
}
