// Attention whose softmax has one more score for each head, a sink that no
// value belongs to.
#room = affine_map<()[p, n] -> (p + n, 48)>
#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#head = affine_map<(h, g, t) -> (h, g)>
#row = affine_map<(h, g, t) -> (h, g, t)>

func.func private @query() -> tensor<20x2x3x10xf32> attributes {cria.weight = {slot = 0 : index, source = "query"}}
func.func private @sinks() -> tensor<2x3xf32> attributes {cria.weight = {slot = 1 : index, source = "sinks"}}

func.func private @attention_sink(%query: tensor<20x2x3x10xf32>, %sinks: tensor<2x3xf32>, %n: index, %position: index, %keys: tensor<2x2x48x10xf32>, %values: tensor<2x2x48x10xf32>, %out: tensor<20x60xf32>) -> tensor<20x60xf32> attributes {cria.chunk = 20 : index} {
  %one = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %len = affine.min #room()[%position, %n]
  %q = tensor.extract_slice %query[0, 0, 0, 0] [%n, 2, 3, 10] [1, 1, 1, 1] : tensor<20x2x3x10xf32> to tensor<?x2x3x10xf32>
  %k = tensor.extract_slice %keys[1, 0, 0, 0] [1, 2, %len, 10] [1, 1, 1, 1] : tensor<2x2x48x10xf32> to tensor<2x?x10xf32>
  %e = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x3x10xf32>, tensor<2x?x10xf32>) outs(%z : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %e1 = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %masked = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x?x?xf32>) outs(%e1 : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %p = arith.addi %position, %t : index
    %seen = arith.cmpi sle, %s, %p : index
    %y = arith.select %seen, %x, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %ec = tensor.empty(%n) : tensor<2x3x?xf32>
  %column = linalg.generic {indexing_maps = [#head, #row], iterator_types = ["parallel", "parallel", "parallel"]} ins(%sinks : tensor<2x3xf32>) outs(%ec : tensor<2x3x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<2x3x?xf32>
  %wide = arith.addi %len, %one : index
  %ew = tensor.empty(%n, %wide) : tensor<2x3x?x?xf32>
  %with_scores = tensor.insert_slice %masked into %ew[0, 0, 0, 0] [2, 3, %n, %len] [1, 1, 1, 1] : tensor<2x3x?x?xf32> into tensor<2x3x?x?xf32>
  %with_sink = tensor.insert_slice %column into %with_scores[0, 0, 0, %len] [2, 3, %n, 1] [1, 1, 1, 1] : tensor<2x3x?xf32> into tensor<2x3x?x?xf32>
  %e2 = tensor.empty(%n, %wide) : tensor<2x3x?x?xf32>
  %with = linalg.softmax dimension(3) ins(%with_sink : tensor<2x3x?x?xf32>) outs(%e2 : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %soft = tensor.extract_slice %with[0, 0, 0, 0] [2, 3, %n, %len] [1, 1, 1, 1] : tensor<2x3x?x?xf32> to tensor<2x3x?x?xf32>
  %e3 = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %shown = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x3x?x?xf32>) outs(%e3 : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %p = arith.addi %position, %t : index
    %seen = arith.cmpi sle, %s, %p : index
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %v = tensor.extract_slice %values[1, 0, 0, 0] [1, 2, %len, 10] [1, 1, 1, 1] : tensor<2x2x48x10xf32> to tensor<2x?x10xf32>
  %eo = tensor.empty(%n) : tensor<?x2x3x10xf32>
  %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<?x2x3x10xf32>) -> tensor<?x2x3x10xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%shown, %v : tensor<2x3x?x?xf32>, tensor<2x?x10xf32>) outs(%zo : tensor<?x2x3x10xf32>) -> tensor<?x2x3x10xf32>
  %y = tensor.collapse_shape %pv [[0], [1, 2, 3]] : tensor<?x2x3x10xf32> into tensor<?x60xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 60] [1, 1] : tensor<?x60xf32> into tensor<20x60xf32>
  return %all : tensor<20x60xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x60xf32>, %keys: tensor<2x2x48x10xf32>, %values: tensor<2x2x48x10xf32>) -> (tensor<20x60xf32>, tensor<2x2x48x10xf32>, tensor<2x2x48x10xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache"], cria.chunk = 20 : index} {
  %query = call @query() : () -> tensor<20x2x3x10xf32>
  %sinks = call @sinks() : () -> tensor<2x3xf32>
  %made = call @attention_sink(%query, %sinks, %tokens, %position, %keys, %values, %logits) : (tensor<20x2x3x10xf32>, tensor<2x3xf32>, index, index, tensor<2x2x48x10xf32>, tensor<2x2x48x10xf32>, tensor<20x60xf32>) -> tensor<20x60xf32>
  return %made, %keys, %values : tensor<20x60xf32>, tensor<2x2x48x10xf32>, tensor<2x2x48x10xf32>
}
