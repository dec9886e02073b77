// SPDX-License-Identifier: Apache-2.0
#include "tests/support/collective_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/base/random.h"
#include "framework/comm/sent_bytes.h"
#include "framework/mesh/shard_spec.h"
#include "framework/ops/memory.h"
#include "tests/support/rounding.h"

namespace tessera::test {

namespace {

constexpr DType kTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32};
constexpr int64_t kSizes[] = {0, 1, 3, 1003};

template <class F>
void visit_type(DType dtype, F&& f) {
  if (dtype == DType::I32)
    f.template operator()<int32_t>();
  else
    visit_float(dtype, f);
}

template <class T>
T held(double value) {
  if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<double>(static_cast<float>(value));
}

// Adds in rank order in the type that sums are made in, and rounds once.
template <class T>
T reduced(const std::vector<std::vector<double>>& by_rank, size_t i, Reduce op) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double,
                                 std::conditional_t<std::is_integral_v<T>, int64_t, float>>;
  Sum total = static_cast<Sum>(held<T>(by_rank[0][i]));
  for (size_t r = 1; r < by_rank.size(); ++r) {
    const Sum term = static_cast<Sum>(held<T>(by_rank[r][i]));
    total = op == Reduce::Sum ? total + term : std::max(total, term);
  }
  return T(total);
}

std::string expected_reduction(DType dtype, int64_t count, int ranks, Reduce op) {
  std::vector<std::vector<double>> by_rank;
  for (int r = 0; r < ranks; ++r) by_rank.push_back(test_values(dtype, count, r));
  std::string bytes;
  visit_type(dtype, [&]<class T>() {
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const T value = reduced<T>(by_rank, i, op);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
  });
  return bytes;
}

constexpr AllReduceAlgorithm kAlgorithms[] = {
    AllReduceAlgorithm::Auto, AllReduceAlgorithm::Direct,       AllReduceAlgorithm::Ring,
    AllReduceAlgorithm::Tree, AllReduceAlgorithm::Hierarchical, AllReduceAlgorithm::ParameterServer};

// By the algorithm's own description, on one node. Of a tree: of all ranks together.
int64_t bytes_by_hand(AllReduceAlgorithm algorithm, int64_t elements, DType dtype, int size, int rank) {
  const auto chunk = [&](int of) { return part_of(elements, size, of).size(); };
  switch (algorithm) {
    case AllReduceAlgorithm::ParameterServer:
      return (rank == 0 ? size - 1 : 1) * elements * size_of(dtype);
    case AllReduceAlgorithm::Ring:  // not its own chunk, and not the sum that it is the last to get
      return (2 * elements - chunk(rank) - chunk((rank + size - 1) % size)) * size_of(dtype);
    case AllReduceAlgorithm::Tree:
      return 2 * (size - 1) * elements * size_of(dtype);
    default:  // the chunks of the others to reduce, its own to each of them to gather
      return (elements - chunk(rank) + chunk(rank) * (size - 1)) * size_of(dtype);
  }
}

// One run of all cases for one rank.
class Cases {
 public:
  Cases(Communicator& group, Backend& backend) : group_(group), backend_(backend) {}

  void all_reduce(DType dtype, int64_t count, Reduce op) {
    const Tensor data = mine(dtype, {count});
    group_.traffic().reset();
    group_.all_reduce(data, op, stream()).wait();
    check(data, expected_reduction(dtype, count, size(), op), "all_reduce");
    check_sent(TrafficKind::AllReduce,
               bytes_by_hand(AllReduceAlgorithm::Direct, count, dtype, size(), rank()));
  }

  void all_reduce_by(AllReduceAlgorithm algorithm, DType dtype, int64_t count, Reduce op) {
    group_.use_all_reduce(algorithm);
    group_.traffic().reset();
    const Tensor data = mine(dtype, {count}), again = mine(dtype, {count});
    Work first = group_.all_reduce(data, op, stream()), second = group_.all_reduce(again, op, stream());
    second.wait();
    first.wait();
    const std::string bytes = to_bytes(backend_, data);
    append(bytes);
    EXPECT_TRUE(to_bytes(backend_, again) == bytes) << name_of(algorithm);
    for (const std::string& theirs : group_.all_gather_host(bytes))
      EXPECT_TRUE(theirs == bytes) << name_of(algorithm);
    if (op == Reduce::Max || dtype == DType::I32)
      EXPECT_TRUE(bytes == expected_reduction(dtype, count, size(), op)) << name_of(algorithm);
    else
      check_near(bytes, dtype, count, name_of(algorithm));
    int64_t sent = group_.traffic().sent(TrafficKind::AllReduce) / 2;
    if (algorithm == AllReduceAlgorithm::Tree) group_.all_reduce_host(std::span(&sent, 1), Reduce::Sum);
    EXPECT_EQ(sent, size() == 1 ? 0 : bytes_by_hand(algorithm, count, dtype, size(), rank()))
        << name_of(algorithm) << " of " << count << " on rank " << rank() << " of " << size();
    group_.use_all_reduce(AllReduceAlgorithm::Auto);
  }

