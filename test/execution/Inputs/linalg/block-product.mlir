// A product with a matrix in blocks, made here: an f16 and 32 integers of 8 bits.
#t = affine_map<(t, n, b, j) -> (t, b, j)>
#ts = affine_map<(t, n, b, j) -> (t, b)>
#n = affine_map<(t, n, b, j) -> (n, b, j)>
#ns = affine_map<(t, n, b, j) -> (n, b)>
#tn = affine_map<(t, n, b, j) -> (t, n)>

func.func private @x() -> tensor<20x3x32xi8> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @scales() -> tensor<20x3xf16> attributes {cria.weight = {slot = 1 : index, source = "scales"}}
func.func private @w() -> tensor<29x3x32xi8> attributes {cria.weight = {slot = 2 : index, source = "w"}}

func.func private @block_product(%x: tensor<20x3x32xi8>, %scales: tensor<20x3xf16>, %w: tensor<29x3x32xi8>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %eight = arith.constant 8 : i16
  // Twice this byte is the f16 0.0965576171875.
  %byte = arith.constant 46 : i8
  %empty = tensor.empty() : tensor<29x3x34xi8>
  %bytes = linalg.fill ins(%byte : i8) outs(%empty : tensor<29x3x34xi8>) -> tensor<29x3x34xi8>
  %blocks = tensor.insert_slice %w into %bytes[0, 0, 2] [29, 3, 32] [1, 1, 1] : tensor<29x3x32xi8> into tensor<29x3x34xi8>
  %codes = tensor.extract_slice %blocks[0, 0, 2] [29, 3, 32] [1, 1, 1] : tensor<29x3x34xi8> to tensor<29x3x32xi8>
  %low = tensor.extract_slice %blocks[0, 0, 0] [29, 3, 1] [1, 1, 1] : tensor<29x3x34xi8> to tensor<29x3xi8>
  %high = tensor.extract_slice %blocks[0, 0, 1] [29, 3, 1] [1, 1, 1] : tensor<29x3x34xi8> to tensor<29x3xi8>
  %rows = tensor.extract_slice %x[0, 0, 0] [%n, 3, 32] [1, 1, 1] : tensor<20x3x32xi8> to tensor<?x3x32xi8>
  %rowScales = tensor.extract_slice %scales[0, 0] [%n, 3] [1, 1] : tensor<20x3xf16> to tensor<?x3xf16>
  %ye = tensor.empty(%n) : tensor<?x29xf32>
  %yz = linalg.fill ins(%zero : f32) outs(%ye : tensor<?x29xf32>) -> tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#t, #ts, #n, #ns, #ns, #tn], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %rowScales, %codes, %low, %high : tensor<?x3x32xi8>, tensor<?x3xf16>, tensor<29x3x32xi8>, tensor<29x3xi8>, tensor<29x3xi8>) outs(%yz : tensor<?x29xf32>) {
  ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
    %l16 = arith.extui %l : i8 to i16
    %h16 = arith.extui %h : i8 to i16
    %shifted = arith.shli %h16, %eight : i16
    %bits = arith.ori %l16, %shifted : i16
    %half = arith.bitcast %bits : i16 to f16
    %ws = arith.extf %half : f16 to f32
    %xs = arith.extf %as : f16 to f32
    %bf = arith.sitofp %b : i8 to f32
    %af = arith.sitofp %a : i8 to f32
    %wf = arith.mulf %bf, %ws fastmath<reassoc> : f32
    %xf = arith.mulf %af, %xs fastmath<reassoc> : f32
    %p = arith.mulf %xf, %wf fastmath<reassoc> : f32
    %s = arith.addf %acc, %p fastmath<reassoc> : f32
    linalg.yield %s : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x3x32xi8>
  %scales = call @scales() : () -> tensor<20x3xf16>
  %w = call @w() : () -> tensor<29x3x32xi8>
  %made = call @block_product(%x, %scales, %w, %tokens, %logits) : (tensor<20x3x32xi8>, tensor<20x3xf16>, tensor<29x3x32xi8>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
