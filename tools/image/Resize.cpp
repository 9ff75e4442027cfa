/// Resizing as torchvision and Pillow do it, which is one algorithm. A pass
/// over rows and then one over columns; each makes bytes. A new pixel is the
/// sum of old ones by weights. The filter says the weights; where the image
/// shrinks, the filter is stretched by as much, so that each old pixel counts.
/// Weights are whole numbers: multiples of a power of 1/2.
#include "tools/image/Image.h"

#include <algorithm>
#include <cmath>

namespace cria {

/// The weight of a pixel at distance `x`; the bicubic one is Keys' with -1/2.
static double weightOf(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::Bilinear)
    return x < 1 ? 1 - x : 0;
  constexpr double a = -0.5;
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

namespace {
/// The old pixels that a new one is the sum of, and their weights.
struct Taps {
  int64_t first;
  std::vector<double> exact;
  std::vector<int32_t> weights;
};

/// The taps of a row or column.
struct Pass {
  std::vector<Taps> taps;
  int bits = 0; // of the weights after the point

  Pass(int64_t from, int64_t to, Filter filter, Rounding rounding);
  /// The byte of new place `i`; `old` is a color of the first pixel of a row or
  /// column, and `step` the distance to that of the next.
  uint8_t at(int64_t i, const uint8_t *old, int64_t step) const {
    const Taps &of = taps[i];
    int32_t sum = 1 << (bits - 1);
    old += of.first * step;
    for (int32_t weight : of.weights) {
      sum += weight * *old;
      old += step;
    }
    return static_cast<uint8_t>(std::clamp(sum >> bits, 0, 255));
  }
};
} // namespace

static Taps tapsOf(int64_t i, int64_t from, double scale, Filter filter) {
  double stretch = std::max(scale, 1.0),
         support = (filter == Filter::Bilinear ? 1 : 2) * stretch,
         center = scale * (i + 0.5), inverse = 1 / stretch;
  auto first =
      std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
  auto end =
      std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
  Taps taps{first, {}, {}};
  double sum = 0;
  for (int64_t old = first; old < end; ++old) {
    taps.exact.push_back(weightOf(filter, (old - center + 0.5) * inverse));
    sum += taps.exact.back();
  }
  for (double &weight : taps.exact)
    weight /= sum;
  return taps;
}

/// The most bits after the point with which `largest` fits in 16.
static int bitsFor(double largest) {
  int bits = 0;
  while (bits < 22 && 0.5 + largest * (1 << (bits + 1)) < (1 << 15))
    ++bits;
  return bits;
}

Pass::Pass(int64_t from, int64_t to, Filter filter, Rounding rounding) {
  double scale = static_cast<double>(from) / static_cast<double>(to);
  double largest = 0;
  for (int64_t i = 0; i < to; ++i) {
    taps.push_back(tapsOf(i, from, scale, filter));
    for (double weight : taps.back().exact)
      largest = std::max(largest, weight);
  }
  bits = rounding == Rounding::Pillow ? 22 : bitsFor(largest);
  for (Taps &of : taps) {
    for (double weight : of.exact)
      of.weights.push_back(static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) +
                                                weight * (1 << bits)));
    of.exact = {};
  }
}

Image resized(const Image &image, int64_t height, int64_t width, Filter filter,
              Rounding rounding) {
  Image wide = image;
  if (width != image.width) {
    Pass pass(image.width, width, filter, rounding);
    wide = Image(image.height, width);
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < width; ++x)
        for (int color = 0; color < 3; ++color)
          wide.row(y)[x * 3 + color] = pass.at(x, image.at(y, 0) + color, 3);
  }
  if (height == image.height)
    return wide;
  Pass pass(image.height, height, filter, rounding);
  Image all(height, width);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t i = 0; i < width * 3; ++i)
      all.row(y)[i] = pass.at(y, wide.pixels.data() + i, width * 3);
  return all;
}

/// Copies `from` into `to`, with its first pixel at (top, left); what lies
/// outside is left out.
static void paste(const Image &from, Image &to, int64_t top, int64_t left) {
  int64_t begin = std::max<int64_t>(-left, 0),
          end = std::min(from.width, to.width - left);
  for (int64_t y = std::max<int64_t>(-top, 0);
       y < std::min(from.height, to.height - top); ++y)
    std::copy(from.at(y, begin), from.at(y, begin) + (end - begin) * 3,
              to.row(y + top) + (left + begin) * 3);
}

Image cropped(const Image &image, int64_t height, int64_t width) {
  // A division of whole numbers rounds both towards 0, as torchvision does.
  Image middle(height, width);
  paste(image, middle, (height - image.height) / 2, (width - image.width) / 2);
  return middle;
}

Image squared(const Image &image, std::array<uint8_t, 3> color) {
  int64_t side = std::max(image.height, image.width);
  Image square(side, side);
  for (size_t i = 0; i < square.pixels.size(); ++i)
    square.pixels[i] = color[i % 3];
  paste(image, square, (side - image.height) / 2, (side - image.width) / 2);
  return square;
}

Image turned(Image image, int orientation) {
  if (orientation == 1)
    return image;
  bool isOnSide = orientation >= 5;
  bool flipsRows = orientation == 3 || orientation == 4 || orientation == 6 ||
                   orientation == 7;
  bool flipsColumns = orientation == 2 || orientation == 3 ||
                      orientation == 7 || orientation == 8;
  Image turned = isOnSide ? Image(image.width, image.height)
                          : Image(image.height, image.width);
  for (int64_t y = 0; y < turned.height; ++y)
    for (int64_t x = 0; x < turned.width; ++x) {
      int64_t row = isOnSide ? x : y, column = isOnSide ? y : x;
      const uint8_t *from =
          image.at(flipsRows ? image.height - 1 - row : row,
                   flipsColumns ? image.width - 1 - column : column);
      std::copy(from, from + 3, turned.row(y) + x * 3);
    }
  return turned;
}

} // namespace cria