  void reduce_scatter(DType dtype, int64_t count, Reduce op) {
    const Tensor whole = mine(dtype, {count * size(), 2});
    const Tensor shard = empty(backend_, dtype, {count, 2});
    group_.traffic().reset();
    group_.reduce_scatter(whole, shard, op, stream()).wait();
    const std::string all = expected_reduction(dtype, count * size() * 2, size(), op);
    const auto bytes = static_cast<size_t>(shard.bytes());
    check(shard, all.substr(static_cast<size_t>(rank()) * bytes, bytes), "reduce_scatter");
    check_sent(TrafficKind::ReduceScatter, shard.bytes() * (size() - 1));
    // The shard inside the whole.
    const Tensor own = whole.narrow(rank() * count, count);
    group_.reduce_scatter(whole, own, op, stream()).wait();
    check(own, all.substr(static_cast<size_t>(rank()) * bytes, bytes), "reduce_scatter in place");
  }

  void all_gather(DType dtype, int64_t count) {
    const Tensor shard = mine(dtype, {count, 3});
    const Tensor whole = zeros_of(dtype, {count * size(), 3});
    group_.traffic().reset();
    group_.all_gather(shard, whole, stream()).wait();
    std::string expected;
    for (int r = 0; r < size(); ++r) expected += encoded(dtype, test_values(dtype, count * 3, r));
    check(whole, expected, "all_gather");
    check_sent(TrafficKind::AllGather, shard.bytes() * (size() - 1));
    const Tensor again = zeros_of(dtype, {count * size(), 3});
    const Tensor own = again.narrow(rank() * count, count);
    backend_.copy(shard, own);
    group_.all_gather(own, again, stream()).wait();
    check(again, expected, "all_gather in place");
  }

  void broadcast(DType dtype, int64_t count, int root) {
    const Tensor data = mine(dtype, {count});
    group_.traffic().reset();
    group_.broadcast(data, root, stream()).wait();
    check(data, encoded(dtype, test_values(dtype, count, root)), "broadcast");
    check_sent(TrafficKind::Broadcast, broadcast_sent_bytes(data.bytes(), size(), rank(), root));
  }

  // Rank a sends (a + 2 b + offset) mod 4 rows to rank b: uneven, some of them none.
  void all_to_all(DType dtype, int64_t width, int offset) {
    const auto rows = [&](int from, int to) { return int64_t{(from + 2 * to + offset) % 4}; };
    std::vector<int64_t> send_rows, receive_rows;
    int64_t sent = 0, received = 0;
    for (int r = 0; r < size(); ++r) {
      send_rows.push_back(rows(rank(), r));
      receive_rows.push_back(rows(r, rank()));
      sent += send_rows.back();
      received += receive_rows.back();
    }
    const Tensor send = mine(dtype, {sent, width});
    const Tensor receive = zeros_of(dtype, {received, width});
    group_.traffic().reset();
    group_.all_to_all(send, send_rows, receive, receive_rows, stream()).wait();
    std::string expected;
    const auto row_bytes = static_cast<size_t>(width * size_of(dtype));
    for (int from = 0; from < size(); ++from) {
      int64_t before = 0, total = 0;
      for (int to = 0; to < size(); ++to) {
        if (to < rank()) before += rows(from, to);
        total += rows(from, to);
      }
      const std::string theirs = encoded(dtype, test_values(dtype, total * width, from));
      expected += theirs.substr(static_cast<size_t>(before) * row_bytes,
                                static_cast<size_t>(rows(from, rank())) * row_bytes);
    }
    check(receive, expected, "all_to_all");
    check_sent(TrafficKind::AllToAll, (sent - rows(rank(), rank())) * width * size_of(dtype));
  }

