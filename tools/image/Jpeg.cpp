/// JPEG by libjpeg-turbo. An error in the library jumps to `decode`, which
/// holds nothing that must be destroyed.
#include "tools/image/Image.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <jpeglib.h>

#include <jerror.h>

namespace cria {

namespace {
struct Decoder {
  ImageFile &file;
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jmp_buf jump = {};
  char problem[JMSG_LENGTH_MAX] = "";
  Status status = {};

  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
};
} // namespace

/// Passes over a progressive image, and the pixels of all passes together.
static constexpr int kMostScans = 200;
static constexpr int64_t kMostWork = 1'000'000'000;

static Decoder &decoderOf(j_common_ptr jpeg) {
  return *static_cast<Decoder *>(jpeg->client_data);
}

[[noreturn]] static void fail(j_common_ptr jpeg) {
  Decoder &decoder = decoderOf(jpeg);
  if (!decoder.problem[0])
    jpeg->err->format_message(jpeg, decoder.problem);
  longjmp(decoder.jump, 1);
}

/// Ignores warnings, as Pillow does, but for a file that ends early.
static void warn(j_common_ptr jpeg, int) {
  if (jpeg->err->msg_code != JWRN_JPEG_EOF)
    return;
  snprintf(decoderOf(jpeg).problem, JMSG_LENGTH_MAX, "the file ends early");
  fail(jpeg);
}

static void watch(j_common_ptr jpeg) {
  const jpeg_decompress_struct &image = decoderOf(jpeg).jpeg;
  int64_t pixels = int64_t{image.image_width} * image.image_height;
  int64_t most = std::min<int64_t>(kMostScans, kMostWork / pixels);
  if (image.input_scan_number <= most)
    return;
  snprintf(decoderOf(jpeg).problem, JMSG_LENGTH_MAX,
           "expected at most %d scans of so many pixels",
           static_cast<int>(most));
  fail(jpeg);
}

static void takeExif(Decoder &decoder) {
  constexpr char kName[] = "Exif\0"; // and one more zero
  for (auto *marker = decoder.jpeg.marker_list; marker; marker = marker->next)
    if (marker->data_length > sizeof(kName) &&
        memcmp(marker->data, kName, sizeof(kName)) == 0) {
      decoder.file.exif.assign(reinterpret_cast<char *>(marker->data) +
                                   sizeof(kName),
                               marker->data_length - sizeof(kName));
      return;
    }
}

/// Reads the header, and refuses what is not grey or three colors.
static Status begin(Decoder &decoder) {
  jpeg_decompress_struct &jpeg = decoder.jpeg;
  jpeg_read_header(&jpeg, TRUE);
  if (jpeg.num_components != 1 && jpeg.num_components != 3)
    return decoder.file.fail("expected grey or three colors, got " +
                                 std::to_string(jpeg.num_components) +
                                 " (CMYK is not supported)",
                             CRIA_UNIMPLEMENTED);
  jpeg.out_color_space = JCS_RGB;
  takeExif(decoder);
  return decoder.file.allocate(jpeg.image_height, jpeg.image_width);
}

/// Whether the library had no error.
static bool decode(Decoder &decoder) {
  jpeg_decompress_struct &jpeg = decoder.jpeg;
  if (setjmp(decoder.jump))
    return false;
  jpeg_create_decompress(&jpeg);
  jpeg.client_data = &decoder;
  decoder.progress.progress_monitor = watch;
  jpeg.progress = &decoder.progress;
  jpeg_mem_src(
      &jpeg, reinterpret_cast<const unsigned char *>(decoder.file.bytes.data()),
      decoder.file.bytes.size());
  jpeg_save_markers(&jpeg, JPEG_APP0 + 1, 0xffff);
  decoder.status = begin(decoder);
  if (!decoder.status.ok())
    return true;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = decoder.file.image.row(jpeg.output_scanline);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  return true;
}

Status readJpeg(ImageFile &file) {
  Decoder decoder{file};
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.jpeg.client_data = &decoder;
  decoder.errors.error_exit = fail;
  decoder.errors.emit_message = warn;
  if (!decode(decoder))
    return file.fail(decoder.problem);
  return decoder.status;
}

} // namespace cria
