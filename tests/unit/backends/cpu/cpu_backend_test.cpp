// SPDX-License-Identifier: Apache-2.0
// What the list of cases does not say: integers, transfers, random masks, instruction sets, scratch.
#include "framework/backends/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/backends/cpu/workspace.h"
#include "framework/ops/copy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/memory.h"
#include "framework/ops/reduce.h"
#include "tests/ops/case_data.h"
#include "tests/unit/backends/cpu/instruction_sets.h"

namespace tessera {
namespace {
using test::CaseTensors;
using test::HostTensors;
using test::OpCase;
using test::Use;

template <class T>
std::vector<T> counting(int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(i * 7 - 3));
  return values;
}

template <class T>
void expect_copies(Backend& backend) {
  const Tensor from = from_host<T>(backend, std::span<const T>(counting<T>(77)), {7, 11});
  const Tensor whole = empty(backend, dtype_of<T>(), {7, 11});
  copy(backend, from, whole);
  EXPECT_EQ(to_host<T>(backend, whole), counting<T>(77));
  const Tensor part = cloned(backend, from.columns(2, 3));
  const std::vector<T> values = to_host<T>(backend, part);
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_EQ(values[static_cast<size_t>(i * 3 + c)], counting<T>(77)[static_cast<size_t>(i * 11 + 2 + c)]);
}

TEST(CpuBackend, copies_integers) {
  const auto backend = make_cpu_backend(2);
  expect_copies<int64_t>(*backend);
  expect_copies<int32_t>(*backend);
  expect_copies<uint8_t>(*backend);
}

TEST(CpuBackend, fills_integers) {
  const auto backend = make_cpu_backend(1);
  const Tensor x = empty(*backend, DType::I64, {3}), y = empty(*backend, DType::U8, {3});
  fill(*backend, x, -7);
  fill(*backend, y, 200);
  EXPECT_EQ(to_host<int64_t>(*backend, x), (std::vector<int64_t>{-7, -7, -7}));
  EXPECT_EQ(to_host<uint8_t>(*backend, y), (std::vector<uint8_t>{200, 200, 200}));
}

TEST(CpuBackend, refuses_what_does_not_fit) {
  const auto backend = make_cpu_backend(1);
  const Tensor x = zeros(*backend, DType::F32, {4, 4}), y = zeros(*backend, DType::I32, {4, 4});
  EXPECT_THROW(copy(*backend, x, y), Error);
  EXPECT_THROW(copy(*backend, x, x.narrow(0, 2)), Error);
  std::vector<std::byte> bytes(60);
  EXPECT_THROW(backend->upload(bytes, x), Error);
  EXPECT_THROW(backend->download(x, bytes), Error);
  EXPECT_THROW(make_cpu_backend(0), Error);
}

TEST(CpuBackend, works_on_tensors_without_elements) {
  const auto backend = make_cpu_backend(2);
  const Tensor x = zeros(*backend, DType::F32, {0, 5}), y = zeros(*backend, DType::F32, {5, 0});
  EXPECT_EQ(add(*backend, x, x).elements(), 0);
  EXPECT_EQ(cloned(*backend, y).elements(), 0);
  const Tensor sums = zeros(*backend, DType::F32, {5});
  column_sum(*backend, x, sums);
  EXPECT_EQ(to_host<float>(*backend, sums), std::vector<float>(5, 0));
}

TEST(CpuBackend, a_sum_is_rounded_once) {
  const auto backend = make_cpu_backend(1);
  // 256 + 1 + 1 = 258 in bf16; rounding after each step would stay at 256.
  const auto value = [&](float x) {
    const Tensor t = empty(*backend, DType::BF16, {3});
    fill(*backend, t, x);
    return t;
  };
  const std::vector<Tensor> terms{value(256), value(1), value(1)};
  sum(*backend, terms, terms[1]);  // the result may be a term
  EXPECT_EQ(to_host_double(*backend, terms[1])[0], 258);
}

TEST(CpuBackend, a_bad_element_makes_the_sum_of_squares_bad) {
  const auto backend = make_cpu_backend(2);
  for (const double bad : {NAN, INFINITY})
    for (const int64_t at : {0, 1003, 99999}) {
      const Tensor x = zeros(*backend, DType::F32, {100000}), out = zeros(*backend, DType::F64, {1});
      fill(*backend, x.narrow(at, 1), bad);
      sum_squares(*backend, x, out);
      EXPECT_FALSE(std::isfinite(to_host_double(*backend, out)[0]));
    }
}

TEST(Dropout, belongs_to_logical_positions) {
  const auto backend = make_cpu_backend(2);
  const std::vector<int64_t> step{3};
  std::vector<int64_t> tokens(64);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int64_t>(1000 + i);
  const Tensor x = empty(*backend, DType::F32, {64, 50});
  fill(*backend, x, 1);
  DropoutOptions options{.probability = 0.25,
                         .key = {9},
                         .step = from_host<int64_t>(*backend, step, {1}),
                         .row_index = from_host<int64_t>(*backend, tokens, {64})};
  const std::vector<float> whole = to_host<float>(*backend, dropout(*backend, x, options));
  double kept = 0;
  for (const float value : whole) {
    EXPECT_TRUE(value == 0 || value == static_cast<float>(1 / 0.75));
    kept += value != 0;
  }
  EXPECT_NEAR(kept / 3200, 0.75, 0.03);
  // Columns 13 to 30 of tokens 20 to 29, cut out as another rank would hold them.
  options.row_index = options.row_index.narrow(20, 10);
  options.column_offset = 13;
  const Tensor part = dropout(*backend, x.narrow(20, 10).columns(13, 18), options);
  const std::vector<float> values = to_host<float>(*backend, part);
  for (int64_t i = 0; i < 10; ++i)
    for (int64_t c = 0; c < 18; ++c)
      ASSERT_EQ(values[static_cast<size_t>(i * 18 + c)], whole[static_cast<size_t>((20 + i) * 50 + 13 + c)]);
}

TEST(InitNormal, belongs_to_global_indices) {
  const auto backend = make_cpu_backend(2);
  const Tensor whole = empty(*backend, DType::F32, {20, 33}), part = empty(*backend, DType::F32, {5, 10});
  init_normal(*backend, whole, {4}, 0.02, 0, 33);
  init_normal(*backend, part, {4}, 0.02, 7 * 33 + 11, 33);
  EXPECT_EQ(to_host<float>(*backend, part),
            to_host<float>(*backend, cloned(*backend, whole.narrow(7, 5).columns(11, 10))));
}

class EachInstructionSet : public ::testing::Test {};

TEST(InstructionSets, give_the_same_bits_for_every_case) {
  const std::vector<int64_t> sets = cpu::instruction_sets();
  const auto backend = make_cpu_backend(1);
  for (const OpCase& c : test::op_cases())
    for (const DType compute : {DType::F32, DType::BF16, DType::F16}) {
      SCOPED_TRACE(c.name() + " " + std::string(name_of(compute)));
      const HostTensors host = test::make_host_tensors(c, compute);
      const cpu::InstructionSet best(sets.front());
      CaseTensors wanted(c, compute, host);
      run_case(*backend, c, wanted.tensors());
      for (const int64_t set : sets) {
        const cpu::InstructionSet chosen(set);
        CaseTensors tensors(c, compute, host);
        run_case(*backend, c, tensors.tensors());
        for (const test::TensorSpec& spec : c.tensors)
          if (spec.use == Use::Output || spec.use == Use::InOut) {
            EXPECT_TRUE(tensors[spec.name].bytes() == wanted[spec.name].bytes())
                << spec.name << " on " << hwy::TargetName(set);
          }
      }
    }
}

}  // namespace
}  // namespace tessera