  // Every rank sends two tensors to the next and receives two from the one before, in one group.
  void exchange(DType dtype, int64_t count) {
    if (size() == 1) return;
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    const Tensor first = mine(dtype, {count}), second = mine(dtype, {2, count});
    const Tensor got_first = zeros_of(dtype, {count}), got_second = zeros_of(dtype, {2, count});
    group_.traffic().reset();
    const PeerOp operations[] = {{PeerOp::Kind::Send, next, first},
                                 {PeerOp::Kind::Receive, before, got_first},
                                 {PeerOp::Kind::Send, next, second},
                                 {PeerOp::Kind::Receive, before, got_second}};
    group_.exchange(operations, stream()).wait();
    check(got_first, encoded(dtype, test_values(dtype, count, before)), "exchange");
    check(got_second, encoded(dtype, test_values(dtype, 2 * count, before)), "exchange");
    check_sent(TrafficKind::Exchange, first.bytes() + second.bytes());
  }

  void host_values() {
    group_.traffic().reset();
    std::vector<int64_t> counts{rank() + 1, -rank(), int64_t{1} << 40};
    group_.all_reduce_host(std::span<int64_t>(counts), Reduce::Sum);
    const int64_t n = size();
    EXPECT_EQ(counts, (std::vector<int64_t>{n * (n + 1) / 2, -n * (n - 1) / 2, n << 40}));
    std::vector<double> values{0.1 * rank(), static_cast<double>(rank() == n - 1)};
    group_.all_reduce_host(std::span<double>(values), Reduce::Max);
    EXPECT_EQ(values, (std::vector<double>{0.1 * static_cast<double>(n - 1), 1.0}));
    EXPECT_EQ(group_.traffic().sent(TrafficKind::Host), (24 + 16) * (n - 1));

    std::string text = rank() == size() - 1 ? std::string("a\0b", 3) : "own";
    group_.broadcast_host(text, size() - 1);
    EXPECT_EQ(text, std::string("a\0b", 3));
    const std::vector<std::string> all =
        group_.all_gather_host(std::string(static_cast<size_t>(rank()), 'x'));
    ASSERT_EQ(all.size(), static_cast<size_t>(size()));
    for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(r, 'x'));
    group_.barrier();
    for (const double value : values) append(std::string(reinterpret_cast<const char*>(&value), 8));
  }

  // Odd and even ranks, each group in reverse order, then a group of one.
  void split() {
    const auto half = group_.split(rank() % 2, -rank(), "half");
    const int members = (size() + 1 - rank() % 2) / 2;
    EXPECT_EQ(half->size(), members);
    EXPECT_EQ(half->rank(), members - 1 - rank() / 2);
    EXPECT_EQ(half->name(), "half");
    std::vector<int64_t> sum{rank()};
    half->all_reduce_host(std::span<int64_t>(sum), Reduce::Sum);
    int64_t expected = 0;
    for (int r = rank() % 2; r < size(); r += 2) expected += r;
    EXPECT_EQ(sum[0], expected);
    const std::vector<int> self{half->rank()};
    const auto alone = half->subgroup(self, "alone");
    EXPECT_EQ(alone->size(), 1);
    alone->barrier();
  }

  // Several collectives of one communicator in flight, waited for in another order.
  void in_flight() {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 6; ++i) {
      tensors.push_back(mine(DType::F32, {100 + i}));
      works.push_back(i % 2 == 0 ? group_.all_reduce(tensors.back(), Reduce::Sum, stream())
                                 : group_.broadcast(tensors.back(), i % size(), stream()));
    }
    for (size_t i = works.size(); i-- > 0;) works[i].wait();
    for (int i = 0; i < 6; ++i)
      check(tensors[static_cast<size_t>(i)],
            i % 2 == 0 ? expected_reduction(DType::F32, 100 + i, size(), Reduce::Sum)
                       : encoded(DType::F32, test_values(DType::F32, 100 + i, i % size())),
            "in flight");
  }

  std::string bytes() && { return std::move(bytes_); }

 private:
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  Stream& stream() { return backend_.comm_stream(); }
  Tensor mine(DType dtype, Shape shape) {
    return from_bytes(backend_, dtype, shape, encoded(dtype, test_values(dtype, shape.elements(), rank())));
  }
  Tensor zeros_of(DType dtype, Shape shape) {
    const std::string none(static_cast<size_t>(shape.elements() * size_of(dtype)), '\0');
    return from_bytes(backend_, dtype, shape, none);
  }
  void append(const std::string& bytes) { bytes_ += bytes; }

  void check(const Tensor& tensor, const std::string& expected, std::string_view call) {
    const std::string actual = to_bytes(backend_, tensor);
    append(actual);
    EXPECT_EQ(actual.size(), expected.size());
    const auto at = std::mismatch(actual.begin(), actual.end(), expected.begin(), expected.end()).first;
    EXPECT_TRUE(at == actual.end()) << call << " of " << tensor.describe() << " on rank " << rank() << " of "
                                    << size() << ": element "
                                    << (at - actual.begin()) / size_of(tensor.dtype()) << " differs";
  }
  // A sum of n terms is rounded to fp32 (F64 for F64) n - 1 times and to the type at most n - 1 times.
  void check_near(const std::string& bytes, DType dtype, int64_t count, std::string_view algorithm) {
    const double roundings = size() - 1;
    const double of_sums = dtype == DType::F64 ? unit_roundoff(DType::F64) : unit_roundoff(DType::F32);
    const double relative = std::pow((1 + of_sums) * (1 + unit_roundoff(dtype)), roundings) - 1;
    std::vector<std::vector<double>> terms;
    for (int r = 0; r < size(); ++r) terms.push_back(test_values(dtype, count, r));
    visit_float(dtype, [&]<class T>() {
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        T value;
        std::copy_n(bytes.data() + i * sizeof(T), sizeof(T), reinterpret_cast<char*>(&value));
        double sum = 0, size = 0;
        for (const std::vector<double>& of_rank : terms) {
          const double term = as_double(held<T>(of_rank[i]));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(as_double(value) - sum), relative * size + 0x1p-24 * (dtype == DType::F16))
            << algorithm << " of " << count << " " << name_of(dtype) << ", element " << i;
      }
    });
  }

  void check_sent(TrafficKind kind, int64_t expected) {
    EXPECT_EQ(group_.traffic().sent(kind), size() == 1 ? 0 : expected)
        << "kind " << static_cast<int>(kind) << " on rank " << rank() << " of " << size();
  }

  Communicator& group_;
  Backend& backend_;
  std::string bytes_;
};

}  // namespace

