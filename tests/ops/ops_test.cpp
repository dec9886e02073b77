// SPDX-License-Identifier: Apache-2.0
// Each case on the CPU backend, in each storage type: against the reference, with poisoned outputs and
// guard bytes, and with 1, 2 and 3 threads.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "framework/backends/cpu/cpu_backend.h"
#include "tests/ops/case_data.h"

namespace tessera::test {
namespace {

constexpr DType kTypes[] = {DType::F64, DType::F32, DType::BF16, DType::F16};

std::unique_ptr<Backend> backend_with(int threads) {
  return make_cpu_backend(threads, {.poison = true});
}

std::vector<OpCase> cases_of(const std::string& op) {
  std::vector<OpCase> cases = op_cases();
  std::erase_if(cases, [&](const OpCase& c) { return c.op != op; });
  return cases;
}

std::set<std::string> op_names() {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) names.insert(c.op);
  return names;
}

bool is_result(const TensorSpec& spec) {
  return spec.use == Use::Output || spec.use == Use::InOut;
}

class Ops : public ::testing::TestWithParam<std::string> {};

TEST_P(Ops, agrees_with_the_reference) {
  const auto backend = backend_with(2);
  for (const OpCase& c : cases_of(GetParam()))
    for (const DType compute : kTypes) {
      SCOPED_TRACE(c.name() + " " + std::string(name_of(compute)));
      HostTensors host = make_host_tensors(c, compute);
      CaseTensors tensors(c, compute, host);
      run_case(*backend, c, tensors.tensors());
      reference(c.op, c, host);
      for (const TensorSpec& spec : c.tensors) {
        if (!is_result(spec)) continue;
        const double bound = tolerance(compute, dtype_of_spec(spec, compute), c.sum_length);
        const std::string problem = difference(tensors[spec.name].read(), host.at(spec.name), bound);
        EXPECT_EQ(problem, "") << spec.name;
      }
    }
}

TEST_P(Ops, leaves_inputs_and_surroundings_alone) {
  const auto backend = backend_with(1);
  for (const OpCase& c : cases_of(GetParam()))
    for (const DType compute : kTypes) {
      SCOPED_TRACE(c.name() + " " + std::string(name_of(compute)));
      const HostTensors host = make_host_tensors(c, compute);
      CaseTensors tensors(c, compute, host), untouched(c, compute, host);
      run_case(*backend, c, tensors.tensors());
      EXPECT_EQ(tensors.damaged().value_or(""), "");
      std::set<std::string> written;
      for (const TensorSpec& spec : c.tensors)
        if (is_result(spec)) written.insert(spec.alias.empty() ? spec.name : spec.alias);
      for (const TensorSpec& spec : c.tensors)
        if (!written.contains(spec.name) && spec.alias.empty()) {
          EXPECT_TRUE(tensors[spec.name].bytes() == untouched[spec.name].bytes()) << spec.name;
        }
    }
}

TEST_P(Ops, gives_the_same_bits_with_any_number_of_threads) {
  const auto one = backend_with(1), two = backend_with(2), three = backend_with(3);
  for (const OpCase& c : cases_of(GetParam()))
    for (const DType compute : kTypes) {
      SCOPED_TRACE(c.name() + " " + std::string(name_of(compute)));
      const HostTensors host = make_host_tensors(c, compute);
      CaseTensors wanted(c, compute, host);
      run_case(*one, c, wanted.tensors());
      for (Backend* backend : {two.get(), three.get()}) {
        CaseTensors tensors(c, compute, host);
        run_case(*backend, c, tensors.tensors());
        for (const TensorSpec& spec : c.tensors)
          if (is_result(spec)) {
            EXPECT_TRUE(tensors[spec.name].bytes() == wanted[spec.name].bytes()) << spec.name;
          }
      }
    }
}

// Central differences in F64. Every element of small tensors, a sample of large ones.
TEST_P(Ops, has_the_gradient_of_its_forward) {
  const auto backend = backend_with(2);
  for (const OpCase& c : cases_of(GetParam())) {
    const GradientSpec gradient = gradient_spec(c);
    if (gradient.forward.empty() || c.tensors.front().row_gap > 0) continue;
    SCOPED_TRACE(c.name());
    const HostTensors host = make_host_tensors(c, DType::F64);
    const auto loss = [&](const HostTensors& values) {
      HostTensors start = values;
      if (start.contains("total")) start["total"] = {0};
      CaseTensors tensors(c, DType::F64, start);
      run_op(*backend, gradient.forward, c, tensors.tensors());
      const std::vector<double> y = tensors[gradient.output].read();
      const std::vector<double>& dy = values.at(gradient.output_gradient);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
      return sum;
    };
    HostTensors start = host;
    for (const auto& [input, result] : gradient.gradients)
      if (input != result && c.find(result) && c.find(result)->use == Use::InOut)
        start[result].assign(start[result].size(), 0);
    CaseTensors tensors(c, DType::F64, start);
    run_case(*backend, c, tensors.tensors());
    for (const auto& [input, result] : gradient.gradients) {
      if (!c.find(result)) continue;  // frozen
      const std::vector<double> analytic = tensors[result].read();
      std::vector<double> sampled, numeric;
      const size_t stride = std::max<size_t>(1, analytic.size() / 15) | 1;
      for (size_t i = 0; i < analytic.size(); i += stride) {
        HostTensors moved = host;
        const double x = moved.at(input)[i], step = 1e-4 * std::max(1.0, std::abs(x));
        moved.at(input)[i] = x + step;
        const double above = loss(moved);
        moved.at(input)[i] = x - step;
        numeric.push_back((above - loss(moved)) / (2 * step));
        sampled.push_back(analytic[i]);
      }
      // Differences lose half of the digits of a double.
      EXPECT_EQ(difference(sampled, numeric, 1e-6), "") << result;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Ops, ::testing::ValuesIn(op_names()),
                         [](const auto& tested) { return tested.param; });

TEST(OpCases, have_names_of_their_own) {
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) EXPECT_TRUE(names.insert(c.name()).second) << c.name();
  EXPECT_GT(names.size(), 150u);
}

TEST(OpCases, the_comparison_finds_what_it_must) {
  EXPECT_EQ(difference({1, 2}, {1, 2}, 1e-12), "");
  EXPECT_NE(difference({1, 2.001}, {1, 2}, 1e-5), "");
  EXPECT_NE(difference({NAN, 2}, {1, 2}, 1), "");
  EXPECT_NE(difference({INFINITY, 2}, {-INFINITY, 2}, 1), "");
  EXPECT_EQ(difference({-INFINITY, 2}, {-INFINITY, 2}, 1e-12), "");
  EXPECT_NE(difference({1}, {1, 2}, 1), "");
  EXPECT_NE(difference({0.5, 0}, {0, 0}, 1e-5), "");
  // One wrong element among very many.
  std::vector<double> wanted(100000, 1.0), got = wanted;
  got[777] = 1.01;
  EXPECT_NE(difference(got, wanted, 1e-4), "");
}

}  // namespace
}  // namespace tessera::test
