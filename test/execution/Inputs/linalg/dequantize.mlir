// y = x W^T, W[n, k] = q[n, k] * scale[n, k / 32]: weights of 8 bits in blocks
// of 32, the last one shorter.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#w = affine_map<(n, k) -> (n, k)>
#block = affine_map<(n, k) -> (n, k floordiv 32)>

func.func private @x() -> tensor<20x80xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @q() -> tensor<29x80xi8> attributes {cria.weight = {slot = 1 : index, source = "q"}}
func.func private @scales() -> tensor<29x3xbf16> attributes {cria.weight = {slot = 2 : index, source = "scales"}}

func.func private @dequantize(%x: tensor<20x80xf32>, %q: tensor<29x80xi8>, %scales: tensor<29x3xbf16>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 80] [1, 1] : tensor<20x80xf32> to tensor<?x80xf32>
  %ew = tensor.empty() : tensor<29x80xf32>
  %w = linalg.generic {indexing_maps = [#w, #block, #w], iterator_types = ["parallel", "parallel"]} ins(%q, %scales : tensor<29x80xi8>, tensor<29x3xbf16>) outs(%ew : tensor<29x80xf32>) {
  ^bb0(%v: i8, %s: bf16, %o: f32):
    %f = arith.sitofp %v : i8 to f32
    %scale = arith.extf %s : bf16 to f32
    %d = arith.mulf %f, %scale : f32
    linalg.yield %d : f32
  } -> tensor<29x80xf32>
  %ye = tensor.empty(%n) : tensor<?x29xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<?x29xf32>) -> tensor<?x29xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x80xf32>, tensor<29x80xf32>) outs(%yz : tensor<?x29xf32>) -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x80xf32>
  %q = call @q() : () -> tensor<29x80xi8>
  %scales = call @scales() : () -> tensor<29x3xbf16>
  %made = call @dequantize(%x, %q, %scales, %tokens, %logits) : (tensor<20x80xf32>, tensor<29x80xi8>, tensor<29x3xbf16>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