std::vector<double> test_values(DType dtype, int64_t count, int rank) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = philox(RandomKey{static_cast<uint64_t>(rank)}, static_cast<uint64_t>(i))[0];
    // Sizes over many powers of two, so that fp32 sums round and depend on the order.
    const double size = std::ldexp(1.0, static_cast<int>(bits % 12));
    const double value = (bits >> 8) * 0x1p-24 * size * ((bits >> 4) % 2 == 0 ? 1 : -1);
    values.push_back(dtype == DType::I32 ? std::floor(value * 1000) : value);
  }
  return values;
}

std::string encoded(DType dtype, std::span<const double> values) {
  std::string bytes;
  visit_type(dtype, [&]<class T>() {
    for (const double value : values) {
      const T element = held<T>(value);
      bytes.append(reinterpret_cast<const char*>(&element), sizeof(T));
    }
  });
  return bytes;
}

Tensor from_bytes(Backend& backend, DType dtype, Shape shape, std::string_view bytes) {
  const Tensor tensor = empty(backend, dtype, shape);
  backend.upload(std::as_bytes(std::span(bytes)), tensor);
  return tensor;
}

std::string to_bytes(Backend& backend, const Tensor& tensor) {
  std::string bytes(static_cast<size_t>(tensor.bytes()), '\0');
  backend.download(tensor, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string run_collective_cases(Communicator& group, Backend& backend) {
  Cases cases(group, backend);
  for (const DType dtype : kTypes) {
    for (const int64_t count : kSizes) {
      for (const Reduce op : {Reduce::Sum, Reduce::Max}) {
        cases.all_reduce(dtype, count, op);
        cases.reduce_scatter(dtype, count, op);
      }
      cases.all_gather(dtype, count);
      for (int root = 0; root < group.size(); ++root) cases.broadcast(dtype, count, root);
      cases.exchange(dtype, count);
    }
    for (int offset = 0; offset < 3; ++offset) cases.all_to_all(dtype, 5, offset);
    cases.all_to_all(dtype, 1003, 1);
  }
  cases.host_values();
  cases.split();
  cases.in_flight();
  return std::move(cases).bytes();
}

std::string run_all_reduce_cases(Communicator& group, Backend& backend) {
  Cases cases(group, backend);
  for (const AllReduceAlgorithm algorithm : kAlgorithms) {
    for (const DType dtype : kTypes) cases.all_reduce_by(algorithm, dtype, 1003, Reduce::Sum);
    for (const int64_t count : kSizes) cases.all_reduce_by(algorithm, DType::F32, count, Reduce::Sum);
    cases.all_reduce_by(algorithm, DType::BF16, 1003, Reduce::Max);
  }
  return std::move(cases).bytes();
}

}  // namespace tessera::test
