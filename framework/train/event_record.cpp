// SPDX-License-Identifier: Apache-2.0
#include "framework/train/event_record.h"

#include <array>
#include <bit>
#include <utility>

namespace tessera {
namespace {

constexpr std::array<uint32_t, 256> crc_of_bytes() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcOfByte = crc_of_bytes();

// Checksums of data that holds checksums itself are poor, so files hold another value.
uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xa282ead8u;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

// A message of fields: each is a key (its number, and how its value is stored) and a value.
class MessageFields {
 public:
  MessageFields& integer(uint32_t field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  MessageFields& fp64(uint32_t field, double value) {
    key(field, 1);
    bytes_ += little_endian(std::bit_cast<uint64_t>(value));
    return *this;
  }
  MessageFields& fp32(uint32_t field, float value) {
    key(field, 5);
    bytes_ += little_endian(std::bit_cast<uint32_t>(value));
    return *this;
  }
  // A string, or a message in it.
  MessageFields& bytes(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  MessageFields& message(uint32_t field, const MessageFields& value) { return bytes(field, value.bytes_); }
  MessageFields& list(uint32_t field, std::span<const double> values) {
    std::string packed;
    for (const double value : values) packed += little_endian(std::bit_cast<uint64_t>(value));
    return bytes(field, packed);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void key(uint32_t field, uint32_t type) { varint(field << 3 | type); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// The messages below, and the numbers of their fields (tensorflow/core/util/event.proto and
// framework/summary.proto, tensor.proto):
//   Event             1 wall time, 2 step, 3 file version, 5 summary, 7 session log
//   SessionLog        1 status (1: start)
//   Summary           1 value
//   Summary.Value     1 tag, 2 simple value, 5 histogram, 8 tensor, 9 metadata
//   SummaryMetadata   1 plugin, with 1 its name
//   TensorProto       1 type (7: string), 2 shape, 8 strings
//   HistogramProto    1 minimum, 2 maximum, 3 count, 4 sum, 5 sum of squares, 6 limits, 7 counts

MessageFields event_at(double time) {
  MessageFields event;
  event.fp64(1, time);
  return event;
}

std::string in_summary(const MessageFields& value) {
  return MessageFields().message(1, value).take();
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string event_record(std::string_view message) {
  std::string record = little_endian(uint64_t{message.size()});
  record += little_endian(masked(crc32c(record)));
  record += message;
  return record + little_endian(masked(crc32c(message)));
}

void EventSummary::add_scalar(std::string_view tag, double value) {
  MessageFields fields;
  fields.bytes(1, tag).fp32(2, static_cast<float>(value));
  message_ += in_summary(fields);
}

void EventSummary::add_text(std::string_view tag, std::string_view text) {
  // Readers take Markdown, in which lines that are set in are code.
  std::string code = "    ";
  for (const char character : text) {
    code += character;
    if (character == '\n') code += "    ";
  }
  MessageFields plugin, metadata, tensor, fields;
  plugin.bytes(1, "text");
  metadata.message(1, plugin);
  tensor.integer(1, 7).bytes(2, "").bytes(8, code);  // of no dimension: one string
  fields.bytes(1, tag).message(8, tensor).message(9, metadata);
  message_ += in_summary(fields);
}

void EventSummary::add_histogram(std::string_view tag, const EventHistogram& histogram) {
  double count = 0;
  for (const double of_bucket : histogram.counts) count += of_bucket;
  MessageFields buckets, fields;
  buckets.fp64(1, histogram.minimum)
      .fp64(2, histogram.maximum)
      .fp64(3, count)
      .fp64(4, histogram.sum)
      .fp64(5, histogram.sum_of_squares)
      .list(6, histogram.limits)
      .list(7, histogram.counts);
  fields.bytes(1, tag).message(5, buckets);
  message_ += in_summary(fields);
}

std::string version_event(double time) {
  return event_at(time).bytes(3, "brain.Event:2").take();
}

std::string start_event(double time, Steps first) {
  MessageFields log;
  log.integer(1, 1);
  return event_at(time).integer(2, first.value).message(7, log).take();
}

std::string summary_event(double time, Steps step, const EventSummary& summary) {
  return event_at(time).integer(2, step.value).bytes(5, summary.message()).take();
}

}  // namespace tessera
