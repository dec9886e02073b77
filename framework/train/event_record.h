// SPDX-License-Identifier: Apache-2.0
// The bytes of TensorBoard's event files: records that hold protocol buffer messages. Only what a run has to
// say is written: scalars, texts and histograms by step, and what a reader needs to make sense of a restart.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "framework/base/quantity.h"

namespace tessera {

// CRC-32C (Castagnoli), as iSCSI uses it: RFC 3720, B.4.
uint32_t crc32c(std::string_view bytes);

// One record: 8 bytes of length, a masked checksum of them, the message, a masked checksum of it; all numbers
// little endian.
std::string event_record(std::string_view message);

// A histogram of any buckets: counts[i] values are at most limits[i] and above limits[i - 1].
struct EventHistogram {
  std::span<const double> limits, counts;  // of equal length, limits rising
  double minimum = 0, maximum = 0;         // bounds of the first and the last bucket
  double sum = 0, sum_of_squares = 0;
};

// What one event says of its step: values by tag. Tags with a '/' are shown in groups.
class EventSummary {
 public:
  // A chart's point. Files hold fp32: the value is rounded once.
  void add_scalar(std::string_view tag, double value);
  // Shown as it stands, line by line.
  void add_text(std::string_view tag, std::string_view text);
  void add_histogram(std::string_view tag, const EventHistogram& histogram);
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

// Messages of events. `time` is in seconds since 1970.
std::string version_event(double time);  // the first of a file
// Readers forget what they have read about `first` and later steps.
std::string start_event(double time, Steps first);
std::string summary_event(double time, Steps step, const EventSummary& summary);

}  // namespace tessera
